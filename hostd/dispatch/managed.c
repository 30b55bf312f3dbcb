/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: nanosleep */
#include <time.h>

#include "base/clock.h"
#include "dispatch/handlers.h"
#include "memory/managed.h"
#include "session/code.h"

int handle_managed_alloc(struct sess_lane *sl, const struct managed_alloc_args *a,
			 struct managed_alloc_rep *rep)
{
	struct managed_region g;

	sl->uncounted = true; /* without it the guest takes host memory */
	rep->res.result = managed_alloc(sl->s->managed, a->cmd->size, &g);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	rep->addr = g.addr;
	rep->offset = g.offset;
	rep->mapped = g.size;
	rep->piece = MANAGED_PIECE;
	return 0;
}

/* As CUDA's, waits for the work that may still use the memory; see cuMemFree. */
int handle_managed_free(struct sess_lane *sl, const struct managed_free_args *a,
			struct managed_free_rep *rep)
{
	struct dev_ctx *ctx;
	CUresult r;

	if (!wait_to_free(sl, &ctx, &rep->res.result))
		return 0;
	r = managed_release(sl->s->managed, a->cmd->addr);
	if (rep->res.result == CUDA_SUCCESS)
		rep->res.result = r;
	return 0;
}

/* Time for which memory is not taken from kernels that are yet to begin: what they come after may be
 * waiting for the program. */
#define BEGIN_NS (50 * NSEC_PER_MSEC)
#define LOOK_NS  (20 * NSEC_PER_USEC)
/* Nobody waits for longer until memory can be read where it is. */
#define DUPLICATE_MAX_US 100000u

/* Waits for the launches that the program has said before, and returns whether some are yet to begin.
 * A move has no place among commands, so one of them might begin afterwards, and find memory that is
 * the program's alone. None does while kernels stand still, or lanes wait at the gate. */
static bool launches_begin(const struct sess_lane *sl, uint64_t wait_ns)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	uint64_t until_ns = clock_now_ns() + wait_ns;
	bool past;

	while (!(past = tickets_past(&sl->s->tickets, sl->msg->hdr.seq)) &&
	       !gate_is_still(&sl->s->gate) && !gate_wanted(&sl->s->gate) &&
	       clock_now_ns() < until_ns)
		nanosleep(&pause, NULL);
	return !past;
}

int handle_managed_move(struct sess_lane *sl, const struct managed_move_args *a,
			struct managed_move_rep *rep)
{
	struct managed_wait wait = {.us = a->cmd->wait_us, .keep = a->cmd->keep};

	if (a->cmd->to_device > 1 || a->cmd->keep > 1)
		return -EPROTO;
	if (a->cmd->keep && !a->cmd->to_device)
		wait.begins = launches_begin(sl, BEGIN_NS);
	rep->res.result = managed_move(sl->s->managed, a->cmd->addr, a->cmd->size,
				       a->cmd->to_device, &wait, &rep->moved);
	rep->still = wait.still;
	rep->system_atomics = sess_system_atomics(sl->s);
	return 0;
}

int handle_managed_duplicate(struct sess_lane *sl, const struct managed_duplicate_args *a,
			     struct managed_duplicate_rep *rep)
{
	struct managed_wait wait = {
		.us = MIN(MAX(a->cmd->wait_us, 1u), DUPLICATE_MAX_US)};

	if (launches_begin(sl, wait.us * NSEC_PER_USEC))
		rep->res.result = CUDA_ERROR_NOT_READY;
	else
		rep->res.result = managed_duplicate(sl->s->managed, a->cmd->addr,
						    a->cmd->size, &wait);
	return 0;
}
