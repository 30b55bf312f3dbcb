/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "device/rewrite/code.h"
#include "device/rewrite/run.h"

#define WARP_THREADS 32u
/* Threads of a block, and in its third dimension. */
#define BLOCK_MAX   1024u
#define BLOCK_MAX_Z 64u

static struct device_ops ours;
static struct device_link_ops our_link;
static struct device_graph_ops our_graph;

/* ---- launches ---- */

static bool is_always(void)
{
	return codes.mode == REWRITE_ALWAYS || codes.mode == REWRITE_ALWAYS_YIELD;
}

static bool is_timed(void)
{
	return codes.mode == REWRITE_AUTO || codes.mode == REWRITE_YIELD;
}

/* Blocks on an SM stand below what they were counted for, and a bit that says that they were. */
#define FITS_BLOCKS 256u

static uint64_t fits_for(unsigned threads, unsigned shared_bytes)
{
	return ((uint64_t)shared_bytes << 16 | threads) << 8 | 1ull << 63;
}

void fits_of(const struct kernel *k, unsigned *ret_threads, unsigned *ret_shared,
	     unsigned *ret_blocks)
{
	uint64_t fits = atomic_load_explicit(&k->fits, memory_order_relaxed);

	*ret_blocks = (unsigned)(fits % FITS_BLOCKS);
	*ret_threads = (unsigned)(fits >> 8 & UINT16_MAX);
	*ret_shared = (unsigned)(fits >> 24 & UINT32_MAX);
}

/* Whether fewer blocks of the copy run at once than of the kernel, where nobody finds out what that
 * costs. */
static bool costs_room(const struct dev_launch *l, unsigned threads, int n)
{
	int plain;

	return codes.mode == REWRITE_SHARE &&
	       !codes.under->func.occupancy(l->func, (int)threads, l->shared_bytes, 0,
					    &plain) &&
	       n < plain;
}

/* Blocks of a launch that run on one SM; 0: the copy is not for it. */
static unsigned blocks_on_sm(struct kernel *k, const struct dev_launch *l)
{
	unsigned threads = l->block[0] * l->block[1] * l->block[2];
	uint64_t key = fits_for(threads, l->shared_bytes);
	uint64_t fits = atomic_load_explicit(&k->fits, memory_order_relaxed);
	int n, room;

	if (fits - fits % FITS_BLOCKS == key)
		return (unsigned)(fits % FITS_BLOCKS);
	/* The copy has a little less room for dynamic shared memory. */
	if (codes.under->func.attribute(
		    k->copy, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &room) ||
	    room < 0 || l->shared_bytes > (unsigned)room ||
	    codes.under->func.occupancy(k->copy, (int)threads, l->shared_bytes, 0, &n) ||
	    n < 0 || costs_room(l, threads, n))
		n = 0;
	n = MIN(n, (int)FITS_BLOCKS - 1);
	atomic_store_explicit(&k->fits, key | (unsigned)n, memory_order_relaxed);
	return (unsigned)n;
}

