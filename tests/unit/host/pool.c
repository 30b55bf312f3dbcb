/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in stream order: who may use again what was freed where, and when. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "memory/pool/private.h"
#include "memory/space.h"

#define MIB     (1ull << 20)
#define UNIT    512u
#define STREAMS 4
#define LIVE    300
#define ALL     (32 * MIB) /* of an arena */
/* Bytes of the band for which the test remembers who freed them. */
#define MEMORY (4096 * MIB)

static struct session *s;
static struct pools *p;
static struct dev_ctx *ctx;
static struct dev_stream *st[STREAMS];

struct piece {
	CUdeviceptr addr;
	uint64_t bytes;
};

/* The last free of each unit of memory: stream + 1, and its place there. */
static struct {
	unsigned by;
	uint64_t at;
	bool used;
} * unit;

static void open_all(void)
{
	s = fake_session();
	p = s->pools;
	ctx = s->primary->dev;
	for (unsigned i = 0; i < STREAMS; i++)
		cr_assert_eq(s->ops->stream.create(ctx, 0, 0, &st[i]), CUDA_SUCCESS);
	unit = calloc(MEMORY / UNIT, sizeof(*unit));
}

static void close_all(void)
{
	for (unsigned i = 0; i < STREAMS; i++) {
		pools_stream_gone(p, ctx, st[i]);
		s->ops->stream.destroy(st[i]);
	}
	sess_free(s);
	free(unit);
	cr_assert(fake.created == 0 && fake.mapped == 0 && fake.reserved == 0);
	cr_assert_eq(fake_charged, 0);
	cr_assert_eq(fake.events, 0);
}

static uint64_t get(struct pool *pool, CUmemPool_attribute attr)
{
	uint64_t v = 0;

	cr_assert_eq(pool_get(p, pool, attr, &v), CUDA_SUCCESS);
	return v;
}

static void set(struct pool *pool, CUmemPool_attribute attr, uint64_t v)
{
	cr_assert_eq(pool_set(p, pool, attr, v), CUDA_SUCCESS);
}

/* Nobody who uses memory runs beside who used it before. */
static void check_order(const struct piece *k, unsigned who)
{
	uint64_t first = (k->addr - DEVICE_BAND_BASE) / UNIT;

	cr_assert_leq(k->addr + k->bytes, DEVICE_BAND_BASE + MEMORY);
	for (uint64_t u = first; u < first + (k->bytes + UNIT - 1) / UNIT; u++) {
		unsigned by = unit[u].by - 1;

		cr_assert(!unit[u].used, "memory in use");
		unit[u].used = true;
		if (!unit[u].by || by == who || fake_done(st[by]) >= unit[u].at)
			continue;
		cr_assert_geq(fake.waits[fake_index(st[who])][fake_index(st[by])],
			      unit[u].at);
	}
}

static void note_free(const struct piece *k, unsigned who)
{
	uint64_t first = (k->addr - DEVICE_BAND_BASE) / UNIT;

	for (uint64_t u = first; u < first + (k->bytes + UNIT - 1) / UNIT; u++) {
		unit[u].used = false;
		unit[u].by = who + 1;
		unit[u].at = fake_submit(st[who]); /* it counts from here on */
	}
}

static uint64_t some_bytes(void)
{
	switch (rand() % 4) {
	case 0:
		return 1 + (uint64_t)rand() % 4000;
	case 1:
		return 1 + (uint64_t)rand() % (200 << 10);
	default:
		return 1 + (uint64_t)rand() % (rand() % 8 ? 2 << 20 : 40 << 20);
	}
}

/* `who` waits for what `whom` has been given so far, as dispatch does it. */
static void wait_for(unsigned who, unsigned whom)
{
	struct dev_event *ev;
	uint64_t moment;

	cr_assert_eq(s->ops->event.create(ctx, 0, &ev), CUDA_SUCCESS);
	moment = pools_moment(p);
	fake_submit(st[whom]);
	s->ops->event.record(ctx, ev, st[whom]);
	fake_submit(st[whom]);
	cr_assert_eq(s->ops->stream.wait_event(ctx, st[who], ev), CUDA_SUCCESS);
	pools_waited(p, st[who], st[whom], moment);
	s->ops->event.destroy(ev);
}

