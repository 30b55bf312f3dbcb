/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/born.h"
#include "memory/hostpool.h"
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

/* What is away is there; the rest is to be had. */
static struct space_chunk *born_new(struct space *sp, uint64_t size, uint64_t away)
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

CUresult born_charge(struct space *sp, uint64_t bytes, struct born *ret)
{
	CUresult r = space_charge_part(sp, bytes, &ret->away);

	ret->bytes = bytes;
	ret->chunk = NULL;
	if (r != CUDA_SUCCESS || !ret->away)
		return r;
	ret->chunk = born_new(sp, bytes, ret->away);
	if (ret->chunk)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&sp->lock);
	uncharge_part_locked(sp, bytes, ret->away);
	pthread_mutex_unlock(&sp->lock);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void born_uncharge_locked(struct space *sp, const struct born *ch)
{
	if (ch->chunk)
		chunk_release(sp, ch->chunk);
	uncharge_part_locked(sp, ch->bytes, ch->away);
}

CUresult born_chunk_locked(struct space *sp, const struct born *ch,
			   struct space_chunk **ret_chunk)
{
	CUresult r;

	*ret_chunk = ch->chunk;
	r = ch->chunk ? chunk_born_locked(sp, ch->chunk)
		      : chunk_new_locked(sp, ch->bytes, false, ret_chunk);
	if (r != CUDA_SUCCESS)
		uncharge_part_locked(sp, ch->bytes, ch->away);
	return r;
}
