/* SPDX-License-Identifier: Apache-2.0 */
#include "session/portion.h"
#include "base/macros.h"

/* Portions after which it is decided: with neighbours some go by without them. */
#define SEEN 16u
/* Decisions after which few commands are more again, for once. */
#define FEW 32u

void portion_init(struct portion *b)
{
	*b = (struct portion){.n = PORTION_FIRST};
}

/*
 * Twice or half as many at most. Where a few commands take no longer than a lane does to come
 * again, neighbours have the device after every portion, and none is quick: whether more of
 * them are is seen by trying.
 */
static void decide(struct portion *b)
{
	uint64_t n = PORTION_NS / MAX(b->least_ns, 1ull);

	n = MIN(MAX(n, b->n / 2ull), 2ull * b->n);
	b->n = (unsigned)MAX(MIN(n, (uint64_t)PORTION_MAX), 1ull);
	b->n_few = b->n < PORTION_FIRST ? b->n_few + 1 : 0;
	if (b->n_few >= FEW) {
		b->n = PORTION_FIRST;
		b->n_few = 0;
	}
	b->n_seen = 0;
}

void portion_done(struct portion *b, unsigned n, uint64_t took_ns)
{
	uint64_t each = took_ns / MAX(n, 1u);

	b->least_ns = b->n_seen ? MIN(b->least_ns, each) : each;
	if (++b->n_seen == SEEN)
		decide(b);
}

void portion_shrink(struct portion *b)
{
	b->n = MAX(b->n / 4, 1u);
	b->n_seen = 0;
}