static void random_run(unsigned seed, uint64_t threshold)
{
	struct pool *pool = pools_default(p);
	struct piece k[LIVE];
	uint64_t used = 0;
	unsigned n = 0;

	srand(seed);
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold);
	for (unsigned i = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
	     i <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; i++)
		set(pool, (CUmemPool_attribute)i, (uint64_t)rand() % 2);
	for (unsigned step = 0; step < 4000; step++) {
		unsigned who = (unsigned)rand() % STREAMS;

		if (n < LIVE && rand() % 2) {
			k[n].bytes = some_bytes();
			if (pool_alloc(p, pool, ctx, st[who], k[n].bytes, &k[n].addr)) {
				cr_assert_neq(fake_quota, UINT64_MAX);
				continue;
			}
			check_order(&k[n], who);
			used += k[n++].bytes;
		} else if (n) {
			unsigned i = (unsigned)rand() % n;

			note_free(&k[i], who);
			cr_assert_eq(pools_free_async(p, ctx, st[who], k[i].addr),
				     CUDA_SUCCESS);
			cr_assert_eq(pools_free_async(p, ctx, st[who], k[i].addr),
				     CUDA_ERROR_INVALID_VALUE);
			used -= k[i].bytes;
			k[i] = k[--n];
		}
		if (rand() % 4 == 0)
			wait_for(who, (unsigned)rand() % STREAMS);
		if (rand() % 3 == 0)
			fake_advance(st[who], (uint64_t)rand() % 20000);
		if (rand() % 50 == 0) {
			fake_advance(st[who], UINT64_MAX / 2);
			pools_synced(p);
		}
		cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), used);
		cr_assert_geq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), used);
		cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
			     fake_charged);
	}
	while (n--) {
		note_free(&k[n], 0);
		cr_assert_eq(pools_free_async(p, ctx, st[0], k[n].addr), CUDA_SUCCESS);
	}
	for (unsigned i = 0; i < STREAMS; i++)
		fake_advance(st[i], UINT64_MAX / 2);
	pool_trim(p, pool, 0);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	cr_assert_eq(fake_charged, 0);
}

Test(pool, random_order)
{
	open_all();
	for (unsigned seed = 1; seed <= 6; seed++)
		random_run(seed, seed % 2 ? 0 : UINT64_MAX);
	close_all();
}

Test(pool, random_order_when_memory_is_short)
{
	open_all();
	fake_quota = 96 * MIB;
	for (unsigned seed = 11; seed <= 16; seed++)
		random_run(seed, seed % 2 ? 0 : UINT64_MAX);
	fake_quota = UINT64_MAX;
	close_all();
}

static CUdeviceptr take(struct pool *pool, unsigned who, uint64_t bytes)
{
	CUdeviceptr addr;

	cr_assert_eq(pool_alloc(p, pool, ctx, st[who], bytes, &addr), CUDA_SUCCESS);
	return addr;
}

static void give(unsigned who, CUdeviceptr addr)
{
	cr_assert_eq(pools_free_async(p, ctx, st[who], addr), CUDA_SUCCESS);
}

/* The numbers are those of the real driver. */
Test(pool, attributes_have_the_numbers_of_the_real_driver)
{
	struct pool *pool;
	CUdeviceptr a, b;

	open_all();
	pool = pools_default(p);
	a = take(pool, 0, 1000);
	b = take(pool, 0, 600);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * MIB);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1600);
	give(0, a);
	give(0, b);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * MIB);
	pools_synced(p);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 32 * MIB);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1600);
	set(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0);
	cr_assert_eq(pool_set(p, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 5),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(pool_set(p, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0),
		     CUDA_ERROR_INVALID_VALUE);
	/* what is kept and what is trimmed */
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
	a = take(pool, 0, 60 * MIB);
	b = take(pool, 0, 60 * MIB);
	give(0, a);
	give(0, b);
	pools_synced(p);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 128 * MIB);
	pool_trim(p, pool, 50 * MIB);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
	pool_trim(p, pool, 0);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	close_all();
}

