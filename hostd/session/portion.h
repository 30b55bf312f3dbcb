/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many commands make a portion (gate.h), so that the device takes about PORTION_NS for it,
 * whatever they are. It is not known what one takes, but when the device has done each portion;
 * and others have the device meanwhile, though not during every one.
 */
#ifndef WEFT_SESS_PORTION_H
#define WEFT_SESS_PORTION_H

#include <stdint.h>

#include "base/clock.h"

#define PORTION_NS    (NSEC_PER_MSEC * 3 / 2)
#define PORTION_FIRST 16u
#define PORTION_MAX   1024u

struct portion {
	unsigned n; /* of a portion, 1 to PORTION_MAX */
	/* Portions that were done since it was decided, and the least that a command of them
	 * took. */
	unsigned n_seen;
	uint64_t least_ns;
	unsigned n_few; /* decisions in a row for less than PORTION_FIRST */
};

void portion_init(struct portion *b);
/* The device has done a portion of n commands, for which it took so long. */
void portion_done(struct portion *b, unsigned n, uint64_t took_ns);
/* Portions took much too long: a fourth of one from now on. */
void portion_shrink(struct portion *b);

#endif
