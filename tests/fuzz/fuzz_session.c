/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "carrier.h"
#include "fds.h"
#include "fuzz_session.h"
#include "memory/hostmem.h"
#include "memory/managed.h"
#include "memory/move.h"
#include "memory/space.h"
#include "op_key.h"

#define MIB        (1ull << 20)
#define HOST_BYTES (4 * MIB) /* that the session may share */
#define QUOTA      (48 * MIB) /* of a device of 64 MiB: both are part of what is tried */
#define RECORD     5          /* bytes before the body */
#define RECORDS    128        /* of one input */
#define BLOCKS     64u        /* of one launch */
#define MOVE_NS    (20 * NSEC_PER_MSEC)

/* Kernels for what a launch may do: end soon, or late, store, fault, print, allocate,
 * read a texture, meet others at a barrier. */
static const char ready_module[] =
	".version 8.0\n.target sm_80\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
	".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
	".extern .func free(.param .b64 p);\n"
	".visible .global .align 4 .b32 v[64];\n"
	".global .align 1 .b8 text[4] = {37, 100, 10, 0};\n"
	".extern .shared .align 8 .b8 sh[];\n"
	".visible .entry bump(.param .u64 p, .param .u32 n) {\n"
	".reg .b64 %d<4>; .reg .b32 %r<5>; ld.param.u64 %d1, [p]; ld.param.u32 %r1, "
	"[n];\n"
	"mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r2, 4; add.s64 %d1, %d1, %d2;\n"
	"atom.global.add.u32 %r3, [%d1], %r1; ret; }\n"
	".visible .entry busy(.param .u64 p, .param .u32 n) {\n"
	".reg .b32 %r<3>; .reg .pred %q; ld.param.u32 %r1, [n]; and.b32 %r1, %r1, "
	"0xfff;\n"
	"again: add.s32 %r1, %r1, -1; setp.gt.s32 %q, %r1, 0; @%q bra again; ret; }\n"
	".visible .entry say(.param .u64 p, .param .u32 n) {\n"
	".local .align 8 .b8 a[8]; .reg .b64 %d<4>; .reg .b32 %r<3>;\n"
	"ld.param.u32 %r1, [n]; mov.u64 %d1, a; st.local.u32 [%d1], %r1;\n"
	"cvta.local.u64 %d1, %d1; mov.u64 %d2, text; cvta.global.u64 %d2, %d2;\n"
	"{ .param .b64 f; .param .b64 g; .param .b32 r; st.param.b64 [f], %d2;\n"
	"st.param.b64 [g], %d1; call.uni (r), vprintf, (f, g); } ret; }\n"
	".visible .entry take(.param .u64 p, .param .u32 n) {\n"
	".reg .b64 %d<4>; ld.param.u64 %d1, [p];\n"
	"{ .param .b64 s; .param .b64 r; st.param.b64 [s], 100; call.uni (r), malloc, "
	"(s);\n"
	"ld.param.b64 %d2, [r]; st.param.b64 [s], %d2; call.uni free, (s); }\n"
	"st.global.u64 [%d1], %d2; ret; }\n"
	".visible .entry look(.param .u64 p, .param .u64 t) {\n"
	".reg .b64 %d<3>; .reg .b32 %r<5>; .reg .f32 %f<2>;\n"
	"ld.param.u64 %d1, [p]; ld.param.u64 %d2, [t]; mov.f32 %f1, 0f40000000;\n"
	"tex.2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%d2, {%f1, %f1}];\n"
	"st.global.u32 [%d1], %r1; ret; }\n"
	".visible .entry meet(.param .u64 p, .param .u32 n) {\n"
	".reg .b32 %r<3>;\n"
	"mov.u32 %r1, %tid.x; st.shared.u32 [sh], %r1; bar.sync 0;\n"
	"ld.shared.u32 %r2, [sh]; st.global.u32 [v], %r2; ret; }\n";

/* ---- weftd's part ---- */

static int charge(void *arg, uint64_t bytes)
{
	_Atomic uint64_t *used = arg;

	if (atomic_fetch_add(used, bytes) + bytes <= QUOTA)
		return 0;
	atomic_fetch_sub(used, bytes);
	return -EDQUOT;
}

static void uncharge(void *arg, uint64_t bytes)
{
	_Atomic uint64_t *used = arg;

	if (atomic_fetch_sub(used, bytes) < bytes)
		abort();
}

/*
 * Names are numbers, so that inputs can guess them, and the session finds what it
 * exported itself as if it were another's. What is freed stays to be had.
 */
#define SHARES 16
#define PARTS  16
static struct share {
	unsigned n; /* parts that have come */
	struct share_part part[PARTS];
} shares[SHARES];
static unsigned n_shares, n_opened;
static pthread_mutex_t shares_lock = PTHREAD_MUTEX_INITIALIZER;

static void unlockp(pthread_mutex_t **m)
{
	pthread_mutex_unlock(*m);
}

static pthread_mutex_t *lock_shares(void)
{
	pthread_mutex_lock(&shares_lock);
	return &shares_lock;
}

