/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for streams; core/idle.h says when nobody is asked. */
#include "calls.h"
#include "object/context.h"
#include "object/stream.h"

_Atomic uint64_t *idle_of_stream(struct guest_thread *t, uint64_t wire)
{
	if (wire == GUEST_STREAM_LEGACY)
		return t->top ? &t->top->idle : NULL;
	if (wire != GUEST_STREAM_PER_THREAD)
		return stream_idle(wire);
	if (t->own_idle_in != t->wire_id)
		t->own_idle = 0;
	t->own_idle_in = t->wire_id;
	return &t->own_idle;
}

CUresult stream_wait(struct guest_thread *t, uint64_t wire)
{
	struct stream_synchronize_cmd *cmd;
	struct lane_reply reply;
	uint64_t now = idle_now();
	CUresult r;

	if (idle_is(idle_of_stream(t, wire)) && idle_may_answer(t))
		return CUDA_SUCCESS;
	cmd = begin_stream_synchronize(t);
	if (!cmd)
		return guest_lost(t);
	cmd->stream = wire;
	r = guest_ask(t, sizeof(struct stream_synchronize_rep), &reply);
	if (r == CUDA_SUCCESS)
		idle_note(t, wire, now);
	return r;
}
