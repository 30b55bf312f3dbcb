/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/pieces.h"
#include "memory/region.h"

uint64_t piece_size(const struct space *sp, uint64_t bytes)
{
	return bytes >= sp->piece_bytes ? sp->piece_bytes
					: 1ull << (63 - __builtin_clzll(bytes));
}

unsigned pieces_of(const struct space *sp, uint64_t bytes)
{
	return (unsigned)(bytes / sp->piece_bytes) +
	       (unsigned)__builtin_popcountll(bytes % sp->piece_bytes);
}

int pieces_reserve(struct backing *c, unsigned n)
{
	unsigned room = c->n_pieces + c->moving_pieces + n;
	struct piece *p;

	if (room <= c->room)
		return 0;
	p = calloc(room, sizeof(*p));
	if (!p)
		return -ENOMEM;
	memcpy(p, c->piece, c->n_pieces * sizeof(*p));
	if (c->piece != &c->one)
		free(c->piece);
	c->piece = p;
	c->room = room;
	return 0;
}

unsigned pieces_at(const struct backing *c, uint64_t offset)
{
	unsigned first = 0, last = c->n_pieces - 1;

	while (first < last) {
		unsigned mid = first + (last - first + 1) / 2;

		if (c->piece[mid].offset <= offset)
			first = mid;
		else
			last = mid - 1;
	}
	return first;
}

unsigned pieces_run(const struct backing *c, uint64_t offset, uint64_t size,
		    unsigned *ret_first)
{
	unsigned first = pieces_at(c, offset), n = 0;
	const struct piece *p = &c->piece[first];
	uint64_t bytes = 0;

	if (p->offset != offset)
		return 0;
	while (bytes < size && first + n < c->n_pieces && p[n].state == p->state)
		bytes += p[n++].size;
	if (bytes != size)
		return 0;
	*ret_first = first;
	return n;
}

void pieces_set_state(struct backing *c, unsigned first, unsigned n, enum piece_state to)
{
	for (unsigned i = first; i < first + n; i++)
		piece_set_state(c, &c->piece[i], to);
}

void pieces_resize(struct backing *c, unsigned i, unsigned was, unsigned n)
{
	memmove(&c->piece[i + n], &c->piece[i + was],
		(c->n_pieces - i - was) * sizeof(*c->piece));
	c->n_pieces += n - was;
}
