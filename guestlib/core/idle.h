/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: what is known to be done
 *
 * Whether work is done only the worker can say. But once it has said so of a stream, the
 * stream stays idle until something is sent that could leave work in it: then nobody need
 * be asked. idle_now() grows with every such command of the process; a stream remembers
 * at which value of it it was idle, and is for as long as that has not changed. Of an
 * event it is enough that it has not been recorded again.
 *
 * idle_now() counts commands without a reply by their tickets, which they take before
 * they are sent, and all others but questions (guest_ask()) when their reply is there.
 * So whoever reads idle_now() and asks afterwards is answered for all that it counted,
 * and a call that has returned is counted.
 *
 * An error of work elsewhere shows in whatever is asked next. So that it does, one of
 * IDLE_ANSWERS questions goes to the worker all the same, as do all while an error waits
 * to be told.
 */
#ifndef WEFT_GUEST_IDLE_H
#define WEFT_GUEST_IDLE_H

#include <stdatomic.h>

#include "core/guest.h"
#include "core/process.h"
#include "core/thread.h"

#define IDLE_ANSWERS 256

/* Calls that may have left work behind them. */
extern _Atomic uint64_t idle_calls;

/* Contexts that have ended: what was known of their events is known no more. */
extern _Atomic uint64_t idle_ended;

static inline uint64_t idle_now(void)
{
	/* relaxed: what another thread has done before it told this one is counted */
	return atomic_load_explicit(&guest_process.tickets->next, memory_order_relaxed) +
	       atomic_load_explicit(&idle_calls, memory_order_relaxed);
}

static inline void idle_count_call(void)
{
	atomic_fetch_add_explicit(&idle_calls, 1, memory_order_relaxed);
}

/* Whether a question, the answer to which is known, may be answered here. */
static inline bool idle_may_answer(struct guest_thread *t)
{
	const volatile struct wire_status *s = guest_process.status;

	return !s->sticky && !s->deferred && ++t->answered % IDLE_ANSWERS;
}

static inline bool idle_is(const _Atomic uint64_t *at)
{
	return at && atomic_load_explicit(at, memory_order_relaxed) == idle_now();
}

#endif
