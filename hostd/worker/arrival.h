/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests on their way: weftd has said who comes, and the tenant's listener sends the
 * socket by a pair of its own, a moment later. The listener is not waited for: other
 * lanes run.
 */
#ifndef WEFT_WORKER_ARRIVAL_H
#define WEFT_WORKER_ARRIVAL_H

#include "ipc/msg.h"

/* Lanes that may be on their way at once. */
#define ARRIVALS_MAX 256u

struct arrivals {
	int epoll;
	uint64_t first_event; /* number i has this plus i as its event's data */
	struct arrival *of[ARRIVALS_MAX];
};

/* m is an ATTACH or a LANE; both descriptors are taken over. Returns 0, -EAGAIN (too
 * many) or -errno. */
int arrivals_add(struct arrivals *a, const struct msg *m, int from, int window_fd);

/* Takes arrival number i, whose event has come. Returns 0 with what was added and the
 * guest's socket (-1: it has gone; both descriptors are the caller's), or -EAGAIN:
 * nothing yet. */
int arrivals_take(struct arrivals *a, unsigned i, struct msg *ret_m, int *ret_sock,
		  int *ret_window_fd);

#endif
