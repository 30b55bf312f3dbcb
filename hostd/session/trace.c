/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "session/code.h"
#include "session/trace.h"

/* Index of the name of a function, which is written down once; 0: there is no room. */
static uint32_t name_of(struct session *s, struct sess_func *f)
{
	uint32_t i = atomic_load_explicit(&f->traced, memory_order_relaxed);
	struct trace_name *n;

	if (i || !s->trace ||
	    atomic_load_explicit(&s->trace->n_names, memory_order_relaxed) >= TRACE_NAMES)
		return i;
	/* Two threads may write it down twice; no more of them are there than lanes. */
	i = atomic_fetch_add_explicit(&s->trace->n_names, 1, memory_order_relaxed);
	if (i >= TRACE_NAMES)
		return 0;
	n = &s->trace->names[i];
	strncpy(n->text, f->name, sizeof(n->text) - 1);
	/* release: pairs with weftd's look */
	atomic_store_explicit(&n->ready, 1, memory_order_release);
	atomic_store_explicit(&f->traced, i + 1, memory_order_relaxed);
	return i + 1;
}

/* Streams that are no handles: the legacy one, and each lane's. */
static uint32_t track_of(const struct sess_lane *sl, uint64_t stream)
{
	if (stream == SESS_STREAM_THREAD)
		return SESS_STREAM_THREAD + sl->index;
	return (uint32_t)(stream ^ stream >> 32);
}

static uint64_t blocks_of(const struct dev_launch *l)
{
	return (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
}

void trace_launch(const struct sess_lane *sl, struct sess_func *f, uint64_t stream,
		  struct dev_launch *l)
{
	/* One without a name has a number, too. */
	l->traced = name_of(sl->s, f) + 1;
	l->track = track_of(sl, stream);
}

void trace_submitted(const struct sess_lane *sl, const struct dev_launch *l, unsigned n,
		     uint64_t begin_ns)
{
	uint64_t end_ns = clock_now_ns(), each = (end_ns - begin_ns) / n;

	/* Given to the device at once: each has its part of the time. */
	for (unsigned i = 0; i < n; i++) {
		const struct trace_record r = {
			.kind = TRACE_SUBMIT,
			.begin_ns = begin_ns + i * each,
			.end_ns = begin_ns + (i + 1) * each,
			.value = blocks_of(&l[i]),
			.track = sl->index,
			.name = l[i].traced - 1,
		};

		if (l[i].traced)
			trace_write(sl->s->trace, &r);
	}
}

void trace_write_lane(const struct sess_lane *sl, enum trace_kind kind, uint64_t begin_ns,
		      uint64_t value)
{
	const struct trace_record r = {
		.kind = kind,
		.begin_ns = begin_ns,
		.end_ns = clock_now_ns(),
		.value = value,
		.track = sl->index,
	};

	trace_write(sl->s->trace, &r);
}

void trace_ran(void *session, const struct dev_ran *ran)
{
	const struct session *s = session;
	const struct trace_record r = {
		.kind = TRACE_KERNEL,
		.begin_ns = ran->begin_ns,
		.end_ns = ran->end_ns,
		.value = ran->blocks,
		.track = ran->track,
		.name = ran->traced - 1,
	};

	if (trace_on(s->count))
		trace_write(s->trace, &r);
}

void trace_passed(void *session, const struct gate_lane *l, uint64_t since_ns)
{
	const struct session *s = session;
	const struct trace_record r = {
		.kind = l ? TRACE_GATE : TRACE_TURN,
		.begin_ns = since_ns,
		.end_ns = clock_now_ns(),
		.track = l ? l->index : 0,
	};

	if (trace_on(s->count))
		trace_write(s->trace, &r);
}
