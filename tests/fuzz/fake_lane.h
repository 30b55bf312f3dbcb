/* SPDX-License-Identifier: Apache-2.0 */
/* A lane of a carrier that the target is. */
#ifndef WEFT_FUZZ_FAKE_LANE_H
#define WEFT_FUZZ_FAKE_LANE_H

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carrier.h"

/* tickets: the guest's end; NULL: the worker's. Whoever has it frees it by lane_free(). */
static inline struct lane *fake_lane(const struct carrier_ops *ops,
				     struct lane_tickets *tickets)
{
	struct lane_init init = {.guest = tickets != NULL, .tickets = tickets};
	struct lane *l;
	int s[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		abort();
	init.sock = s[0];
	if (lane_new(&init, &l) < 0)
		abort();
	close(s[1]);
	l->ops->fini(l);
	l->ops = ops;
	return l;
}

#endif