#define hold_shares()                                                                    \
	_cleanup_(unlockp) pthread_mutex_t *_held __attribute__((unused)) = lock_shares()

static int ipc_export(void *arg, const struct share_part *x, uint8_t *name)
{
	struct share *sh;

	hold_shares();
	if (!x->part) {
		if (n_shares == SHARES)
			return -EMFILE;
		memset(name, 0, 16);
		name[0] = (uint8_t)n_shares++;
		shares[name[0]].n = 0;
	}
	sh = &shares[name[0]];
	if (x->part != sh->n || x->n_parts > PARTS)
		return -EMFILE;
	sh->part[sh->n] = *x;
	if (x->fd >= 0)
		sh->part[sh->n].fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 0);
	sh->n++;
	return 0;
}

/* Opens an export of a worker that was taken over: the name says what it is. */
static int open_any(const uint8_t *name, struct share_part *x)
{
	x->fd = fds_any(name[1], (size_t)name[2] << 16);
	x->bytes = (uint64_t)name[3] << (16 + name[4] % 40);
	x->n_parts = name[5];
	n_opened += !x->part;
	return 0;
}

static int ipc_open(void *arg, const uint8_t *name, struct share_part *x)
{
	const struct share *sh = &shares[name[0] % SHARES];

	hold_shares();
	if (name[5])
		return open_any(name, x);
	if (name[0] >= n_shares || x->part >= sh->n || sh->part[0].kind != x->kind ||
	    sh->n < sh->part[0].n_parts)
		return name[0] & 1 ? -EINVAL : -EDEADLK;
	n_opened += !x->part;
	*x = sh->part[x->part];
	if (x->fd >= 0)
		x->fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 0);
	return 0;
}

static void ipc_close(void *arg, const uint8_t *name)
{
	hold_shares();
	if (!n_opened--)
		abort();
}

static void ipc_drop(void *arg, const uint8_t *name)
{
	const struct share *sh = &shares[name[0] % SHARES];

	hold_shares();
	if (name[0] >= n_shares)
		abort();
	for (unsigned i = 0; sh->n == sh->part[0].n_parts && i < sh->n; i++)
		uncharge(arg, sh->part[i].bytes);
}

static void ipc_fini(void)
{
	if (n_opened)
		abort();
	for (; n_shares; n_shares--)
		for (unsigned i = 0; i < shares[n_shares - 1].n; i++)
			closep(&shares[n_shares - 1].part[i].fd);
}

/* Out or back, so much of it, and within reach of kernels or not meanwhile. */
static void move(struct session *s, uint8_t how)
{
	uint64_t bytes = (uint64_t)(how >> 2) * MIB;
	struct space_moved moved;

	if (gate_close(&s->gate, clock_now_ns() + MOVE_NS) < 0)
		return;
	if (how & 1)
		(void)space_move_in(s->space, bytes, &moved);
	else
		(void)space_move_out(s->space, bytes, UINT64_MAX,
				     how & 2 ? PLACE_SWAPPED : PLACE_MAPPED, &moved);
	(void)space_map_swapped(s->space);
	gate_open(&s->gate);
}

/* Managed memory moves while nothing else of the session's runs. */
static int on_quiet(void *arg, struct managed_wait *wait, int (*work)(void *what),
		    void *what)
{
	struct session *s = arg;
	int r = gate_close(&s->gate, clock_now_ns() + MOVE_NS);

	if (r < 0)
		return r;
	r = work(what);
	gate_open(&s->gate);
	return r;
}

/* ---- the guest's ---- */

/* In place of what could not be guessed. Returns by how many words the structure is longer
 * than it should be. */
static int put_words(uint8_t *body, size_t size)
{
	int longer = 0;

	for (size_t at = 0; at + 8 <= size; at += 8) {
		uint64_t word = sizeof(ready_module);

		if (body[at + 7] == 0xf5) {
			word = handle_make(body[at] % HANDLE_NUM_TYPES, body[at + 1] & 3,
					   body[at + 2] & 7);
		} else if (body[at + 7] == 0xf7) {
			longer = (int8_t)body[at];
			word = body[at + 1];
		} else if (body[at + 7] != 0xf6) {
			continue;
		}
		memcpy(body + at, &word, 8);
	}
	return longer;
}

/* A library of this age, or of another one, says how long its structure is. */
static void say_fixed(struct lane *l, uint16_t op, uint32_t body_size, int longer)
{
	uint32_t here = op < WIRE_NUM_OPS ? codec_shapes[op].cmd : 0;
	int64_t fixed = (int64_t)here + 8 * longer;

	if (fixed >= 0 && fixed <= body_size)
		lane_fixed(l, (uint32_t)fixed);
}

/* A grid that the device would take, of millions of blocks, ends some day: not what is looked
 * for. */
