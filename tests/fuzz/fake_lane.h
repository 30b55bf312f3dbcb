/* SPDX-License-Identifier: Apache-2.0 */
/* A lane of a carrier that the target is. */
#ifndef WEFT_FUZZ_FAKE_LANE_H
#define WEFT_FUZZ_FAKE_LANE_H

#include <stdlib.h>
#include <string.h>
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

/* A payload lies in memory of its own, so that a sanitizer sees what goes beyond it. False: no
 * carrier would have it. */
static inline bool fake_payload(struct lane_out *out)
{
	out->payload = out->payload_size ? malloc(out->payload_size) : NULL;
	return out->payload_size <= WIRE_PAYLOAD_MAX;
}

/* Reads all of what was said, and frees it. */
static inline void fake_said(struct lane_out *out)
{
	static uint8_t seen[WIRE_PAYLOAD_MAX];

	if (out->payload_size)
		memcpy(seen, out->payload, out->payload_size);
	free(out->payload);
	out->payload = NULL;
}

static inline void fake_fini(struct lane *l)
{
	(void)l;
}

#endif
