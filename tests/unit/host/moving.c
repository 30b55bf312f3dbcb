/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's memory goes out and comes back while its lanes work: the session, its
 * gate and the thread that moves are real, and so is the software device; weftd is this
 * test.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "../device/band.h"
#include "../guest/call.h"
#include "moving.h"
#include "memory/move.h"
#include "memory/pool/pool.h"
#include "memory/space.h"
#include "session/command.h"
#include "session/session.h"
#include "worker/broker_link.h"
#include "worker/moving.h"

#define MIB    (1ull << 20)
#define LANES  4
#define MEMORY (512 * MIB)
#define CTX    handle_make(HANDLE_CONTEXT, 1, 1)

static struct session *s;
static struct moving *moving; /* NULL: none */
static pthread_mutex_t moving_lock = PTHREAD_MUTEX_INITIALIZER;
static struct broker_link *brokers;
static struct loopback lb[LANES];
static int sock[2]; /* the worker's end, weftd's */

/* ---- weftd ---- */

static struct {
	pthread_t worker, weftd;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned seed;
	bool by_itself;           /* answers NEED, and moves */
	struct msg last[MSG_NUM]; /* by type: the latest of each that came */
	unsigned n[MSG_NUM];
	uint64_t out, in, freed; /* bytes */
	uint64_t left;           /* so far; RECLAIMED is kept with all that moved */
	uint64_t shared;         /* likewise: where they are evicted */
	bool moving_out;
	_Atomic bool stop;
} weftd = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static bool nobody_waits;
bool moving_only_copies;

struct session *moving_session(struct lane **ret_lane)
{
	*ret_lane = lb[0].guest;
	return s;
}

static void tell(const struct msg *m)
{
	cr_assert_eq(msg_send(sock[1], m, -1, -1), 0);
}

/* RECLAIM or RESTORE. */
static void tell_to_move(enum msg_type type, uint32_t id, uint64_t bytes,
			 enum placement_where where)
{
	struct msg m = {.type = type, .id = id};

	if (type == MSG_RECLAIM)
		m.reclaim = (struct msg_reclaim){.bytes = bytes,
						 .host_room = UINT64_MAX,
						 .swap = where == PLACE_SWAPPED,
						 .only_copies = moving_only_copies,
						 .urgent = !nobody_waits};
	else
		m.restore.bytes = bytes;
	tell(&m);
}

static void tell_prealloc(uint64_t bytes)
{
	const struct msg m = {.type = MSG_PREALLOC, .prealloc.bytes = bytes};

	tell(&m);
}

void moving_grant(uint32_t id, uint64_t bytes)
{
	const struct msg m = {
		.type = MSG_NEED_GRANTED, .id = id, .need_granted.bytes = bytes};

	tell(&m);
}

/* Now and then there is no room. */
static void grant_resident(const struct msg *asked)
{
	struct msg m = {.type = MSG_RESIDENT_GRANTED, .id = asked->id};

	m.resident_granted.result = rand_r(&weftd.seed) % 4 ? 0 : -ENOMEM;
	m.resident_granted.bytes = asked->make_resident.bytes;
	tell(&m);
}

static void take_down(const struct msg *m)
{
	pthread_mutex_lock(&weftd.lock);
	weftd.last[m->type] = *m;
	weftd.n[m->type]++;
	if (m->type == MSG_LEFT) {
		cr_assert_eq(weftd.left, 0, "it is said once");
		weftd.out += m->left.bytes;
		weftd.left = m->left.bytes;
	}
	if (m->type == MSG_RECLAIMED) {
		weftd.out += m->moved.bytes;
		weftd.last[m->type].moved.bytes += weftd.left;
		weftd.left = 0;
		weftd.moving_out = false;
	}
	if (m->type == MSG_RESTORED)
		weftd.in += m->moved.bytes;
	if (m->type == MSG_EVICTED_FREED)
		weftd.freed += m->evicted_freed.bytes;
	if (m->type == MSG_IPC_EXPORT && m->ipc_export.evicted)
		weftd.shared += m->ipc_export.bytes;
	pthread_cond_broadcast(&weftd.cond);
	pthread_mutex_unlock(&weftd.lock);
}

