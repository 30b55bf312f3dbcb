/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: work that is known to be done
 *
 * Only the worker can say whether work is done. But once it has said so of a stream, the
 * stream stays idle until a command is sent that could leave work in it, and until then
 * the guest answers by itself. idle_now() grows with every such command of the process; a
 * stream remembers the value at which it was idle, and is idle for as long as idle_now()
 * has that value. An event stays done until it is recorded again.
 *
 * idle_now() counts commands without a reply by their tickets, which they take before
 * they are sent, and all others but questions (guest_ask()) when their reply is there. A
 * thread that reads idle_now() and asks afterwards is therefore answered for all that it
 * counted, and a call that has returned is counted.
 *
 * An error of work elsewhere shows in the next answer of the worker, whatever the
 * question was. To let it show, one of IDLE_ANSWERS questions goes to the worker all the
 * same, as do all while an error waits to be told.
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

/* Count of contexts that have ended: knowledge about events from before is void. */
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

/* True if a question of thread t with a known answer may be answered here, without the
 * worker. */
static inline bool idle_may_answer(struct guest_thread *t)
{
	const volatile struct wire_status *s = guest_process.status;

	return !s->sticky && !s->deferred && ++t->answered % IDLE_ANSWERS;
}

/* True if a stream whose last known idle moment is *at (NULL: none) is idle still. */
static inline bool idle_is(const _Atomic uint64_t *at)
{
	return at && atomic_load_explicit(at, memory_order_relaxed) == idle_now();
}

#endif
