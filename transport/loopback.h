/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of a lane in one process: for tests, and as the model of a carrier. */
#ifndef WEFT_LOOPBACK_H
#define WEFT_LOOPBACK_H

#include "lane.h"

struct loopback {
	struct lane *guest, *worker;
	struct lane_tickets tickets; /* the guest end's */
	void *map;                   /* the window, or NULL */
	uint64_t map_size;
};

struct loopback_opts {
	enum wire_carrier carrier;
	uint64_t lane_size; /* of the window; 0 takes a middling one */
	unsigned spin_us;   /* both sides; 0 parks at once */
	void (*output)(const void *text, size_t size); /* see struct link_opts */
	struct lane_tickets *tickets; /* that several share; NULL: its own */
};

/*
 * Makes two connected lanes without a handshake. lb must not move afterwards. Returns 0
 * or -errno.
 */
int loopback_init(struct loopback *lb, const struct loopback_opts *opts);

/* Frees what is left of the lanes (set a pointer to NULL after freeing one). */
void loopback_fini(struct loopback *lb);

#endif
