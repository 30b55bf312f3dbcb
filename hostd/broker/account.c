/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory. A worker takes memory only after it was charged here, so a tenant's use
 * never exceeds its limit, nor all use the device. What a worker gives back is believed
 * up to what it had been charged; the rest comes back when the process is gone.
 */
#include <errno.h>

#include "broker/broker.h"

int account_charge(struct worker *w, uint64_t bytes)
{
	struct tenant *t = w->tenant;
	struct broker *b = w->b;

	if (bytes > t->memory_max || t->used > t->memory_max - bytes)
		return -EDQUOT;
	if (bytes > b->device_total || b->device_used > b->device_total - bytes)
		return -ENOMEM;
	t->used += bytes;
	b->device_used += bytes;
	w->charged += bytes;
	w->peak = MAX(w->peak, w->charged);
	t->peak = MAX(t->peak, t->used);
	return 0;
}

void account_uncharge(struct worker *w, uint64_t bytes)
{
	bytes = MIN(bytes, w->charged);
	w->charged -= bytes;
	w->tenant->used -= bytes;
	w->b->device_used -= bytes;
}

void account_left(const struct tenant *t, uint64_t *ret_free, uint64_t *ret_total)
{
	const struct broker *b = t->b;
	uint64_t device = b->device_total - b->device_used;
	uint64_t quota = t->memory_max > t->used ? t->memory_max - t->used : 0;

	*ret_free = MIN(device, quota);
	*ret_total = MIN(b->device_total, t->memory_max);
}
