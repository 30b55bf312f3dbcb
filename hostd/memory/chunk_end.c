/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a chunk that nobody refers to any more: its charge goes back to weftd, and
 * its memory to the device, at once or when it has lain idle. Other sessions that share
 * the memory keep it.
 */
#include "ipc/accounts.h"
#include "memory/chunk.h"
#include "memory/ledger.h"
#include "memory/region.h"

static void share_end_locked(struct space *sp, struct space_chunk *c)
{
	const struct accounts *b = sp->env->accounts;
	struct space_chunk was = *c;

	chunk_release(sp, c); /* before anybody is told that it is free */
	if (was.share == CHUNK_IMPORTED) {
		sp->n_imported -= was.n_pieces;
		b->ipc_close(b->arg, was.name);
	} else {
		sp->n_exported -= was.n_pieces;
		ledger_unbook_locked(sp, was.size);
		b->ipc_drop(b->arg, was.name);
	}
}

void chunk_put_locked(struct space *sp, struct space_chunk *c)
{
	if (!c || --c->refs)
		return;
	list_remove(&c->link);
	list_remove(&c->in_space);
	if (c->share == CHUNK_OWN && c->charged)
		ledger_uncharge_part_locked(sp, c->size - c->bytes[PIECE_FREE],
					    chunk_evicted(c));
	c->charged = false;
	chunk_count_locked(sp, c);
	if (c->share != CHUNK_OWN)
		share_end_locked(sp, c);
	else if (chunk_as_new(sp, c))
		idle_put_locked(sp, c);
	else
		chunk_release(sp, c);
}
