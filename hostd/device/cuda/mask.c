/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "device/cuda/driver.h"
#include "device/cuda/mask.h"

/* The driver's private table of callbacks, 12 words in 580; its size comes first. Where the
 * calls are, and which event it is, was found by libsmctrl (RTAS 2023), by watching CUPTI. */
#define SLOT_SUBSCRIBE 3
#define SLOT_ENABLE    6
#define DOMAIN_QMD     0xb
#define QMD_UPLOAD     1

/* Hopper's descriptor: its version, the bits of TPCs that must not have it, and that they
 * count (H100 and H200; version 4.0, as libsmctrl knows it). */
#define QMD_VERSION_AT 72
#define QMD_HOPPER     0x40
#define QMD_HOPPER_END 0x50
#define QMD_MASK_AT    304
#define QMD_MASK_COUNTS 0x80000000u

struct upload_params {
	uint64_t size; /* the lower half */
	void *unknown[3];
	unsigned char *qmd;
};

static const CUuuid table_id = {{0x2c, (char)0x8e, 0x0a, (char)0xd8, 0x07, 0x10,
				 (char)0xab, 0x4e, (char)0x90, (char)0xdd, 0x54, 0x71,
				 (char)0x9f, (char)0xe5, (char)0xf7, 0x4b}};

static struct {
	pthread_mutex_t lock; /* of who changes it */
	CUresult (*enable)(uint32_t on, uint32_t subscriber, int domain, int event);
	uint32_t subscriber;
	bool on;
	/* Odd while the words change. */
	_Atomic unsigned turn;
	_Atomic uint64_t off[2]; /* bits of TPCs that kernels do not run on */
	atomic_flag told;
} mask = {.lock = PTHREAD_MUTEX_INITIALIZER, .told = ATOMIC_FLAG_INIT};

unsigned cuda_mask_turn(void)
{
	return atomic_load_explicit(&mask.turn, memory_order_acquire);
}

static void read_mask(uint64_t ret[2])
{
	unsigned turn;

	do {
		turn = atomic_load_explicit(&mask.turn, memory_order_acquire);
		for (unsigned i = 0; i < 2; i++)
			ret[i] = atomic_load_explicit(&mask.off[i], memory_order_acquire);
	} while (turn & 1 || turn != atomic_load_explicit(&mask.turn, memory_order_relaxed));
}

static void write_mask(const uint64_t off[2])
{
	atomic_fetch_add(&mask.turn, 1);
	for (unsigned i = 0; i < 2; i++)
		atomic_store(&mask.off[i], off[i]);
	atomic_fetch_add(&mask.turn, 1);
}

/* In the thread that launches, before the descriptor goes to the device. */
static void on_upload(void *arg, int domain, int event, const void *params)
{
	const struct upload_params *p = params;
	uint64_t off[2];
	uint32_t word;

	(void)arg;
	if (domain != DOMAIN_QMD || event != QMD_UPLOAD || (uint32_t)p->size < sizeof(*p) ||
	    !p->qmd || p->qmd[QMD_VERSION_AT] < QMD_HOPPER ||
	    p->qmd[QMD_VERSION_AT] >= QMD_HOPPER_END) {
		if (!atomic_flag_test_and_set(&mask.told))
			log_error("cuda: a launch of another kind than is known runs on "
				  "all TPCs");
		return;
	}
	read_mask(off);
	memcpy(p->qmd + QMD_MASK_AT, off, sizeof(off));
	memcpy(&word, p->qmd, sizeof(word));
	word |= QMD_MASK_COUNTS;
	memcpy(p->qmd, &word, sizeof(word));
}

static bool subscribe_locked(void)
{
	CUresult (*subscribe)(uint32_t *ret, void (*fn)(void *, int, int, const void *),
			      void *arg);
	const void *table;
	void *const *slots;
	uintptr_t size;

	if (mask.enable)
		return true;
	if (cu.cuGetExportTable(&table, &table_id) || !table)
		return false;
	memcpy(&size, table, sizeof(size));
	if (size <= SLOT_ENABLE * sizeof(void *))
		return false;
	slots = (void *const *)table;
	memcpy(&subscribe, &slots[SLOT_SUBSCRIBE], sizeof(subscribe));
	if (subscribe(&mask.subscriber, on_upload, NULL))
		return false;
	memcpy(&mask.enable, &slots[SLOT_ENABLE], sizeof(mask.enable));
	return true;
}

/* Without a mask launches do not pay for it. */
static bool switch_locked(bool on)
{
	if (on == mask.on)
		return true;
	if (!subscribe_locked() ||
	    mask.enable(on, mask.subscriber, DOMAIN_QMD, QMD_UPLOAD))
		return false;
	mask.on = on;
	return true;
}

bool cuda_mask_set(const uint64_t bits[2])
{
	uint64_t off[2] = {bits ? ~bits[0] : 0, bits ? ~bits[1] : 0};
	bool ok = true;

	pthread_mutex_lock(&mask.lock);
	if (bits || mask.on) {
		ok = !bits || subscribe_locked();
		if (ok)
			write_mask(off);
		ok = ok && switch_locked(bits != NULL);
	}
	pthread_mutex_unlock(&mask.lock);
	return ok;
}
