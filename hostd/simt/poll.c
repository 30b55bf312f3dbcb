/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spin loops. A loop that reads memory until it changes looks like any other; but what
 * comes back to the same read with everything as it was, registers and stack, has done
 * nothing in between and will do nothing until somebody else writes. It gives its turn
 * away, and the block is told. A loop that works and looks at a flag meanwhile differs
 * from one round to the next.
 */
#include "simt/cta.h"

#define MAX_BYTES (64u << 10) /* larger states are taken to be new */
#define PRIME     0x9e3779b97f4a7c15ull

static uint64_t hash(uint64_t h, const void *bytes, size_t size)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < size; i += 8) {
		uint64_t v;

		memcpy(&v, p + i, 8);
		h = (h ^ v) * PRIME;
		h ^= h >> 29;
	}
	return h;
}

/* 0: too large. */
static uint64_t state_of(const struct simt_warp *w, const struct simt_split *s)
{
	size_t size = (size_t)s->frame->top * SIMT_WARP;
	/* The block before may have been there with the same registers. */
	uint64_t h = s->mask | (uint64_t)w->starts << 32;

	for (const struct simt_frame *f = s->frame; f; f = f->caller) {
		size += f->code->frame_bytes;
		if (size > MAX_BYTES)
			return 0;
		h = hash(h, f->regs, f->code->frame_bytes);
	}
	FOR_LANES(s->mask, i)
	h = hash(h, w->local + (size_t)i * w->local_stride, ALIGN_DOWN(s->frame->top, 8));
	return h | 1;
}

/* After a read that others may be asked to change: volatile, relaxed, acquire. */
static SIMT_HANDLER(op_poll)
{
	struct simt_split *s = w->cur;
	uint64_t state;

	if (++w->spins < SIMT_SPIN_LIMIT)
		return op + 1;
	state = state_of(w, s);
	if (s->polled != op || s->state_then != state || !state)
		w->moved = true;
	s->polled = op;
	s->state_then = state;
	s->pc = op + 1;
	w->event = SIMT_EV_YIELD;
	return NULL;
}

const struct simt_handler simt_h_poll[] = {
	{"poll", op_poll},
	{NULL, NULL},
};
