/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "device/cuda/driver.h"
#include "device/cuda/tools/callback.h"

/* The driver's private table of callbacks, 12 words in 580; its size comes first. Where the
 * calls are, and which event an upload is, was found by libsmctrl (RTAS 2023), by watching
 * CUPTI. */
#define SLOT_SUBSCRIBE 3
#define SLOT_ENABLE    6

static const struct {
	int domain, event;
} events[] = {
	[CUDA_CALLBACK_UPLOAD] = {0xb, 1},
	/* Found on an H100, by asking for all events while a module was loaded. */
	[CUDA_CALLBACK_MODULE] = {0x2, 17},
};

static const CUuuid table_id = {{0x2c, (char)0x8e, 0x0a, (char)0xd8, 0x07, 0x10,
				 (char)0xab, 0x4e, (char)0x90, (char)0xdd, 0x54, 0x71,
				 (char)0x9f, (char)0xe5, (char)0xf7, 0x4b}};

static struct {
	pthread_mutex_t lock; /* of who subscribes */
	CUresult (*enable)(uint32_t on, uint32_t subscriber, int domain, int event);
	uint32_t subscriber;
	_Atomic(void (*)(const void *params)) fn[CUDA_CALLBACKS];
} callbacks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_event(void *arg, int domain, int event, const void *params)
{
	void (*fn)(const void *);

	(void)arg;
	for (unsigned i = 0; i < CUDA_CALLBACKS; i++) {
		if (events[i].domain != domain || events[i].event != event)
			continue;
		fn = atomic_load_explicit(&callbacks.fn[i], memory_order_acquire);
		if (fn)
			fn(params);
	}
}

static bool subscribe_locked(void)
{
	CUresult (*subscribe)(uint32_t * ret, void (*fn)(void *, int, int, const void *),
			      void *arg);
	const void *table;
	void *const *slots;
	uintptr_t size;

	if (callbacks.enable)
		return true;
	if (cu.cuGetExportTable(&table, &table_id) || !table)
		return false;
	memcpy(&size, table, sizeof(size));
	if (size <= SLOT_ENABLE * sizeof(void *))
		return false;
	slots = (void *const *)table;
	memcpy(&subscribe, &slots[SLOT_SUBSCRIBE], sizeof(subscribe));
	if (subscribe(&callbacks.subscriber, on_event, NULL))
		return false;
	memcpy(&callbacks.enable, &slots[SLOT_ENABLE], sizeof(callbacks.enable));
	return true;
}

bool cuda_callback_known(void)
{
	bool known;

	pthread_mutex_lock(&callbacks.lock);
	known = subscribe_locked();
	pthread_mutex_unlock(&callbacks.lock);
	return known;
}

bool cuda_callback_set(enum cuda_callback what, void (*fn)(const void *params))
{
	if (!cuda_callback_known())
		return false;
	if (fn)
		atomic_store(&callbacks.fn[what], fn);
	return !callbacks.enable(fn != NULL, callbacks.subscriber, events[what].domain,
				 events[what].event);
}
