/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that does not end: memory leaves and comes back under it, and its session waits for its
 * memory as others do. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "../guest/call.h"
#include "base/fd.h"
#include "ipc/page.h"
#include "memory/hostmem.h"
#include "memory/managed.h"
#include "memory/move.h"
#include "moving.h"
#include "session/command.h"
#include "session/session.h"

#define MIB   (1ull << 20)
#define BYTES (16 * MIB)
#define OK(x) cr_assert_eq((x), CUDA_SUCCESS)

/* count(p): adds 1 to p[0] until p[1] is not 0. */
static const char text[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".visible .entry count(.param .u64 p) {\n"
	".reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %p<2>;\n"
	"ld.param.u64 %d1, [p];\n"
	"L: ld.volatile.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1;\n"
	"st.volatile.global.u32 [%d1], %r1; ld.volatile.global.u32 %r2, [%d1+4];\n"
	"setp.eq.u32 %p1, %r2, 0; @%p1 bra L; ret; }\n";

static struct session *s;
static struct lane *l;

/* Made without commands, which are not this test's matter. */
static struct {
	struct sess_ctx *ctx;
	struct dev_ctx *dev;
	struct dev_module *mod;
	struct dev_stream *st, *beside;
	CUdeviceptr p;
} k;

static uint32_t word(uint64_t i)
{
	uint32_t v = 0;

	OK(s->ops->copy.read(k.dev, k.beside, &v, k.p + 4 * i, sizeof(v)));
	return v;
}

static bool goes_on(void)
{
	uint32_t before = word(0);

	for (int i = 0; i < 5000 && word(0) == before; i++)
		usleep(1000);
	return word(0) != before;
}

/* In a stream of its own, or the legacy one. */
static void begin_work_in(bool legacy)
{
	struct dev_jit jit = {.optimization_level = 4};
	struct dev_launch launch = {.grid = {1, 1, 1},
				    .block = {1, 1, 1},
				    .params = &k.p,
				    .params_size = sizeof(k.p)};

	s = moving_session(&l);
	k.p = moving_alloc(l, BYTES);
	moving_fill(l, k.p, BYTES, 0);
	k.ctx = sess_hold_ctx(s);
	k.dev = k.ctx->dev;
	OK(s->ops->module.load(k.dev, text, sizeof(text), &jit, &k.mod));
	OK(s->ops->module.function(k.mod, "count", &launch.func));
	k.st = NULL;
	if (!legacy)
		OK(s->ops->stream.create(k.dev, DEV_STREAM_NON_BLOCKING, 0, &k.st));
	OK(s->ops->stream.create(k.dev, DEV_STREAM_NON_BLOCKING, 0, &k.beside));
	OK(s->ops->func.launch(k.dev, k.st, &launch));
	cr_assert(goes_on());
}

static void begin_work(void)
{
	begin_work_in(false);
}

static void say_stop(void)
{
	const uint32_t stop = 1;

	OK(s->ops->copy.write(k.dev, k.beside, k.p + 4, &stop, sizeof(stop)));
}

static void end_work(void)
{
	say_stop();
	OK(s->ops->stream.synchronize(k.dev, k.st));
	if (k.st)
		s->ops->stream.destroy(k.st);
	s->ops->stream.destroy(k.beside);
	s->ops->module.unload(k.mod);
	obj_put(s, &k.ctx->obj);
	moving_check(l, k.p + 8, BYTES - 8, 0);
	moving_release(l, k.p);
}

Test(moving, memory_leaves_and_returns_under_a_kernel)
{
	struct msg_moved m;

	begin_work();
	for (uint32_t i = 0; i < 3; i++) {
		m = moving_move(MSG_RECLAIM, 2 * i + 1, BYTES, PLACE_MAPPED);
		cr_assert(m.result == 0 && m.bytes == BYTES);
		cr_assert_eq(moving_mapped(), BYTES);
		cr_assert(goes_on());
		m = moving_move(MSG_RESTORE, 2 * i + 2, BYTES, PLACE_MAPPED);
		cr_assert(m.result == 0 && m.bytes == BYTES && !moving_mapped());
		cr_assert(goes_on());
	}
	end_work();
}

/* To where the kernel writes nothing, with what is there already. */
static void *copy_behind(void *arg)
{
	_Atomic bool *begun = arg;
	const uint32_t size = 4;
	void *payload;
	struct copy_htod_cmd *c =
		lane_begin(l, WIRE_OP_copy_htod, sizeof(*c), size, &payload);

	memset(c, 0, sizeof(*c));
	memset(payload, 0, size);
	c->dst = k.p + 8;
	c->pitch = c->width = size;
	c->height = 1;
	c->stream = SESS_STREAM_LEGACY;
	atomic_store(begun, true);
	OK(call(l, NULL));
	return NULL;
}

/* A lane that waits for the device is in nobody's way. */
Test(moving, memory_leaves_while_a_copy_waits_behind_the_kernel)
{
	_Atomic bool begun = false;
	pthread_t thread;

	begin_work_in(true);
	cr_assert_eq(pthread_create(&thread, NULL, copy_behind, &begun), 0);
	while (!atomic_load(&begun))
		sched_yield();
	usleep(50000); /* the lane has it */
	cr_assert_eq(moving_reclaim(1, BYTES).result, 0);
	cr_assert_eq(moving_mapped(), BYTES);
	cr_assert(goes_on());
	say_stop();
	cr_assert_eq(pthread_join(thread, NULL), 0);
	end_work();
}

/* Nobody waits at the gate but the kernel. */
Test(moving, a_kernel_waits_for_its_memory)
{
	struct msg need;

	begin_work();
	cr_assert_eq(moving_move(MSG_RECLAIM, 1, BYTES, PLACE_SWAPPED).bytes, BYTES);
	cr_assert(gate_is_frozen(&s->gate));
	need = moving_wait(MSG_NEED, 1);
	cr_assert_eq(need.need.bytes, BYTES);
	usleep(20000);
	cr_assert(gate_is_frozen(&s->gate) && moving_swapped() == BYTES);
	moving_grant(need.id, BYTES);
	cr_assert_eq(moving_wait(MSG_RESTORED, 1).moved.bytes, BYTES);
	cr_assert(goes_on());
	end_work();
}

static uint64_t unchanged(void)
{
	return atomic_load(&s->count->unchanged_bytes);
}

/* Bytes that are found to be unchanged when they leave for the second time; again, where the machine
 * was so busy that the session seemed to be. */
static uint64_t out_and_back(void)
{
	uint64_t before = 0;
	bool frozen = true;

	while (frozen) {
		frozen = false;
		for (uint32_t i = 0; i < 2; i++) {
			before = unchanged();
			frozen |= moving_move(MSG_RECLAIM, 2 * i + 1, BYTES,
					      PLACE_SWAPPED)
					  .frozen;
			moving_move(MSG_RESTORE, 2 * i + 2, BYTES, PLACE_SWAPPED);
		}
	}
	return unchanged() - before;
}

/* Digests would have to be computed where nothing is. */
Test(moving, nothing_is_compared_meanwhile)
{
	CUdeviceptr other;
	uint64_t before;

	s = moving_session(&l);
	space_set_turns(s->space);
	cr_assert_eq(space_set_piece(s->space, MIB), 0); /* no digest is of less */
	other = moving_alloc(l, BYTES);
	moving_fill(l, other, BYTES, 5);
	cr_assert_eq(out_and_back(), BYTES);
	before = unchanged();
	begin_work();
	cr_assert_eq(moving_move(MSG_RECLAIM, 5, 2 * BYTES, PLACE_SWAPPED).bytes,
		     2 * BYTES);
	cr_assert(gate_is_frozen(&s->gate) && unchanged() == before);
	moving_move(MSG_RESTORE, 6, 2 * BYTES, PLACE_SWAPPED);
	moving_check(l, other, BYTES, 5);
	end_work();
	cr_assert_eq(out_and_back(), BYTES, "compared again");
	moving_release(l, other);
}

/* Nor while weftd says that somebody would wait for that. */
Test(moving, nothing_is_compared_where_there_are_to_be_only_copies)
{
	CUdeviceptr a;

	s = moving_session(&l);
	space_set_turns(s->space);
	cr_assert_eq(space_set_piece(s->space, MIB), 0);
	a = moving_alloc(l, BYTES);
	moving_fill(l, a, BYTES, 5);
	cr_assert_eq(out_and_back(), BYTES);
	moving_only_copies = true;
	cr_assert_eq(out_and_back(), 0);
	moving_check(l, a, BYTES, 5);
	moving_only_copies = false;
	cr_assert_eq(out_and_back(), BYTES, "compared again");
	moving_check(l, a, BYTES, 5);
	moving_release(l, a);
}

static CUdeviceptr managed(void)
{
	struct hostmem_file file = {.fd = fd_memfd("managed", 64 * MIB),
				    .size = 64 * MIB};
	struct managed_region g;

	s->accounts.host_charge = NULL; /* nobody counts it */
	s->accounts.host_uncharge = NULL;
	cr_assert_eq(sess_set_hostmem(s, &file), 0);
	OK(managed_alloc(s->managed, MANAGED_PIECE, &g));
	return g.addr;
}

/* Whether kernels stand still after the move. */
static bool move_in_time(CUdeviceptr addr, bool to_device, uint32_t wait_us, bool keep)
{
	struct managed_wait wait = {.us = wait_us, .keep = keep};
	uint64_t bytes;

	OK(managed_move(s->managed, addr, MANAGED_PIECE, to_device, &wait, &bytes));
	cr_assert_eq(bytes, MANAGED_PIECE);
	cr_assert_eq(gate_is_frozen(&s->gate), wait.still);
	return wait.still;
}

static bool move(CUdeviceptr addr, bool to_device, bool keep)
{
	return move_in_time(addr, to_device, 0, keep);
}

/* As long as the guest wants; memory leaves and comes back meanwhile. */
Test(moving, kernels_are_kept_standing_still)
{
	CUdeviceptr addr;
	uint32_t was;

	begin_work();
	addr = managed();
	cr_assert(!move(addr, true, false) && goes_on());
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert(move_in_time(addr, false, 1000 * i, true));
		was = word(0);
		moving_move(MSG_RECLAIM, 2 * i + 1, BYTES, PLACE_MAPPED);
		moving_move(MSG_RESTORE, 2 * i + 2, BYTES, PLACE_MAPPED);
		cr_assert(move(addr, true, true));
		cr_assert(move(addr, true, true), "it is there");
		usleep(20000);
		cr_assert_eq(word(0), was);
		cr_assert(!move(addr, i % 2, false) && goes_on());
		if (!(i % 2))
			cr_assert(!move(addr, true, false));
	}
	OK(managed_release(s->managed, addr));
	end_work();
}

/* A busy machine may say too late that nothing runs. */
static bool keeps_nothing(CUdeviceptr addr, bool to_device)
{
	for (unsigned i = 0; i < 50; i++) {
		if (!move_in_time(addr, to_device, 1000000, true))
			return true;
		cr_assert(!move(addr, to_device, false));
	}
	return false;
}

Test(moving, nothing_is_kept_where_nothing_runs)
{
	CUdeviceptr addr;

	begin_work();
	end_work();
	addr = managed();
	cr_assert(keeps_nothing(addr, true));
	cr_assert(keeps_nothing(addr, false));
	OK(managed_release(s->managed, addr));
}