static void answer(const struct msg *m)
{
	const struct msg yes = {.type = msg_answer(m->type), .id = m->id};

	if (m->type == MSG_CHARGE || m->type == MSG_IPC_EXPORT || m->type == MSG_IPC_DROP)
		tell(&yes);
	if (m->type == MSG_MAKE_RESIDENT)
		grant_resident(m);
	if (m->type == MSG_NEED && weftd.by_itself)
		moving_grant(m->id,
			     rand_r(&weftd.seed) % 3 ? m->need.bytes : m->need.bytes / 2);
}

/* Reads the worker's messages. */
static void *weftd_main(void *arg)
{
	struct msg m;
	int fd[2];

	while (msg_recv(sock[1], &m, &fd[0], &fd[1]) == 0) {
		take_down(&m);
		closep(&fd[0]);
		answer(&m);
	}
	return NULL;
}

/* While the session ends nothing moves any more; what weftd says then comes too late. */
static int tell_moving(const struct msg *m)
{
	int r = 0;

	pthread_mutex_lock(&moving_lock);
	if (moving)
		r = moving_told(moving, m);
	pthread_mutex_unlock(&moving_lock);
	return r;
}

/* The main thread of a worker. */
static void *worker_main(void *arg)
{
	struct msg m;
	int fd[2];

	while (msg_recv(sock[0], &m, &fd[0], &fd[1]) == 0) {
		bool others = m.type == MSG_CHARGED || m.type == MSG_IPC_EXPORTED ||
			      m.type == MSG_IPC_DROPPED;

		cr_assert_eq(others ? broker_link_answer(brokers, &m, -1)
				    : tell_moving(&m),
			     0);
	}
	return NULL;
}

struct msg moving_wait(enum msg_type type, unsigned n)
{
	struct msg m;

	pthread_mutex_lock(&weftd.lock);
	while (weftd.n[type] < n)
		pthread_cond_wait(&weftd.cond, &weftd.lock);
	m = weftd.last[type];
	pthread_mutex_unlock(&weftd.lock);
	return m;
}

/* ---- the session ---- */

static void open_session(void)
{
	struct device_config cfg = {
		.tpcs = 2, .memory_bytes = MEMORY, .granularity = 128u << 10};
	struct accounts b;

	device_band_release();
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock), 0);
	cr_assert_eq(broker_link_new(sock[0], &brokers), 0);
	b = broker_link_ops(brokers);
	cr_assert_eq(pthread_create(&weftd.weftd, NULL, weftd_main, NULL), 0);
	cr_assert_eq(sess_new(&device_soft_ops, &cfg, &b, &s), 0);
	space_set_placement(s->space, placement_find("lru"));
	cr_assert_eq(touch_init(&s->touch), 0);
	cr_assert_eq(space_set_piece(s->space, 256u << 10), 0);
	cr_assert_eq(moving_new(s, brokers, true, &moving), 0);
	cr_assert_eq(pthread_create(&weftd.worker, NULL, worker_main, NULL), 0);
}

/* All lanes but for this send no command without a reply: they have no common tickets. */
static void open_lanes(unsigned first, unsigned end)
{
	struct loopback_opts o = {.carrier = WIRE_CARRIER_STREAM};

	for (unsigned i = first; i < end; i++) {
		cr_assert_eq(loopback_init(&lb[i], &o), 0);
		cr_assert_eq(sess_lane_reserve(s), (int)i);
		cr_assert_eq(sess_lane_start(s, lb[i].worker, i), 0);
		lb[i].worker = NULL;
		if (i == 0) {
			begin(lb[0].guest, primary_retain)->ctx = CTX;
			cr_assert_eq(call(lb[0].guest, NULL), CUDA_SUCCESS);
		}
		atomic_store(&lb[i].tickets.next, i + 1);
		begin(lb[i].guest, ctx_set_current)->ctx = CTX;
		cr_assert_eq(lane_post(lb[i].guest), 0);
		begin(lb[i].guest, cuCtxSynchronize);
		cr_assert_eq(call(lb[i].guest, NULL), CUDA_SUCCESS);
	}
}

static void setup(void)
{
	open_session();
	open_lanes(0, 1);
}