static uint64_t blocks_of(const struct dev_launch *l)
{
	return (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
}

/* Notes what is launched, of a grid of so many blocks, of which an SM has room for some. */
static void note(struct kernel *k, uint64_t blocks, unsigned room)
{
	uint64_t on_sm = (blocks + codes.n_sms - 1) / codes.n_sms;

	atomic_fetch_add_explicit(&k->blocks, blocks, memory_order_relaxed);
	atomic_store_explicit(&k->fixed, on_sm <= room ? (unsigned)on_sm : 0,
			      memory_order_relaxed);
}

uint64_t permille_now(void)
{
	return codes.limit ? atomic_load_explicit(codes.limit, memory_order_relaxed) : 0;
}

/* Blocks of a copy that run at once on one SM; 0: the kernel runs as it is. */
static unsigned room_of(struct kernel *k, const struct dev_launch *l)
{
	const unsigned *g = l->grid, *b = l->block;
	uint64_t rows = (uint64_t)g[1] * g[2];
	unsigned room;

	if (codes.mode == REWRITE_OFF || l->cooperative || l->n_attrs || l->cluster[0] ||
	    l->params_size != k->params_size)
		return 0;
	if (ALIGN_UP(l->params_size, (size_t)8) + sizeof(struct ptx_persist_args) >
	    PTX_PERSIST_PARAMS_MAX)
		return 0;
	/* Grids and blocks that no device takes are for the device to refuse. */
	if (!g[0] || !rows ||
	    g[0] > MIN((uint64_t)INT32_MAX, PTX_PERSIST_GRID_MAX / rows) ||
	    g[1] > UINT16_MAX || g[2] > UINT16_MAX)
		return 0;
	if (!b[0] || !b[1] || !b[2] || b[0] > BLOCK_MAX || b[1] > BLOCK_MAX ||
	    b[2] > BLOCK_MAX_Z || b[0] * b[1] * b[2] > BLOCK_MAX)
		return 0;
	if (k->rows && b[0] % WARP_THREADS && b[1] * b[2] > 1)
		return 0;
	room = blocks_on_sm(k, l);
	if (is_always())
		return permille_now() ? room : MIN(room, 1u);
	note(k, g[0] * rows, room);
	return g[0] * rows > (uint64_t)room * codes.n_sms ? room : 0;
}

unsigned limited(unsigned room, uint64_t permille)
{
	return permille && permille < 1000 ? MAX(1u, (unsigned)(room * permille / 1000))
					   : room;
}

/* The copy's launch in the place of l, with so many blocks on each SM; false: l is to be launched. */
static bool replace(struct dev_launch *l, struct kernel *k, const struct dev_stream *st,
		    unsigned on_sm, char *params)
{
	size_t at = ALIGN_UP(l->params_size, (size_t)8);
	uint64_t blocks = blocks_of(l);
	unsigned n = (unsigned)MIN(blocks, (uint64_t)on_sm * codes.n_sms);
	struct ptx_persist_args args = {.launched = n, .blocks = (uint32_t)blocks};

	args.control = code_control(k->code, st);
	if (!args.control)
		return false;
	memcpy(args.grid, l->grid, sizeof(args.grid));
	if (l->params_size)
		memcpy(params, l->params, l->params_size);
	memset(params + l->params_size, 0, at - l->params_size);
	memcpy(params + at, &args, sizeof(args));
	atomic_fetch_add_explicit(&codes.launches, 1, memory_order_relaxed);
	l->func = k->copy;
	l->params = params;
	l->params_size = at + sizeof(args);
	l->grid[0] = n;
	l->grid[1] = l->grid[2] = 1;
	return true;
}

/* A launch that takes so long can be stopped: what that costs is a hundredth of it. */
#define STOP_NS 200000u

/* Kernels that nobody has timed may take for ever. */
static bool is_long(const struct kernel *k, const struct dev_launch *l)
{
	uint64_t ps = atomic_load_explicit(&k->block_ps, memory_order_relaxed);

	return !is_timed() || !ps || ps * blocks_of(l) / 1000 >= STOP_NS;
}

static CUresult launch_copy(struct dev_ctx *ctx, struct dev_stream *st,
			    const struct dev_launch *l, struct kernel *k, unsigned on_sm,
			    unsigned room)
{
	char params[PTX_PERSIST_PARAMS_MAX];
	struct dev_launch copy = *l;
	CUresult r;

	if (is_long(k, l) && run_launch(ctx, st, l, k, on_sm, room, &r))
		return r;
	return codes.under->func.launch(ctx, st,
					replace(&copy, k, st, on_sm, params) ? &copy : l);
}

/* Returns whether it was launched, timed. */
static bool try_launch(struct dev_ctx *ctx, struct dev_stream *st,
		       const struct dev_launch *l, struct kernel *k, unsigned room,
		       bool beside, CUresult *ret)
{
	unsigned form = trial_begin(k, ctx, st, blocks_of(l), beside);

	if (form == COST_FORMS)
		return false;
	if (form == COST_PLAIN)
		*ret = codes.under->func.launch(ctx, st, l);
	else
		*ret = launch_copy(ctx, st, l, k, MAX(1u, room * form / COST_PARTS), 0);
	trial_end(k, ctx, st, *ret == CUDA_SUCCESS);
	return true;
}

static enum cost_verdict verdict_of(const struct kernel *k)
{
	return atomic_load_explicit(&k->verdict, memory_order_relaxed);
}

/* For good. */
static bool is_left(const struct kernel *k)
{
	return verdict_of(k) == COST_LEAVE &&
	       !atomic_load_explicit(&k->beside, memory_order_relaxed);
}

/* Speeds with fewer blocks are those of the kernel alone; whether it is to be a copy at all has to
 * be known before that. */
static bool is_to_be_timed(const struct kernel *k, bool beside)
{
	return !atomic_load_explicit(&k->timed, memory_order_relaxed) &&
	       (!beside || verdict_of(k) == COST_OPEN);
}

/* Notes launches of which no copy is to be had. */
static void note_others(uint64_t n)
{
	if (codes.mode != REWRITE_OFF)
		atomic_fetch_add_explicit(&codes.others, n, memory_order_relaxed);
}

static CUresult launch(struct dev_ctx *ctx, struct dev_stream *st,
		       const struct dev_launch *l)
{
	struct kernel *k = table_find(&codes.kernels, l->func);
	unsigned room = 0, on_sm;
	uint64_t permille;
	CUresult r;

	if (k && !is_left(k))
		room = room_of(k, l);
	else if (k)
		note(k, blocks_of(l), 0);
	else
		note_others(1);
	permille = permille_now();
	if (!room || permille == DEV_BLOCKS_PLAIN)
		return codes.under->func.launch(ctx, st, l);
	on_sm = limited(room, permille);
	if (!is_timed())
		return launch_copy(ctx, st, l, k, on_sm, room);
	if (is_to_be_timed(k, permille) && try_launch(ctx, st, l, k, room, permille, &r))
		return r;
	return verdict_of(k) == COST_COPY ? launch_copy(ctx, st, l, k, on_sm, room)
					  : codes.under->func.launch(ctx, st, l);
}

/* Launches before the first one that may have a copy. */
static unsigned launch_batch(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_launch *l, unsigned n)
{
	const struct kernel *k = NULL;
	unsigned i = 0;

	while (i < n &&
	       ((k = table_find(&codes.kernels, l[i].func)) == NULL || is_left(k)))
		i++;
	if (i < 2)
		return 0;
	note_others(i);
	return codes.under->func.launch_batch(ctx, st, l, i);
}

static CUresult graph_launch(struct dev_graph *g, struct dev_stream *st)
{
	note_others(1);
	return codes.under->graph->launch(g, st);
}

static CUresult set_attribute(struct dev_func *f, CUfunction_attribute attr, int value)
{
	struct kernel *k = table_find(&codes.kernels, f);
	CUresult r = codes.under->func.set_attribute(f, attr, value);

	if (r == CUDA_SUCCESS && k) {
		/* Launches that the copy has no room for are the kernel's. */
		(void)codes.under->func.set_attribute(k->copy, attr, value);
		atomic_store(&k->fits, 0);
	}
	return r;
}

/* ---- the device ---- */

static int attribute_of(struct device *dev, CUdevice_attribute attr)
{
	int value;

	return codes.under->attribute(dev, attr, &value) ? 0 : value;
}

static void look_at_sm(struct device *dev)
{
	codes.sm_has = (struct device_sm){
		attribute_of(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
		attribute_of(dev, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
		attribute_of(dev,
			     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
		attribute_of(dev, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
		attribute_of(dev, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK),
	};
}

static int open_device(const struct device_config *cfg, struct device **ret_dev)
{
	struct device_info info;
	int r = codes.under->open(cfg, ret_dev);

	if (r < 0)
		return r;
	codes.under->info(*ret_dev, &info);
	codes.n_sms = info.n_sms;
	codes.sm = (unsigned)(10 * attribute_of(
					   *ret_dev,
					   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
			      attribute_of(*ret_dev,
					   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
	look_at_sm(*ret_dev);
	return 0;
}

static void limit(struct device *dev, const _Atomic uint64_t *permille)
{
	codes.limit = permille;
}

/* NULL: of all contexts. */
static void forget_streams_locked(const struct dev_ctx *ctx)
{
	struct known_stream *k;
	const void *key;

	for (size_t at = 0; (k = table_next(&codes.streams, &at, &key)) != NULL;) {
		if (!ctx || k->ctx == ctx)
			free(table_remove(&codes.streams, key));
	}
}

static void close_device(struct device *dev)
{
	struct list taken;

	go_on(dev);
	stop_end();
	code_take(NULL, &taken);
	codes.under->close(dev);
	run_forget_ctx(NULL);
	forget_streams_locked(NULL); /* nobody else is left */
	code_drop(&taken);
	code_end();
}

static void ctx_destroy(struct dev_ctx *ctx)
{
	struct list taken;

	go_on(NULL);
	code_take(ctx, &taken);
	pthread_mutex_lock(&codes.lock);
	(void)table_remove(&codes.contexts, ctx);
	forget_streams_locked(ctx);
	pthread_mutex_unlock(&codes.lock);
	run_forget_ctx(ctx);
	codes.under->ctx.destroy(ctx);
	code_drop(&taken);
}

static CUresult ctx_create(struct device *dev, unsigned flags, struct dev_ctx **ret_ctx)
{
	CUresult r = codes.under->ctx.create(dev, flags, ret_ctx);

	if (r == CUDA_SUCCESS) {
		pthread_mutex_lock(&codes.lock);
		/* Not known, nothing in it is said to be stopped. */
		codes.blind |= table_add(&codes.contexts, *ret_ctx, *ret_ctx) < 0;
		pthread_mutex_unlock(&codes.lock);
	}
	return r;
}

static CUresult stream_create(struct dev_ctx *ctx, unsigned flags, int priority,
			      struct dev_stream **ret_stream)
{
	CUresult r = codes.under->stream.create(ctx, flags, priority, ret_stream);

	struct known_stream *k;

	if (r)
		return r;
	k = calloc(1, sizeof(*k));
	pthread_mutex_lock(&codes.lock);
	if (k)
		*k = (struct known_stream){ctx, !(flags & DEV_STREAM_NON_BLOCKING)};
	codes.blind |= !k || table_add(&codes.streams, *ret_stream, k) < 0;
	pthread_mutex_unlock(&codes.lock);
	return r;
}

static void stream_destroy(struct dev_stream *st)
{
	pthread_mutex_lock(&codes.lock);
	free(table_remove(&codes.streams, st));
	pthread_mutex_unlock(&codes.lock);
	run_forget_stream(st);
	code_forget_stream(st);
	codes.under->stream.destroy(st);
}

static void module_unload(struct dev_module *mod)
{
	const struct code *c = table_find(&codes.modules, mod);

	if (c)
		run_forget_module(c);
	code_unload(mod);
}

static void rewrites(struct device *dev, struct device_rewrites *ret)
{
	/* Other code is made with yield points than without. */
	ret->version =
		codes.mode == REWRITE_OFF ? 0 : 2 * PTX_PERSIST_VERSION + codes.yields;
	ret->kernels = atomic_load_explicit(&codes.kernels_seen, memory_order_relaxed);
	ret->copies = atomic_load_explicit(&codes.copies, memory_order_relaxed);
	ret->launches = atomic_load_explicit(&codes.launches, memory_order_relaxed);
}

int device_rewrite(enum rewrite_mode mode)
{
	if (mode > REWRITE_ALWAYS_YIELD)
		return -EINVAL;
	codes.mode = mode;
	codes.yields = mode == REWRITE_YIELD || mode == REWRITE_ALWAYS_YIELD;
	return 0;
}

const struct device_ops *device_rewritten(const struct device_ops *under)
{
	codes.under = under;
	codes.mode = REWRITE_OFF;
	codes.limit = NULL;
	codes.n_forms = 0;
	codes.yields = codes.held = codes.blind = false;
	list_init(&codes.all);
	list_init(&codes.runs);
	codes.n_runs = 0;
	list_init(&codes.spare_runs);
	list_init(&codes.areas);
	ours = *under;
	ours.open = open_device;
	ours.close = close_device;
	ours.rewrites = rewrites;
	ours.busiest = busiest;
	ours.forms = forms;
	ours.limit = limit;
	ours.resize = resize;
	ours.hold = hold;
	ours.stop = stop;
	ours.go_on = go_on;
	ours.ctx.create = ctx_create;
	ours.ctx.destroy = ctx_destroy;
	ours.stream.create = stream_create;
	ours.stream.destroy = stream_destroy;
	ours.module.load = code_load;
	ours.module.load_library = code_load_library;
	ours.module.unload = module_unload;
	ours.module.function = code_function;
	ours.module.function_at = code_function_at;
	ours.module.function_count = code_function_count;
	ours.module.global = code_global;
	if (under->link) {
		our_link = *under->link;
		our_link.create = code_link_create;
		our_link.add = code_link_add;
		our_link.destroy = code_link_destroy;
		ours.link = &our_link;
	}
	if (under->graph) {
		our_graph = *under->graph;
		our_graph.launch = graph_launch;
		ours.graph = &our_graph;
	}
	ours.func.launch = launch;
	ours.func.launch_batch = under->func.launch_batch ? launch_batch : NULL;
	ours.func.set_attribute = set_attribute;
	return &ours;
}
