/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "device/rewrite/cost.h"

static bool is_timed(const struct cost *c, unsigned form)
{
	return c->n[form] >= COST_SAMPLES;
}

enum cost_verdict cost_verdict(const struct cost *c)
{
	if (!is_timed(c, COST_PLAIN) || !is_timed(c, COST_PARTS))
		return COST_OPEN;
	return c->ns[COST_PARTS] * 1000 <= c->ns[COST_PLAIN] * (1000 + COST_MAX)
		       ? COST_COPY
		       : COST_LEAVE;
}

unsigned cost_next(const struct cost *c)
{
	switch (cost_verdict(c)) {
	case COST_OPEN:
		return c->n[COST_PLAIN] < c->n[COST_PARTS] ? COST_PLAIN : COST_PARTS;
	case COST_LEAVE:
		return COST_FORMS;
	case COST_COPY:
		break;
	}
	for (unsigned form = COST_PARTS - 1; form > COST_PLAIN; form--) {
		if (!is_timed(c, form))
			return form;
	}
	return COST_FORMS;
}

void cost_note(struct cost *c, unsigned form, uint64_t blocks, double ns)
{
	double each = ns / (double)MAX(blocks, 1ull);

	if (!c->n[form] || each < c->ns[form])
		c->ns[form] = each;
	c->n[form]++;
}

unsigned cost_speed(const struct cost *c, unsigned parts)
{
	double best;

	if (!is_timed(c, parts) || !is_timed(c, COST_PARTS))
		return 0;
	best = c->ns[parts];
	for (unsigned i = 1; i < parts; i++) {
		if (is_timed(c, i))
			best = MIN(best, c->ns[i]);
	}
	/* Fewer blocks that are quicker than all of them leave it at that. */
	return best > 0 ? (unsigned)MIN(1000.0, c->ns[COST_PARTS] * 1000 / best) : 1000;
}