static void teardown(void)
{
	struct moving *m;

	for (unsigned i = 0; i < LANES; i++)
		loopback_fini(&lb[i]);
	sess_join(s);
	pthread_mutex_lock(&moving_lock);
	m = moving;
	moving = NULL;
	pthread_mutex_unlock(&moving_lock);
	moving_free(m);
	sess_free(s);
	shutdown(sock[0], SHUT_RDWR);
	pthread_join(weftd.worker, NULL);
	pthread_join(weftd.weftd, NULL);
}

TestSuite(moving, .init = setup, .fini = teardown, .timeout = 100);

CUdeviceptr moving_alloc(struct lane *l, uint64_t bytes)
{
	const struct cuMemAlloc_v2_rep *rep;

	begin(l, cuMemAlloc_v2)->bytesize = bytes;
	cr_assert_eq(call(l, (const void **)&rep), CUDA_SUCCESS);
	return rep->dptr;
}

void moving_release(struct lane *l, CUdeviceptr addr)
{
	begin(l, mem_free)->dptr = addr;
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
}

void moving_fill(struct lane *l, CUdeviceptr dst, uint64_t bytes, uint32_t value)
{
	struct fill_cmd *c = begin(l, fill);

	c->dst = dst;
	c->width = bytes / 4;
	c->height = 1;
	c->elem_bytes = 4;
	c->value = value;
	c->stream = SESS_STREAM_THREAD;
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
}

static void share(struct lane *l, CUdeviceptr addr)
{
	begin(l, ipc_mem_export)->ptr = addr;
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
}

static void copy(struct lane *l, CUdeviceptr dst, CUdeviceptr src, uint64_t bytes)
{
	struct copy_dtod_cmd *c = begin(l, copy_dtod);

	c->dst = dst;
	c->src = src;
	c->width = bytes;
	c->height = 1;
	c->stream = SESS_STREAM_THREAD;
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
}

void moving_check(struct lane *l, CUdeviceptr addr, uint64_t bytes, uint32_t value)
{
	struct copy_dtoh_cmd *c = begin(l, copy_dtoh);
	struct lane_reply r;

	c->src = addr;
	c->pitch = c->width = bytes;
	c->height = 1;
	c->stream = SESS_STREAM_THREAD;
	cr_assert_eq(lane_call(l, &r), 0);
	for (;;) {
		const uint32_t *w = r.payload;

		cr_assert_eq(((const struct wire_result *)r.body)->result, CUDA_SUCCESS);
		for (uint32_t i = 0; i < r.payload_size / 4; i++)
			cr_assert_eq(w[i], value, "0x%llx + %u: 0x%x instead of 0x%x",
				     (unsigned long long)addr, 4 * i, w[i], value);
		if (!r.more)
			break;
		cr_assert_eq(lane_next(l, &r), 0);
	}
}

/* ---- one after the other ---- */

/* On a busy machine the device may take longer to get quiet than the worker waits. */
struct msg_moved moving_move(enum msg_type type, uint32_t id, uint64_t bytes,
			     enum placement_where where)
{
	enum msg_type answer = type == MSG_RECLAIM ? MSG_RECLAIMED : MSG_RESTORED;
	struct msg m;

	do {
		unsigned n = weftd.n[answer];

		tell_to_move(type, id, bytes, where);
		m = moving_wait(answer, n + 1);
		cr_assert_eq(m.id, id);
	} while (m.moved.result == -EBUSY);
	return m.moved;
}

uint64_t moving_swapped(void)
{
	struct space_residency r;

	space_residency(s->space, &r);
	return r.swapped;
}

uint64_t moving_mapped(void)
{
	struct space_residency r;

	space_residency(s->space, &r);
	return r.mapped;
}

