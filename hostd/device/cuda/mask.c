/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "device/cuda/mask.h"
#include "device/cuda/tools/callback.h"

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

static struct {
	pthread_mutex_t lock; /* of who changes it */
	bool on;
	bool some, needed; /* not all TPCs; some streams have less */
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

static _Thread_local const uint64_t *only; /* bits; NULL: as the mask says */

void cuda_mask_only(const uint64_t bits[2])
{
	only = bits;
}

/* In the thread that launches, before the descriptor goes to the device. */
static void on_upload(const void *params)
{
	const struct upload_params *p = params;
	uint64_t off[2];
	uint32_t word;

	if ((uint32_t)p->size < sizeof(*p) || !p->qmd ||
	    p->qmd[QMD_VERSION_AT] < QMD_HOPPER ||
	    p->qmd[QMD_VERSION_AT] >= QMD_HOPPER_END) {
		if (!atomic_flag_test_and_set(&mask.told))
			log_error("cuda: a launch of another kind than is known runs on "
				  "all TPCs");
		return;
	}
	read_mask(off);
	for (unsigned i = 0; only && i < 2; i++)
		off[i] |= ~only[i];
	memcpy(p->qmd + QMD_MASK_AT, off, sizeof(off));
	memcpy(&word, p->qmd, sizeof(word));
	word |= QMD_MASK_COUNTS;
	memcpy(p->qmd, &word, sizeof(word));
}

/* Without a mask launches do not pay for it. */
static bool switch_locked(bool on)
{
	if (on == mask.on)
		return true;
	if (!cuda_callback_set(CUDA_CALLBACK_UPLOAD, on ? on_upload : NULL))
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
		ok = !bits || cuda_callback_known();
		if (ok)
			write_mask(off);
		mask.some = bits && ok;
		ok = ok && switch_locked(bits || mask.needed);
	}
	pthread_mutex_unlock(&mask.lock);
	return ok;
}

bool cuda_mask_get(uint64_t ret_bits[2])
{
	bool some;

	pthread_mutex_lock(&mask.lock);
	some = mask.some;
	for (unsigned i = 0; i < 2; i++)
		ret_bits[i] = ~atomic_load(&mask.off[i]);
	pthread_mutex_unlock(&mask.lock);
	return some;
}

bool cuda_mask_need(void)
{
	bool ok;

	pthread_mutex_lock(&mask.lock);
	ok = switch_locked(true);
	mask.needed |= ok;
	pthread_mutex_unlock(&mask.lock);
	return ok;
}
