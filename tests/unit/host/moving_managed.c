/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory of a session whose memory moves: on the device it is as all memory, and it waits
 * for the session to be quiet. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "memory/hostmem.h"
#include "memory/managed.h"
#include "moving.h"
#include "session/command.h"
#include "session/session.h"

#define MIB (1ull << 20)

static struct session *s;
static struct lane *l;

struct asked {
	CUdeviceptr addr;
	bool to_device;
	uint32_t wait_us;
	bool keep, still;
	uint64_t bytes;
	_Atomic bool done;
	CUresult result;
};

static CUresult go(struct asked *a)
{
	struct managed_wait wait = {.us = a->wait_us, .keep = a->keep};
	CUresult r = managed_move(s->managed, a->addr, MANAGED_PIECE, a->to_device, &wait,
				  &a->bytes);

	a->still = wait.still;
	return r;
}

static void *ask_on_thread(void *arg)
{
	struct asked *a = arg;

	a->result = go(a);
	atomic_store(&a->done, true);
	return NULL;
}

static CUdeviceptr managed(void)
{
	struct hostmem_file file = {.fd = fd_memfd("managed", 64 * MIB),
				    .size = 64 * MIB};
	struct managed_region g;

	s = moving_session(&l);
	s->accounts.host_charge = NULL; /* nobody counts it */
	s->accounts.host_uncharge = NULL;
	cr_assert_eq(sess_set_hostmem(s, &file), 0);
	cr_assert_eq(managed_alloc(s->managed, MANAGED_PIECE, &g), CUDA_SUCCESS);
	return g.addr;
}

/* On the device it leaves and comes back as all memory, and from wherever it is to the host. */
Test(moving, managed_memory_is_evicted_from_the_device)
{
	struct asked a = {.addr = managed(), .to_device = true};
	struct msg_moved m;

	moving_fill(l, a.addr, MANAGED_PIECE, 5);
	m = moving_move(MSG_RECLAIM, 1, 64 * MIB, PLACE_MAPPED);
	cr_assert_eq(m.bytes, 0, "the host's is nothing of the device's");
	cr_assert(go(&a) == CUDA_SUCCESS && a.bytes == MANAGED_PIECE);
	moving_check(l, a.addr, MANAGED_PIECE, 5);
	m = moving_move(MSG_RECLAIM, 2, MANAGED_PIECE, PLACE_MAPPED);
	cr_assert_eq(m.bytes, MANAGED_PIECE);
	moving_fill(l, a.addr, MANAGED_PIECE, 6);
	m = moving_move(MSG_RESTORE, 3, MANAGED_PIECE, PLACE_MAPPED);
	cr_assert_eq(m.bytes, MANAGED_PIECE);
	moving_check(l, a.addr, MANAGED_PIECE, 6);
	m = moving_move(MSG_RECLAIM, 4, MANAGED_PIECE, PLACE_SWAPPED);
	cr_assert_eq(moving_swapped(), MANAGED_PIECE);
	a.to_device = false;
	cr_assert(go(&a) == CUDA_SUCCESS && a.bytes == MANAGED_PIECE);
	cr_assert(!moving_swapped() && !moving_mapped());
	moving_check(l, a.addr, MANAGED_PIECE, 6);
	cr_assert_eq(managed_release(s->managed, a.addr), CUDA_SUCCESS);
}

/* A move waits as long as that was said; weftd has its answers meanwhile, and lanes get in
 * between. */
Test(moving, managed_memory_waits_for_work_to_end)
{
	struct asked a = {.addr = managed(), .to_device = true, .wait_us = 10000};
	struct gate_lane work;
	pthread_t thread;

	gate_lane_add(&s->gate, &work);
	cr_assert_eq(gate_enter(&s->gate, &work), 0);
	cr_assert(go(&a) == CUDA_ERROR_NOT_READY && !a.bytes);
	a.wait_us = 0;
	cr_assert_eq(pthread_create(&thread, NULL, ask_on_thread, &a), 0);
	for (uint32_t i = 1; i <= 3; i++)
		cr_assert_eq(moving_reclaim(i, MIB).result, -EBUSY);
	cr_assert(!atomic_load(&a.done));
	gate_leave(&work);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert(a.result == CUDA_SUCCESS && a.bytes == MANAGED_PIECE);
	cr_assert_eq(gate_enter(&s->gate, &work), 0, "the gate is open again");
	gate_leave(&work);
	gate_lane_remove(&s->gate, &work);
	cr_assert_eq(managed_release(s->managed, a.addr), CUDA_SUCCESS);
}

static _Atomic bool entered;

static void *enter(void *arg)
{
	cr_assert_eq(gate_enter(&s->gate, arg), 0);
	atomic_store(&entered, true);
	gate_leave(arg);
	return NULL;
}

/* A launch that waits for its turn does not begin while the program has memory of its own. */
Test(moving, who_waits_at_the_gate_is_kept_out)
{
	struct asked a = {.addr = managed(), .to_device = true, .wait_us = 1000000};
	struct gate_lane work;
	pthread_t thread;

	gate_lane_add(&s->gate, &work);
	cr_assert(go(&a) == CUDA_SUCCESS && !a.still);
	gate_hold(&s->gate, clock_now_ns() + 100 * NSEC_PER_SEC);
	cr_assert_eq(pthread_create(&thread, NULL, enter, &work), 0);
	while (!gate_wanted(&s->gate))
		sched_yield();
	a.to_device = false;
	a.keep = true;
	cr_assert(go(&a) == CUDA_SUCCESS && a.still);
	gate_hold(&s->gate, 0);
	usleep(20000);
	cr_assert(!atomic_load(&entered));
	a.to_device = true;
	cr_assert(go(&a) == CUDA_SUCCESS && a.still);
	a.keep = false;
	cr_assert(go(&a) == CUDA_SUCCESS && !a.still);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	gate_lane_remove(&s->gate, &work);
	cr_assert_eq(managed_release(s->managed, a.addr), CUDA_SUCCESS);
}

/* Nor does one that the program has said and that has not come to the gate. */
Test(moving, what_is_yet_to_begin_is_kept_out)
{
	struct managed_wait wait = {.us = 1000000, .keep = true, .begins = true};
	CUdeviceptr addr = managed();
	uint64_t bytes;

	cr_assert_eq(managed_move(s->managed, addr, MANAGED_PIECE, false, &wait, &bytes),
		     CUDA_SUCCESS);
	cr_assert(wait.still && s->gate.state == GATE_CLOSED);
	wait.keep = false;
	cr_assert_eq(managed_move(s->managed, addr, MANAGED_PIECE, false, &wait, &bytes),
		     CUDA_SUCCESS);
	cr_assert(!wait.still && s->gate.state == GATE_OPEN);
	cr_assert_eq(managed_release(s->managed, addr), CUDA_SUCCESS);
}