Test(moving, out_and_back)
{
	struct lane *l = lb[0].guest;
	CUdeviceptr a = moving_alloc(l, 16 * MIB);
	struct msg_moved m;

	moving_fill(l, a, 16 * MIB, 0xabcd0001);
	tell_prealloc(4 * MIB);
	m = moving_move(MSG_RECLAIM, 7, 16 * MIB, PLACE_MAPPED);
	cr_assert(m.bytes == 16 * MIB && m.result == 0);
	cr_assert_eq(moving_mapped(), 16 * MIB);
	cr_assert_eq(s->count->mapped_bytes, 16 * MIB);
	cr_assert_eq(s->count->moved_out_bytes, 16 * MIB);
	moving_check(l, a, 16 * MIB, 0xabcd0001);
	moving_fill(l, a, MIB, 0xabcd0002);
	m = moving_move(MSG_RESTORE, 8, 4 * MIB, PLACE_MAPPED);
	cr_assert(m.bytes == 4 * MIB && m.result == 0);
	cr_assert_eq(moving_mapped(), 12 * MIB);
	moving_check(l, a, MIB, 0xabcd0002);
	moving_check(l, a + MIB, 15 * MIB, 0xabcd0001);
	m = moving_move(MSG_RECLAIM, 9, 64 * MIB, PLACE_MAPPED);
	cr_assert(m.bytes == 4 * MIB && m.result == -ENOSPC);
	moving_release(l, a);
	cr_assert_eq(moving_wait(MSG_EVICTED_FREED, 1).evicted_freed.bytes, 16 * MIB);
}

/* Once all that was asked for has left, weftd hears of it, and then of the rest; what
 * need not be mapped, or nobody waits for, has no rest. */
Test(moving, left_before_it_is_mapped)
{
	struct lane *l = lb[0].guest;

	moving_fill(l, moving_alloc(l, 16 * MIB), 16 * MIB, 1);
	moving_move(MSG_RECLAIM, 1, 6 * MIB, PLACE_MAPPED);
	cr_assert_eq(weftd.n[MSG_LEFT], 1);
	cr_assert_eq(weftd.last[MSG_LEFT].id, 1);
	cr_assert_geq(weftd.last[MSG_LEFT].left.bytes, 6 * MIB);
	moving_move(MSG_RECLAIM, 2, 4 * MIB, PLACE_SWAPPED);
	moving_move(MSG_RECLAIM, 3, 64 * MIB, PLACE_MAPPED); /* there is not so much */
	moving_move(MSG_RESTORE, 4, 16 * MIB, PLACE_MAPPED);
	nobody_waits = true;
	moving_move(MSG_RECLAIM, 5, 16 * MIB, PLACE_MAPPED);
	cr_assert_eq(weftd.n[MSG_LEFT], 1);
	cr_assert_eq(weftd.out, 32 * MIB);
}

/* Swapped memory comes back when it is wanted, as far as there is room; the rest is
 * mapped. */
Test(moving, swapped_until_it_is_wanted)
{
	struct lane *l = lb[0].guest;
	CUdeviceptr a = moving_alloc(l, 16 * MIB);
	struct msg_moved m;
	struct msg need;

	weftd.by_itself = true;
	weftd.seed = 2; /* half */
	moving_fill(l, a, 16 * MIB, 5);
	m = moving_move(MSG_RECLAIM, 1, 16 * MIB, PLACE_SWAPPED);
	cr_assert_eq(m.bytes, 16 * MIB);
	cr_assert_eq(moving_swapped(), 16 * MIB);
	moving_release(l, moving_alloc(l, MIB)); /* that touches nothing */
	cr_assert_eq(weftd.n[MSG_NEED], 0);
	moving_check(l, a, 16 * MIB, 5);
	need = moving_wait(MSG_NEED, 1);
	cr_assert_eq(need.need.bytes, 16 * MIB);
	cr_assert_eq(moving_wait(MSG_RESTORED, 1).id, need.id);
	cr_assert_eq(moving_swapped(), 0);
	cr_assert_eq(moving_mapped() + weftd.in, 16 * MIB);
	moving_release(l, a);
}

/* The driver looks at what a graph copies when the graph is made. */
Test(moving, wanted_by_a_graph)
{
	struct lane *l = lb[0].guest;
	CUdeviceptr a = moving_alloc(l, 16 * MIB);
	const uint64_t exec = handle_make(HANDLE_GRAPH_EXEC, 1, 1);

	weftd.by_itself = true;
	moving_fill(l, a, 16 * MIB, 5);
	(void)moving_move(MSG_RECLAIM, 1, 16 * MIB, PLACE_SWAPPED);
	*begin(l, graph_new) = (struct graph_new_cmd){.exec = exec};
	cr_assert_eq(lane_post(l), 0);
	begin(l, graph_ready)->exec = exec;
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
	cr_assert_eq(moving_swapped(), 0);
	moving_check(l, a, 16 * MIB, 5);
	moving_release(l, a);
}

