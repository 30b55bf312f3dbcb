/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "broker/child/output.h"
#include "broker/operator/trace_read.h"

static uint64_t taken(const struct trace_area *area)
{
	/* One more has a number, too. */
	return MIN(atomic_load_explicit(&area->taken, memory_order_relaxed),
		   UINT64_MAX - 1);
}

void trace_reader_init(struct trace_reader *r, const struct trace_area *area)
{
	*r = (struct trace_reader){.next = taken(area) + 1};
}

/* Goes on to the first record that may still be there. A worker may say any number. */
static uint64_t catch_up(struct trace_reader *r, const struct trace_area *area)
{
	uint64_t last = taken(area), n = last + 1 - r->next;

	if (last + 1 < r->next) { /* it goes backwards: nothing to read */
		r->next = last + 1;
		return last;
	}
	if (n > TRACE_RECORDS) {
		r->lost += n - TRACE_RECORDS;
		r->next = last + 1 - TRACE_RECORDS;
		r->looks = 0;
	}
	return last;
}

static bool is_right(const struct trace_record *c)
{
	return (unsigned)c->kind < TRACE_NUM_KINDS && c->begin_ns <= c->end_ns &&
	       c->end_ns <= clock_now_ns() && c->name <= TRACE_NAMES;
}

static void copy(const struct trace_slot *s, struct trace_record *ret)
{
	*ret = (struct trace_record){
		.begin_ns = atomic_load_explicit(&s->begin_ns, memory_order_relaxed),
		.end_ns = atomic_load_explicit(&s->end_ns, memory_order_relaxed),
		.value = atomic_load_explicit(&s->value, memory_order_relaxed),
		.kind = atomic_load_explicit(&s->kind, memory_order_relaxed),
		.track = atomic_load_explicit(&s->track, memory_order_relaxed),
		.name = atomic_load_explicit(&s->name, memory_order_relaxed),
	};
}

bool trace_read(struct trace_reader *r, const struct trace_area *area,
		struct trace_record *ret)
{
	uint64_t last = catch_up(r, area);

	/* Each turn goes on by one, so that it ends, at the latest after all slots. */
	while (r->next <= last) {
		const struct trace_slot *s = &area->ring[r->next % TRACE_RECORDS];
		struct trace_record c;

		/* acquire: pairs with the writer's last store */
		if (atomic_load_explicit(&s->number, memory_order_acquire) != r->next)
			return false; /* not complete; trace_read_end() knows more */
		copy(s, &c);
		/* Pairs with the writer's fence: unless it is still that one, it may be two
		 * by halves. */
		atomic_thread_fence(memory_order_acquire);
		r->next++;
		r->looks = 0;
		if (atomic_load_explicit(&s->number, memory_order_relaxed) ==
			    r->next - 1 &&
		    is_right(&c)) {
			*ret = c;
			return true;
		}
		r->lost++;
	}
	return false;
}

void trace_read_end(struct trace_reader *r, const struct trace_area *area)
{
	if (r->next > catch_up(r, area))
		return;
	if (++r->looks < TRACE_LOOKS)
		return;
	r->looks = 0;
	r->lost++;
	r->next++;
}

bool trace_read_name(struct trace_reader *r, const struct trace_area *area, uint32_t name,
		     char text[static TRACE_NAME_TEXT])
{
	const struct trace_name *n;
	uint64_t bit;

	if (!name || name > TRACE_NAMES)
		return false;
	n = &area->names[name - 1];
	bit = 1ull << (name - 1) % 64;
	/* acquire: pairs with the worker's release */
	if (r->named[(name - 1) / 64] & bit ||
	    !atomic_load_explicit(&n->ready, memory_order_acquire))
		return false;
	r->named[(name - 1) / 64] |= bit;
	memcpy(text, n->text, TRACE_NAME_TEXT);
	text[TRACE_NAME_TEXT - 1] = '\0';
	clean_text(text);
	return true;
}
