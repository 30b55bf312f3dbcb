// SPDX-License-Identifier: Apache-2.0
#include "calls.h"
#include "object/context_send.h"
#include "object/extent.h"

CUresult ctx_send_create(struct guest_thread *t, uint64_t ctx, unsigned flags)
{
	struct ctx_create_cmd *cmd = begin_ctx_create(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->ctx = ctx;
	cmd->flags = flags;
	return guest_call(t, sizeof(struct ctx_create_rep), &reply);
}

CUresult ctx_send_destroy(struct guest_thread *t, uint64_t ctx)
{
	struct ctx_destroy_cmd *cmd = begin_ctx_destroy(t);
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->ctx = ctx;
	r = guest_call(t, sizeof(struct ctx_destroy_rep), &reply);
	extent_forget_all();
	return r;
}

CUresult ctx_send_retain(struct guest_thread *t, uint64_t ctx, unsigned flags)
{
	struct primary_retain_cmd *cmd = begin_primary_retain(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->ctx = ctx;
	cmd->flags = flags;
	return guest_call(t, sizeof(struct primary_retain_rep), &reply);
}

CUresult ctx_send_release(struct guest_thread *t, uint64_t ctx)
{
	struct primary_release_cmd *cmd = begin_primary_release(t);
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->ctx = ctx;
	r = guest_call(t, sizeof(struct primary_release_rep), &reply);
	extent_forget_all();
	return r;
}