static void graph_fills(struct lane *l, uint64_t exec, CUdeviceptr dst)
{
	*begin(l, graph_fill) = (struct graph_fill_cmd){
		.exec = exec, .dst = dst, .width = 1, .height = 1, .elem_bytes = 1};
	cr_assert_eq(lane_post(l), 0);
}

/* And when a node of it is changed. */
Test(moving, wanted_by_a_node_of_a_graph)
{
	struct lane *l = lb[0].guest;
	CUdeviceptr a = moving_alloc(l, 16 * MIB);
	const uint64_t exec = handle_make(HANDLE_GRAPH_EXEC, 1, 1);

	weftd.by_itself = true;
	moving_fill(l, a, 16 * MIB, 5);
	*begin(l, graph_new) = (struct graph_new_cmd){.exec = exec, .n_nodes = 1};
	cr_assert_eq(lane_post(l), 0);
	graph_fills(l, exec, a);
	begin(l, graph_ready)->exec = exec;
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
	(void)moving_move(MSG_RECLAIM, 1, 16 * MIB, PLACE_SWAPPED);
	cr_assert_eq(moving_swapped(), 16 * MIB);
	graph_fills(l, exec, a + 1);
	moving_release(
		l, moving_alloc(l, MIB)); /* that touches nothing, and comes behind it */
	cr_assert_eq(moving_swapped(), 0);
	moving_check(l, a, 16 * MIB, 5);
	moving_release(l, a);
}

/* More goes out while the answer is awaited. */
static void *check_on_thread(void *arg)
{
	moving_check(lb[0].guest, *(CUdeviceptr *)arg, 8 * MIB, 6);
	return NULL;
}

Test(moving, out_while_it_asks)
{
	struct lane *l = lb[0].guest;
	CUdeviceptr a = moving_alloc(l, 8 * MIB), b = moving_alloc(l, 8 * MIB);
	struct msg_moved m;
	uint32_t need;
	pthread_t t;

	moving_fill(l, a, 8 * MIB, 6);
	moving_fill(l, b, 8 * MIB, 7);
	m = moving_move(MSG_RECLAIM, 1, 8 * MIB, PLACE_SWAPPED);
	cr_assert_eq(m.bytes, 8 * MIB);
	cr_assert_eq(pthread_create(&t, NULL, check_on_thread, &a), 0);
	need = moving_wait(MSG_NEED, 1).id;
	m = moving_move(MSG_RECLAIM, 2, 8 * MIB, PLACE_SWAPPED);
	cr_assert_eq(m.bytes, 8 * MIB);
	cr_assert_eq(weftd.n[MSG_NEED], 1);
	moving_grant(need, 4 * MIB);
	pthread_join(t, NULL);
	cr_assert_eq(moving_wait(MSG_RESTORED, 1).moved.bytes, 4 * MIB);
	cr_assert_eq(moving_mapped(), 12 * MIB);
	moving_check(l, b, 8 * MIB, 7);
}

/* Two threads share what is evicted: one gets room for all of it, the other for none. */
static void *share_on_thread(void *arg)
{
	share(lb[1].guest, *(CUdeviceptr *)arg);
	return NULL;
}

Test(moving, shared_while_evicted)
{
	struct lane *l = lb[0].guest;
	CUdeviceptr a = moving_alloc(l, 8 * MIB), b = moving_alloc(l, 8 * MIB);
	struct space_residency r;
	struct msg_moved m;
	pthread_t t;

	open_lanes(1, 2);
	moving_fill(l, a, 8 * MIB, 6);
	moving_fill(l, b, 8 * MIB, 7);
	m = moving_move(MSG_RECLAIM, 1, 16 * MIB, PLACE_MAPPED);
	cr_assert_eq(m.bytes, 16 * MIB);
	cr_assert_eq(pthread_create(&t, NULL, share_on_thread, &a), 0);
	share(l, b);
	pthread_join(t, NULL);
	cr_assert_geq(weftd.n[MSG_MAKE_RESIDENT], 2);
	space_residency(s->space, &r);
	cr_assert_eq(r.movable, 0);
	cr_assert_eq(r.pinned, weftd.in);
	cr_assert_eq(r.mapped, weftd.shared);
	cr_assert_eq(r.pinned + r.mapped, 16 * MIB);
	m = moving_move(MSG_RECLAIM, 2, 16 * MIB, PLACE_MAPPED);
	cr_assert_eq(m.bytes, 0);
	moving_check(l, a, 8 * MIB, 6);
	moving_check(l, b, 8 * MIB, 7);
	moving_release(l, a);
	moving_release(l, b);
	cr_assert_eq(moving_wait(MSG_IPC_DROP, 2).type, MSG_IPC_DROP);
}

