/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parking on a 32-bit word. The word is changed with release order before the wake, and
 * read with acquire order by the parked side.
 *
 * #syscalls futex
 */
#ifndef WEFT_DEVICE_FUTEX_H
#define WEFT_DEVICE_FUTEX_H

#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is val; may return early. timeout is relative, NULL for none. */
static inline void futex_wait(uint32_t *word, uint32_t val,
			      const struct timespec *timeout)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, val, timeout, NULL, 0);
}

static inline void futex_wake(uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

#endif
