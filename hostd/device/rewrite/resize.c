/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that run take fewer blocks of an SM, or more, as whoever shares the device with others
 * says by now. Blocks that are too many end when they have done their block of the grid; those that
 * are missing come by a further launch.
 */
#include "base/macros.h"
#include "device/rewrite/run.h"

/* Only the first of a stream's launches that are not done can have begun. */
static bool is_first_locked(const struct run *r)
{
	const struct run *i;

	list_for_each (i, &codes.runs, link) {
		if (i == r)
			return true;
		if (i->st == r->st && i->ctx == r->ctx)
			return false;
	}
	return false;
}

/*
 * Blocks are told apart by their numbers, by which they are kept. So new ones begin only when all
 * that were told to end have ended: as many run as may, and none of these ends while the grid has
 * blocks left.
 */
static void grow_locked(struct run *r, unsigned n)
{
	uint32_t taken, ended;

	if (run_progress_locked(r, &taken, &ended) || taken >= r->grid) {
		r->room = 0; /* nothing is left to be taken */
		return;
	}
	if (taken && r->launched - ended == r->may && run_add_locked(r, n))
		r->room = 0;
}

static void resize_locked(struct run *r, uint64_t permille)
{
	unsigned n;

	if (r->state != RUN_GOES || !r->code || !r->room)
		return;
	n = (unsigned)MIN(r->grid, (uint64_t)limited(r->room, permille) * codes.n_sms);
	if (n < r->may && run_limit_locked(r, n))
		r->room = 0;
	if (n > r->may && is_first_locked(r))
		grow_locked(r, n);
}

void resize(struct device *dev)
{
	uint64_t permille = permille_now();
	struct run *r;

	if (permille == DEV_BLOCKS_PLAIN)
		return;
	pthread_mutex_lock(&codes.run_lock);
	if (!list_empty(&codes.runs))
		run_reap_locked(UINT32_MAX);
	list_for_each (r, &codes.runs, link) {
		if (codes.held)
			break;
		resize_locked(r, permille);
	}
	pthread_mutex_unlock(&codes.run_lock);
}
