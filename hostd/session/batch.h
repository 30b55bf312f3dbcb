/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that a lane has taken and not submitted yet, because another one lay behind
 * each of them already: a device takes many at once for less. Whatever else the
 * lane does, it submits them first; nothing waits while a batch is open. To others a
 * launch has happened when it was submitted: until then its ticket is not done. Of
 * launches that are apart (WIRE_F_APART) each lane has a batch of its own at the same
 * time.
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
	bool apart; /* all of them; if not, the tickets follow each other */
	uint64_t tickets[DEV_BATCH_MAX];
	struct dev_ctx *ctx;
	struct dev_stream *stream;
	struct dev_launch launches[DEV_BATCH_MAX];
	uint32_t used; /* of params */
	_Alignas(16) char params[BATCH_PARAMS];
};

enum batch_add {
	BATCH_TAKEN, /* launched, or it will be; the batch ends its ticket */
	BATCH_ALONE, /* the caller has to launch it, after batch_end() */
};

/* Whether the command in hand goes on with the lane's batch, as far as its head says. */
bool batch_goes_on(const struct sess_lane *sl);

/* Waits until all tickets up to one are executed, as a command that is apart has to before
 * it looks for objects; ends the batch first if that is not so yet. Not inside the gate.
 * Returns 0, -EPROTO (not below its own ticket) or -EPIPE. */
int batch_after(struct sess_lane *sl, uint64_t ticket);

/* Takes a launch, the command in hand; submits first those that are for another stream.
 * Parameters are copied if it is not launched at once. */
enum batch_add batch_add(struct sess_lane *sl, struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_launch *l);

/* The command in hand is done with. Submits what has no reason to wait any more. */
void batch_submit_due(struct sess_lane *sl);

/* Submits. A failure is remembered as that of any command without a reply; if the session
 * has ended, nothing is. */
void batch_end(struct sess_lane *sl);

#endif
