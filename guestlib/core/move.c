/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: the helpers
 *
 * One processor moves less than what the bus does: about 8 GB/s of memory that is in no
 * cache, where the bus does 55. So large copies are shared with a few helper threads.
 * They are made at the first large copy, poll for the next piece for a moment, and sleep
 * after that; one copy at a time has them. They take no signals and call nothing.
 *
 * A piece is announced by a new value of `round`; each helper does its part and counts
 * `left` down.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/macros.h"
#include "core/move.h"

#define HELPERS_MAX 3u
/* A part smaller than that is not worth telling somebody. */
#define PART_MIN ((size_t)32 << 10)
/* Looks before sleeping: about 50 us. */
#define LOOKS 1500u

static struct {
	atomic_flag busy;
	unsigned n; /* helpers; under busy */
	bool tried;
	_Alignas(64) _Atomic uint32_t round;
	_Atomic uint32_t asleep;
	char *dst; /* of the round */
	const char *src;
	size_t size, part;
	_Alignas(64) _Atomic unsigned left;
} help = {.busy = ATOMIC_FLAG_INIT};

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void do_part(unsigned i)
{
	size_t at = i * help.part;

	if (at < help.size)
		memcpy(help.dst + at, help.src + at, MIN(help.part, help.size - at));
}

/* The next round after `seen`. */
static uint32_t next_round(uint32_t seen)
{
	uint32_t now;

	for (unsigned i = 0; i < LOOKS; i++) {
		/* acquire pairs with the release in move_bytes() */
		now = atomic_load_explicit(&help.round, memory_order_acquire);
		if (now != seen)
			return now;
		__builtin_ia32_pause();
	}
	/* Both sequentially consistent: either this sees the round, or the other side
	 * sees that somebody sleeps. */
	atomic_fetch_add(&help.asleep, 1);
	while ((now = atomic_load(&help.round)) == seen)
		futex(&help.round, FUTEX_WAIT_PRIVATE, seen);
	atomic_fetch_sub(&help.asleep, 1);
	return now;
}

static void *helper(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	uint32_t round = 0;

	for (;;) {
		round = next_round(round);
		do_part(i);
		/* release: the parts are done when move_bytes() sees 0 */
		atomic_fetch_sub_explicit(&help.left, 1, memory_order_release);
	}
	return NULL;
}

/* One processor for the caller, one for the worker's thread. */
static unsigned helpers_wanted(void)
{
	unsigned cpus = cpus_allowed();

	return cpus <= 2 ? 0 : MIN(cpus - 2, HELPERS_MAX);
}

static void start_helpers(void)
{
	sigset_t all, old;
	pthread_attr_t attr;

	help.tried = true;
	if (pthread_attr_init(&attr))
		return;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, (size_t)64 << 10);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (unsigned i = helpers_wanted(); i > 0; i--) {
		pthread_t thread;

		if (pthread_create(&thread, &attr, helper,
				   (void *)(uintptr_t)(help.n + 1)))
			break;
		help.n++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
}

bool move_begin(void)
{
	if (atomic_flag_test_and_set_explicit(&help.busy, memory_order_acquire))
		return false;
	if (!help.tried)
		start_helpers();
	if (help.n)
		return true;
	move_end();
	return false;
}

void move_end(void)
{
	atomic_flag_clear_explicit(&help.busy, memory_order_release);
}

void move_bytes(void *dst, const void *src, size_t size, bool helped)
{
	if (!helped || size < (help.n + 1) * PART_MIN) {
		memcpy(dst, src, size);
		return;
	}
	help.dst = dst;
	help.src = src;
	help.size = size;
	help.part = ALIGN_UP(size / (help.n + 1) + 1, (size_t)4096);
	atomic_store_explicit(&help.left, help.n, memory_order_relaxed);
	atomic_fetch_add(&help.round, 1);
	if (atomic_load(&help.asleep))
		futex(&help.round, FUTEX_WAKE_PRIVATE, HELPERS_MAX);
	do_part(0);
	while (atomic_load_explicit(&help.left, memory_order_acquire))
		__builtin_ia32_pause();
}

void move_prepare(const void *dst, size_t size)
{
	const char *line = dst;

	for (size_t at = 0; at < size; at += 64)
		__builtin_prefetch(line + at, 1);
}