/* Memory that is mapped nowhere becomes resident as well, and nobody sees it meanwhile.
 * */
static CUdeviceptr map_backing(struct lane *l, uint64_t backing, uint64_t size)
{
	const struct cuMemAddressReserve_rep *rep;
	struct mem_set_access_cmd *access;
	CUdeviceptr at;

	begin(l, cuMemAddressReserve)->size = size;
	cr_assert_eq(call(l, (const void **)&rep), CUDA_SUCCESS);
	at = rep->ptr;
	*begin(l, cuMemMap) =
		(struct cuMemMap_cmd){.ptr = at, .size = size, .handle = backing};
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
	access = begin(l, mem_set_access);
	access->ptr = at;
	access->size = size;
	access->access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
	return at;
}

Test(moving, shared_while_mapped_nowhere)
{
	const uint64_t backing = handle_make(HANDLE_MEM, 1, 1);
	struct lane *l = lb[0].guest;
	struct space_range range;
	struct msg_moved m;
	CUdeviceptr at;

	*begin(l, mem_create) = (struct mem_create_cmd){.mem = backing, .size = 4 * MIB};
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
	at = map_backing(l, backing, 4 * MIB);
	moving_fill(l, at, 4 * MIB, 8);
	m = moving_move(MSG_RECLAIM, 1, 4 * MIB, PLACE_SWAPPED);
	cr_assert_eq(m.bytes, 4 * MIB);
	*begin(l, cuMemUnmap) = (struct cuMemUnmap_cmd){.ptr = at, .size = 4 * MIB};
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
	weftd.seed = 1;
	begin(l, mem_export)->mem = backing;
	cr_assert_eq(call(l, NULL), CUDA_SUCCESS);
	cr_assert_eq(moving_wait(MSG_MAKE_RESIDENT, 1).make_resident.bytes, 4 * MIB);
	cr_assert_eq(weftd.in + weftd.shared, 4 * MIB);
	cr_assert_eq(weftd.shared, 0, "there was room for it");
	/* it lay at an address for a moment */
	for (at = DEVICE_BAND_BASE; at < DEVICE_BAND_BASE + 64 * MIB; at += MIB)
		cr_assert(space_find(s->space, at, &range) != CUDA_SUCCESS ||
			  !range.mapped);
	at = map_backing(l, backing, 4 * MIB);
	moving_check(l, at, 4 * MIB, 8);
}

static uint64_t used(void)
{
	uint64_t used, peak;

	space_usage(s->space, &used, &peak);
	return used;
}

/* Memory that a pool has and the program does not use is freed before anything moves. */
Test(moving, pools_first)
{
	struct lane *l = lb[0].guest;
	CUdeviceptr a = moving_alloc(l, 16 * MIB), p;
	uint64_t had = used();
	struct msg_moved m;

	moving_fill(l, a, 16 * MIB, 9);
	cr_assert_eq(pool_set(s->pools, pools_default(s->pools),
			      CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX),
		     CUDA_SUCCESS);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(pool_alloc(s->pools, pools_default(s->pools), NULL, NULL,
					8 * MIB, &p),
			     CUDA_SUCCESS);
		cr_assert_gt(used(), had + 8 * MIB);
		cr_assert(pools_free(s->pools, p));
		cr_assert_gt(used(), had + 8 * MIB, "the pool keeps it");
		m = moving_move(MSG_RECLAIM, 1 + i, 16 * MIB, PLACE_MAPPED);
		cr_assert(m.result == 0 && m.bytes == 0);
		cr_assert_eq(used(), had);
		cr_assert_eq(moving_mapped(), 0);
	}
	m = moving_move(MSG_RECLAIM, 3, 16 * MIB, PLACE_MAPPED);
	cr_assert(m.result == 0 && m.bytes == 16 * MIB);
	moving_check(l, a, 16 * MIB, 9);
	moving_release(l, a);
}

