/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that a lane has taken and not submitted yet, because another one lay behind
 * each of them already: a device takes many at once for less. Whatever else the
 * lane does, it submits them first; nothing waits while a batch is open. To others a
 * launch has happened when it was submitted: until then its ticket is not done.
 *
 * Used by the lane's own thread only.
 */
#ifndef WEFT_SESS_BATCH_H
#define WEFT_SESS_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

struct sess_lane;

#define BATCH_PARAMS 8192u /* bytes, of all launches together */

struct batch {
	unsigned n;
	uint64_t last; /* ticket of the last one; the others' are just below it */
	struct dev_ctx *ctx;
	struct dev_stream *stream;
	struct dev_launch launches[DEV_BATCH_MAX];
	uint32_t used; /* of params */
	_Alignas(16) char params[BATCH_PARAMS];
};

/* Whether the command in hand goes on with the lane's batch, as far as its head says. */
bool batch_goes_on(const struct sess_lane *sl);

/*
 * Adds a launch, the command in hand, with a copy of its parameters; submits first those
 * that are for another stream. False: it has to be launched by itself, after batch_end().
 */
bool batch_add(struct sess_lane *sl, struct dev_ctx *ctx, struct dev_stream *st,
	       const struct dev_launch *l);

/* The command in hand is done with. Submits what has no reason to wait any more. */
void batch_settle(struct sess_lane *sl);

/* Submits. A failure is remembered as that of any command without a reply; if the session
 * has ended, nothing is. */
void batch_end(struct sess_lane *sl);

#endif
