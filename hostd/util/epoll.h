/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: epoll_pwait2 epoll_wait */
#ifndef WEFT_UTIL_EPOLL_H
#define WEFT_UTIL_EPOLL_H

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/macros.h"

#define EPOLL_FOREVER UINT64_MAX

/* As epoll_wait(2), but exact: that rounds up to milliseconds, which is how often some things
 * are looked at. Kernels before 5.11 can do no better. */
static inline int epoll_wait_ns(int epoll, struct epoll_event *ret, int max, uint64_t ns)
{
	const struct timespec ts = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				    .tv_nsec = (long)(ns % NSEC_PER_SEC)};
	int n = epoll_pwait2(epoll, ret, max, ns == EPOLL_FOREVER ? NULL : &ts, NULL);

	if (n >= 0 || errno != ENOSYS)
		return n;
	if (ns == EPOLL_FOREVER)
		return epoll_wait(epoll, ret, max, -1);
	/* A longer wait is made of several. */
	ns = MIN(ns, NSEC_PER_SEC) + NSEC_PER_MSEC - 1;
	return epoll_wait(epoll, ret, max, (int)(ns / NSEC_PER_MSEC));
}

#endif
