/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a backing that nobody refers to any more: its charge goes back to weftd, and
 * its memory to the device, at once or when it has lain idle. Other sessions that share
 * the memory keep it.
 */
#include "ipc/accounts.h"
#include "memory/backing.h"
#include "memory/ledger.h"
#include "memory/region.h"

static void share_end_locked(struct space *sp, struct backing *c)
{
	const struct accounts *b = sp->env->accounts;
	struct backing was = *c;

	mem_release(sp, c); /* before anybody is told that it is free */
	if (was.share == BACKING_IMPORTED) {
		sp->n_imported -= was.n_pieces;
		b->ipc_close(b->arg, was.name);
	} else {
		sp->n_exported -= was.n_pieces;
		ledger_unbook_locked(sp, was.size);
		b->ipc_drop(b->arg, was.name);
	}
}

void backing_put_locked(struct space *sp, struct backing *c)
{
	if (!c || --c->refs)
		return;
	list_remove(&c->link);
	list_remove(&c->in_space);
	if (c->share == BACKING_OWN && c->charged)
		ledger_uncharge_part_locked(sp, c->size - c->bytes[PIECE_FREE],
					    backing_evicted(c));
	c->charged = false;
	backing_count_locked(sp, c);
	if (c->share != BACKING_OWN)
		share_end_locked(sp, c);
	else if (backing_as_new(sp, c))
		idle_put_locked(sp, c);
	else
		mem_release(sp, c);
}
