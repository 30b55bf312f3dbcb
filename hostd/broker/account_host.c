/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that guests share with the device. In a VM it lies in the window, where
 * this keeps the places; they are given out in multiples of the grain.
 */
#include <errno.h>

#include "broker/broker.h"

int account_host_charge(struct worker *w, uint64_t bytes, uint64_t *ret_offset)
{
	struct tenant *t = w->tenant;
	uint64_t offset = 0;
	int r;

	if (!bytes || bytes > t->host_max || t->host_used > t->host_max - bytes)
		return -EDQUOT;
	if (w->slice >= 0) {
		r = window_host_take(&t->window, bytes, w, &offset);
		if (r < 0)
			return r;
	}
	t->host_used += bytes;
	w->host_charged += bytes;
	*ret_offset = offset;
	return 0;
}

void account_host_uncharge(struct worker *w, uint64_t offset, uint64_t bytes)
{
	if (w->slice >= 0)
		bytes = window_host_give_back(&w->tenant->window, offset, w);
	bytes = MIN(bytes, w->host_charged);
	w->host_charged -= bytes;
	w->tenant->host_used -= bytes;
}

void account_host_drop(struct worker *w)
{
	window_host_drop(&w->tenant->window, w);
	w->tenant->host_used -= w->host_charged;
	w->host_charged = 0;
}