/* If a pool's unused memory is in host memory, as many bytes as asked for leave the
 * device all the same. */
Test(moving, pools_that_are_evicted)
{
	struct lane *l = lb[0].guest;
	CUdeviceptr a, p;
	struct msg_moved m;

	cr_assert_eq(pool_set(s->pools, pools_default(s->pools),
			      CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX),
		     CUDA_SUCCESS);
	cr_assert_eq(
		pool_alloc(s->pools, pools_default(s->pools), NULL, NULL, 8 * MIB, &p),
		CUDA_SUCCESS);
	(void)moving_move(MSG_RECLAIM, 1, 1024 * MIB, PLACE_MAPPED);
	cr_assert_geq(moving_mapped(), 8 * MIB);
	cr_assert(pools_free(s->pools, p));
	cr_assert_geq(moving_mapped(), 8 * MIB, "the pool keeps it");
	a = moving_alloc(l, 16 * MIB);
	moving_fill(l, a, 16 * MIB, 9);
	m = moving_move(MSG_RECLAIM, 2, 16 * MIB, PLACE_MAPPED);
	cr_assert(m.result == 0 && m.bytes == 16 * MIB);
	cr_assert_eq(moving_mapped(), 16 * MIB);
	moving_check(l, a, 16 * MIB, 9);
	moving_release(l, a);
}

struct msg_moved moving_reclaim(uint32_t id, uint64_t bytes)
{
	unsigned n = weftd.n[MSG_RECLAIMED];

	tell_to_move(MSG_RECLAIM, id, bytes, PLACE_MAPPED);
	return moving_wait(MSG_RECLAIMED, n + 1).moved;
}

/* Work that does not end is waited for longer each time, and weftd hears when it has. */
Test(moving, endless_work_is_waited_for_longer_each_time)
{
	struct lane *l = lb[0].guest;
	CUdeviceptr a = moving_alloc(l, 16 * MIB);
	struct gate_lane work;
	unsigned n, times = 0;
	struct msg_moved m;

	moving_fill(l, a, 16 * MIB, 8);
	gate_lane_add(&s->gate, &work);
	do {
		cr_assert_eq(gate_enter(&s->gate, &work), 0);
		n = weftd.n[MSG_QUIESCED];
		m = moving_reclaim(++times, 16 * MIB);
		cr_assert(m.result == -EBUSY && !m.bytes);
		cr_assert_eq(m.will_wait, times > 1);
		if (times == 2)
			cr_assert_eq(moving_wait(MSG_QUIESCED, n + 1).quiesced.result,
				     -EBUSY);
		gate_leave(&work);
	} while (times <= 2 || moving_wait(MSG_QUIESCED, n + 1).quiesced.result < 0);
	m = moving_move(MSG_RECLAIM, ++times, 16 * MIB, PLACE_MAPPED);
	cr_assert(m.result == 0 && m.bytes == 16 * MIB);
	/* and from the beginning again */
	cr_assert_eq(gate_enter(&s->gate, &work), 0);
	m = moving_reclaim(++times, 16 * MIB);
	cr_assert(m.result == -EBUSY && !m.will_wait);
	gate_leave(&work);
	gate_lane_remove(&s->gate, &work);
	moving_check(l, a, 16 * MIB, 8);
	moving_release(l, a);
}

Test(moving, what_weftd_does_not_say)
{
	static const uint32_t types[] = {MSG_NEED_GRANTED, MSG_RESIDENT_GRANTED,
					 MSG_CHARGED, MSG_HELLO};
	struct msg m = {.type = MSG_NUM};

	cr_assert_eq(moving_told(moving, &m), -EPROTO);
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		m = (struct msg){.type = types[i]};
		cr_assert_eq(moving_told(moving, &m), -EPROTO);
		m.id = 12345;
		cr_assert_eq(moving_told(moving, &m), -EPROTO);
	}
	m = (struct msg){.type = MSG_RECLAIM};
	m.reclaim.bytes = m.reclaim.host_room = UINT64_MAX;
	cr_assert_eq(moving_told(moving, &m), 0);
	moving_wait(MSG_RECLAIMED, 1);
}

/* ---- all at once ---- */

#define BUFFERS 6
#define STEPS   250

struct buffer {
	CUdeviceptr addr;
	uint64_t bytes;
	uint32_t value;
};