Test(pool, freed_memory_is_its_streams_until_others_get_there)
{
	struct pool *pool;
	CUdeviceptr a, b;

	open_all();
	pool = pools_default(p);
	a = take(pool, 0, ALL);
	fake_submit(st[0]);
	give(0, a);
	b = take(pool, 1, ALL);
	cr_assert_neq(a, b, "the other stream is not there yet");
	cr_assert_eq(take(pool, 0, ALL), a, "the same one is");
	give(0, a);
	fake_advance(st[0], 1);
	cr_assert_eq(take(pool, 2, ALL), a, "and now anybody");
	give(2, a);
	/* along an event, without being done */
	set(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0);
	fake_submit(st[2]);
	cr_assert_neq(b, a);
	wait_for(3, 2);
	cr_assert_eq(take(pool, 3, ALL), a);
	give(3, a);
	wait_for(2, 3);
	set(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0);
	cr_assert_neq(take(pool, 2, ALL), a);
	set(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1);
	set(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1);
	cr_assert_eq(take(pool, 2, ALL), a);
	/* a stream that ends with work in it */
	fake_submit(st[2]);
	give(2, a);
	pools_stream_gone(p, ctx, st[2]);
	cr_assert_neq(take(pool, 1, ALL), a);
	fake_advance(st[2], UINT64_MAX / 2);
	cr_assert_eq(take(pool, 1, ALL), a);
	/* a lost context has nothing left to wait for */
	fake_submit(st[1]);
	give(1, a);
	cr_assert_eq(pools_free(p, b), true);
	cr_assert_eq(pools_free(p, b), false);
	close_all();
}