static void small_grid(uint16_t op, uint8_t *body, size_t size)
{
	size_t at = op == WIRE_OP_launch_kernel ? offsetof(struct launch_kernel_cmd, grid)
		    : op == WIRE_OP_graph_kernel ? offsetof(struct graph_kernel_cmd, grid)
						 : size;
	uint32_t grid[3];

	if (at + sizeof(grid) > size)
		return;
	memcpy(grid, body + at, sizeof(grid));
	if (grid[0] > INT32_MAX || grid[1] > UINT16_MAX || grid[2] > UINT16_MAX ||
	    (uint64_t)grid[0] * grid[1] * grid[2] <= BLOCKS)
		return;
	memcpy(body + at, (uint32_t[3]){BLOCKS, 1, 1}, sizeof(grid));
}

static int drain(struct lane *l)
{
	struct lane_reply r;
	int e = lane_call(l, &r);

	while (e == 0 && r.more)
		e = lane_next(l, &r);
	return e;
}

static int send_record(struct fuzz_session *f, struct lane *l, const uint8_t *rec,
		       size_t body_size)
{
	uint32_t payload_size = rec[4] * (rec[2] & RECORD_LARGE ? 1000u : 1u);
	uint16_t op = op_named(rec);
	void *payload, *to;

	if (op == WIRE_OP_host_func || op == WIRE_OP_host_func_wait ||
	    op == WIRE_OP_graph_host)
		return 0;
	if (rec[2] & RECORD_REPLAY)
		atomic_store(&f->tickets.next, 1);
	if (rec[2] & RECORD_MODULE)
		payload_size = sizeof(ready_module);
	else if (rec[2] & RECORD_MOVE)
		payload_size = 0;
	to = lane_begin(l, op, (uint32_t)body_size, payload_size, &payload);
	if (!to)
		return -EPIPE;
	memcpy(to, rec + RECORD, body_size);
	say_fixed(l, op, (uint32_t)body_size, put_words(to, body_size));
	small_grid(op, to, body_size);
	if (rec[2] & RECORD_MODULE)
		memcpy(payload, ready_module, payload_size);
	else if (payload_size)
		memset(payload, rec[4], payload_size);
	if (rec[2] & RECORD_APART)
		l->out.hdr.flags |= WIRE_F_APART;
	return rec[2] & RECORD_POSTED ? lane_post(l) : drain(l);
}

void fuzz_session_play(struct fuzz_session *f, unsigned lane, const uint8_t *data,
		       size_t size)
{
	for (unsigned n = 0; n < RECORDS && size >= RECORD; n++) {
		size_t body = MIN((size_t)data[3] * 8, (size - RECORD) & ~7ul);

		if (f->n_lanes == 1 || (data[2] >> 6) % f->n_lanes == lane) {
			/* One thread moves. */
			if (data[2] & RECORD_MOVE && !lane)
				move(f->s, data[4]);
			if (send_record(f, f->lb[lane].guest, data, body) < 0)
				return;
		}
		data += RECORD + body;
		size -= RECORD + body;
	}
}

/* ---- both ---- */

void fuzz_session_open(struct fuzz_session *f, unsigned n_lanes,
		       enum wire_carrier carrier)
{
	struct loopback_opts o = {.carrier = carrier, .tickets = &f->tickets};
	struct device_config cfg = {.tpcs = 1, .threads = 1, .memory_bytes = 64 * MIB};
	struct accounts broker = {.charge = charge,
				  .uncharge = uncharge,
				  .ipc_export = ipc_export,
				  .ipc_open = ipc_open,
				  .ipc_close = ipc_close,
				  .ipc_drop = ipc_drop};
	struct hostmem_file file = {.size = HOST_BYTES};

	log_set_level(LOG_LVL_ERROR);
	(void)op_named((const uint8_t[2]){0}); /* its table, before there are threads */
	*f = (struct fuzz_session){.n_lanes = n_lanes, .tickets = {1}};
	broker.arg = &f->charged;
	file.fd = f->host_fd = fd_memfd("fuzz", HOST_BYTES);
	if (sess_new(&device_soft_ops, &cfg, &broker, &f->s) < 0 ||
	    sess_set_hostmem(f->s, &file) < 0 ||
	    space_set_piece(f->s->space, 2 * MIB) < 0)
		abort();
	managed_on_quiet(f->s->managed, on_quiet, f->s);
	for (unsigned i = 0; i < n_lanes; i++) {
		if (loopback_init(&f->lb[i], &o) < 0)
			abort();
		if (sess_lane_reserve(f->s) != (int)i ||
		    sess_lane_start(f->s, steal(f->lb[i].worker), i) < 0)
			abort();
	}
}

void fuzz_session_close(struct fuzz_session *f)
{
	for (unsigned i = 0; i < f->n_lanes; i++)
		lane_free(steal(f->lb[i].guest));
	sess_join(f->s); /* the worker's lanes live in the windows */
	for (unsigned i = 0; i < f->n_lanes; i++)
		loopback_fini(&f->lb[i]);
	sess_free(f->s);
	closep(&f->host_fd);
	ipc_fini();
	if (f->charged)
		abort();
}