static const uint64_t sizes[] = {4096, 300u << 10, MIB + 4096, 6 * MIB};

static void step(struct lane *l, struct buffer *b, unsigned *seed, uint32_t value)
{
	struct buffer *k = &b[rand_r(seed) % BUFFERS], *o = &b[rand_r(seed) % BUFFERS];
	uint64_t at;

	if (!k->addr) {
		k->bytes = sizes[rand_r(seed) % ARRAY_SIZE(sizes)];
		k->addr = moving_alloc(l, k->bytes);
		k->value = value;
		moving_fill(l, k->addr, k->bytes, value);
		return;
	}
	if (rand_r(seed) % 32 == 0) { /* what stays where it is from then on */
		share(l, k->addr);
		return;
	}
	switch (rand_r(seed) % 6) {
	case 0:
		moving_check(l, k->addr, k->bytes, k->value);
		moving_release(l, k->addr);
		k->addr = 0;
		return;
	case 1:
	case 2:
		if (o == k || !o->addr || o->bytes != k->bytes)
			return;
		copy(l, k->addr, o->addr, k->bytes);
		k->value = o->value;
		return;
	case 3:
		k->value = value;
		moving_fill(l, k->addr, k->bytes, value);
		return;
	default:
		at = rand_r(seed) % (k->bytes / 4096) * 4096;
		moving_check(l, k->addr + at, 4096, k->value);
		return;
	}
}

static _Atomic unsigned working;

static void *lane_main(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg, seed = i + 1;
	struct lane *l = lb[i].guest;
	struct buffer b[BUFFERS] = {0};

	for (uint32_t n = 0; n < STEPS; n++)
		step(l, b, &seed, i << 24 | n);
	for (unsigned k = 0; k < BUFFERS; k++) {
		if (!b[k].addr)
			continue;
		moving_check(l, b[k].addr, b[k].bytes, b[k].value);
		moving_release(l, b[k].addr);
	}
	atomic_fetch_sub(&working, 1);
	return NULL;
}

/* One move after the other, as weftd asks for them. */
static void move_something(unsigned *seed, uint32_t id)
{
	uint64_t bytes = (uint64_t)(1 + rand_r(seed) % 64) << 18;
	bool out = rand_r(seed) % 2;
	unsigned n;

	pthread_mutex_lock(&weftd.lock);
	/* Not beside a NEED or MAKE_RESIDENT. */
	if (!out && (weftd.n[MSG_NEED] || weftd.n[MSG_MAKE_RESIDENT]))
		out = true;
	n = weftd.n[out ? MSG_RECLAIMED : MSG_RESTORED];
	pthread_mutex_unlock(&weftd.lock);
	tell_to_move(out ? MSG_RECLAIM : MSG_RESTORE, id, bytes,
		     rand_r(seed) % 2 ? PLACE_MAPPED : PLACE_SWAPPED);
	moving_wait(out ? MSG_RECLAIMED : MSG_RESTORED, n + 1);
	if (rand_r(seed) % 8 == 0)
		tell_prealloc(bytes);
}

Test(moving, while_lanes_work)
{
	pthread_t t[LANES];
	unsigned seed = 5;
	uint32_t id = 0;

	weftd.by_itself = true;
	weftd.seed = 3;
	open_lanes(1, LANES);
	atomic_store(&working, LANES);
	for (unsigned i = 0; i < LANES; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, lane_main, (void *)(uintptr_t)i),
			     0);
	while (atomic_load(&working))
		move_something(&seed, ++id);
	for (unsigned i = 0; i < LANES; i++)
		pthread_join(t[i], NULL);
	cr_assert_gt(weftd.out, 0);
	cr_assert_gt(weftd.in, 0);
	cr_assert_gt(weftd.n[MSG_NEED], 0);
	cr_assert_gt(weftd.n[MSG_IPC_EXPORT], 0);
	/* Frees that came last may not have been heard yet. */
	pthread_mutex_lock(&weftd.lock);
	while (weftd.out > weftd.in + weftd.freed + weftd.shared)
		pthread_cond_wait(&weftd.cond, &weftd.lock);
	cr_assert_eq(weftd.out, weftd.in + weftd.freed + weftd.shared);
	pthread_mutex_unlock(&weftd.lock);
}