Test(pool, limits_and_destruction)
{
	struct space_range range;
	struct pool *pool;
	CUdeviceptr a, b;
	uint64_t h;

	open_all();
	pool = pool_new(p, 77, 10 * MIB);
	a = take(pool, 0, 9 * MIB);
	b = take(pool, 0, 2 * MIB);
	cr_assert_eq(pool_alloc(p, pool, ctx, st[0], 30 * MIB, &a),
		     CUDA_ERROR_OUT_OF_MEMORY, "above 32 MiB");
	cr_assert_eq(pools_find(p, b + 5, &range, &h), CUDA_SUCCESS);
	cr_assert(range.base == b && range.size == 2 * MIB && h == 77);
	cr_assert_neq(pools_find(p, b + 2 * MIB, &range, &h), CUDA_SUCCESS);
	cr_assert(!space_is_alloc(s->space, a));
	pool_destroy(p, pool);
	cr_assert_eq(fake_charged, 32 * MIB, "allocations live on");
	give(0, a);
	give(0, b);
	cr_assert_eq(pools_free_async(p, ctx, st[0], b), CUDA_ERROR_INVALID_VALUE);
	pools_synced(p);
	cr_assert_eq(fake_charged, 0);
	/* what a pool keeps makes room for others */
	pool = pools_default(p);
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
	give(0, take(pool, 0, 20 * MIB));
	fake_quota = 33 * MIB;
	cr_assert_eq(space_alloc(s->space, 2 * MIB, 1, &a), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert(pools_reclaim(p));
	cr_assert_eq(space_alloc(s->space, 2 * MIB, 1, &a), CUDA_SUCCESS);
	/* a step does not fit, what is asked for does */
	a = take(pool, 0, 30 * MIB);
	cr_assert_eq(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 30 * MIB);
	fake_quota = UINT64_MAX;
	close_all();
}

/* More nodes than there may be pools, in as much memory as they ask for. */
Test(pool, graphs_take_what_they_ask_for)
{
	static CUdeviceptr a[2000];
	struct pool *pool;
	CUdeviceptr large;

	open_all();
	pool = pools_graphs(p);
	for (unsigned i = 0; i < ARRAY_SIZE(a); i++)
		cr_assert_eq(pool_alloc(p, pool, NULL, NULL, 1024, &a[i]), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 2 * MIB);
	cr_assert_eq(pool_alloc(p, pool, NULL, NULL, 5 * MIB, &large), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 8 * MIB);
	cr_assert(pools_free(p, large));
	cr_assert_eq(fake_charged, 2 * MIB, "goes with what was there");
	for (unsigned i = 0; i < ARRAY_SIZE(a); i++)
		cr_assert_eq(pools_free_async(p, ctx, st[0], a[i]), CUDA_SUCCESS);
	pools_synced(p);
	cr_assert_eq(fake_charged, 0);
	close_all();
}

/*
 * However many blocks and streams there are, what fits, what holds an address and what a
 * stream has freed is found in as many steps as trees are high.
 */
Test(pool, much_is_found_in_few_steps)
{
	enum {
		N = 30000
	};
	static CUdeviceptr small[N], between[N];
	struct dev_stream *other[4000];
	struct space_range range;
	struct pool *pool;
	CUdeviceptr a;
	uint64_t of;

	open_all();
	pool = pools_default(p);
	for (unsigned i = 0; i < N; i++) {
		small[i] = take(pool, 0, 16 * UNIT);
		between[i] = take(pool, 0, UNIT);
	}
	cr_assert_leq(p->used.root->height, 23);
	cr_assert_eq(pools_find(p, small[N / 2] + 5000, &range, &of), CUDA_SUCCESS);
	cr_assert_eq(range.base, small[N / 2]);
	for (unsigned i = 0; i < N; i++)
		cr_assert(pools_free(p, small[i]));
	cr_assert_leq(pool->free.root->height, 22);
	cr_assert_neq(pools_find(p, small[N / 2] + 5000, &range, &of), CUDA_SUCCESS);
	/* The best one, not one of about that size. */
	cr_assert(pools_free(p, between[7]));
	cr_assert_eq(take(pool, 0, 33 * UNIT), small[7]);
	cr_assert(pools_free(p, between[70]));
	cr_assert_eq(take(pool, 0, 33 * UNIT), small[70]);
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
	for (unsigned i = 0; i < ARRAY_SIZE(other); i++) {
		cr_assert_eq(s->ops->stream.create(ctx, 0, 0, &other[i]), CUDA_SUCCESS);
		cr_assert_eq(pool_alloc(p, pool, ctx, other[i], UNIT, &a), CUDA_SUCCESS);
	}
	cr_assert_leq(pool->streams.root->height, 18);
	cr_assert_eq(pools_free_async(p, ctx, other[9], a), CUDA_SUCCESS);
	cr_assert_eq(pool->busy.next, pool->busy.prev,
		     "one, and not those that wait for nothing");
	for (unsigned i = 0; i < ARRAY_SIZE(other); i++) {
		pools_stream_gone(p, ctx, other[i]);
		s->ops->stream.destroy(other[i]);
	}
	cr_assert_leq(pool->streams.root ? pool->streams.root->height : 0, 3);
	close_all();
}

/* ---- while a pool grows ---- */

static struct pool *growing;
static CUdeviceptr first, next_arena;

/* Others free, look up and allocate from the same pool, meanwhile. */
static void go_on(void)
{
	struct space_range r;
	CUdeviceptr a;
	uint64_t of;

	fake_while_charging = NULL;
	cr_assert_eq(pools_find(p, first, &r, &of), CUDA_SUCCESS);
	cr_assert_neq(pools_find(p, next_arena, &r, &of), CUDA_SUCCESS);
	cr_assert_eq(pools_free_async(p, ctx, st[1], first), CUDA_SUCCESS);
	cr_assert_eq(pool_alloc(p, growing, ctx, st[1], ALL, &a), CUDA_SUCCESS);
	cr_assert_eq(a, first);
}

Test(pool, others_go_on_while_it_grows, .timeout = 20)
{
	CUdeviceptr a;

	open_all();
	growing = pool_new(p, 5, 3 * ALL);
	cr_assert_eq(pool_alloc(p, growing, ctx, st[1], ALL, &first), CUDA_SUCCESS);
	next_arena = first + ALL;
	fake_while_charging = go_on;
	cr_assert_eq(pool_alloc(p, growing, ctx, st[0], ALL, &a), CUDA_SUCCESS);
	cr_assert_null(fake_while_charging, "it has asked");
	cr_assert_eq(get(growing, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 2 * ALL);
	cr_assert_eq(get(growing, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 2 * ALL);
	cr_assert(pools_free(p, a) && pools_free(p, first));
	pool_destroy(p, growing);
	close_all();
}

static struct pool *bounded;
static CUdeviceptr second;

static void grow_as_well(void)
{
	fake_while_charging = NULL;
	cr_assert_eq(pool_alloc(p, bounded, ctx, st[1], ALL, &second),
		     CUDA_ERROR_OUT_OF_MEMORY);
}

/* Memory that another thread is asking for counts against the pool's own limit. */
Test(pool, its_limit_while_it_grows, .timeout = 20)
{
	CUdeviceptr a;

	open_all();
	bounded = pool_new(p, 5, ALL);
	fake_while_charging = grow_as_well;
	cr_assert_eq(pool_alloc(p, bounded, ctx, st[0], ALL, &a), CUDA_SUCCESS);
	cr_assert_null(fake_while_charging, "it has asked");
	cr_assert(pools_free(p, a));
	pool_destroy(p, bounded);
	close_all();
}
