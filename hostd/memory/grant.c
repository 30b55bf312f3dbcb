/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/grant.h"
#include "memory/hostpool.h"
#include "memory/ledger.h"
#include "memory/pieces.h"
#include "memory/region.h"

static unsigned count_pieces(const struct space *sp, uint64_t here, uint64_t away)
{
	unsigned n = here ? (unsigned)((here - 1) / sp->extent_bytes) + 1 : 0;

	for (; away; away -= piece_size(sp, away))
		n++;
	return n;
}

static struct piece *next_piece(struct space_chunk *c, uint64_t offset, uint64_t size)
{
	struct piece *p = &c->piece[c->n_pieces++];

	*p = (struct piece){.offset = offset, .size = size};
	return p;
}

/* A chunk of which the last bytes lie in host memory; the rest is still to be made. */
static struct space_chunk *spilled_new(struct space *sp, uint64_t size, uint64_t away)
{
	uint64_t here = size - away;
	struct space_chunk *c = chunk_blank(size, count_pieces(sp, here, away));
	struct piece *p;

	if (!c)
		return NULL;
	for (uint64_t at = 0; at < here; at += p->size) {
		p = next_piece(c, at, MIN(sp->extent_bytes, here - at));
		piece_set_state(c, p, PIECE_RESIDENT);
	}
	for (uint64_t at = here; at < size; at += p->size) {
		p = next_piece(c, at, piece_size(sp, size - at));
		p->host = hostpool_take(sp->hostpool, p->size);
		if (!p->host) {
			c->n_pieces--;
			chunk_release(sp, c);
			return NULL;
		}
		piece_set_state(c, p, PIECE_MAPPED);
	}
	return c;
}

CUresult grant_take(struct space *sp, uint64_t bytes, struct grant *ret_g)
{
	CUresult r;

	*ret_g = (struct grant){0};
	r = ledger_charge_part(sp, bytes, &ret_g->away);
	if (r != CUDA_SUCCESS)
		return r;
	ret_g->bytes = bytes;
	if (!ret_g->away)
		return CUDA_SUCCESS;
	ret_g->chunk = spilled_new(sp, bytes, ret_g->away);
	if (ret_g->chunk)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&sp->lock);
	grant_drop_locked(sp, ret_g);
	pthread_mutex_unlock(&sp->lock);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult grant_take_host(struct space *sp, uint64_t bytes, struct grant *ret_g)
{
	CUresult r = space_charge(sp, bytes);

	*ret_g = (struct grant){.bytes = r ? 0 : bytes, .in_host_memory = true};
	return r;
}

void grant_drop_locked(struct space *sp, struct grant *g)
{
	if (g->chunk)
		chunk_release(sp, steal(g->chunk));
	ledger_uncharge_part_locked(sp, g->bytes, g->away);
	g->bytes = g->away = 0;
}
