/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "device/rewrite/code.h"

/* Threads of a block, and in its third dimension. */
#define BLOCK_MAX   1024u
#define BLOCK_MAX_Z 64u

static struct device_ops ours;
static struct device_link_ops our_link;

/* ---- launches ---- */

/* Blocks on an SM stand below what they were counted for, and a bit that says that they were. */
#define FITS_BLOCKS 256u

static uint64_t fits_for(unsigned threads, unsigned shared_bytes)
{
	return ((uint64_t)shared_bytes << 16 | threads) << 8 | 1ull << 63;
}

/* Whether fewer blocks of the copy run at once than of the kernel. */
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

/* Blocks to launch of the copy; 0: the kernel runs as it is. */
static unsigned blocks_of(struct kernel *k, const struct dev_launch *l)
{
	const unsigned *g = l->grid, *b = l->block;
	uint64_t rows = (uint64_t)g[1] * g[2], all, room;

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
	all = g[0] * rows;
	room = (uint64_t)blocks_on_sm(k, l) * codes.n_sms;
	if (codes.mode == REWRITE_ALWAYS)
		return room ? (unsigned)MIN(all, (uint64_t)codes.n_sms) : 0;
	return all > room ? (unsigned)room : 0;
}

/* The copy's launch in the place of l; false: l is to be launched. */
static bool replace(struct dev_launch *l, const struct dev_stream *st, char *params)
{
	struct kernel *k = table_find(&codes.kernels, l->func);
	unsigned n = k ? blocks_of(k, l) : 0;
	size_t at = ALIGN_UP(l->params_size, (size_t)8);
	struct ptx_persist_args args = {.launched = n};

	if (!n)
		return false;
	args.control = code_control(k->code, st);
	if (!args.control)
		return false;
	memcpy(args.grid, l->grid, sizeof(args.grid));
	args.blocks = l->grid[0] * l->grid[1] * l->grid[2];
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

static CUresult launch(struct dev_ctx *ctx, struct dev_stream *st,
		       const struct dev_launch *l)
{
	char params[PTX_PERSIST_PARAMS_MAX];
	struct dev_launch copy = *l;

	return codes.under->func.launch(ctx, st, replace(&copy, st, params) ? &copy : l);
}

/* Launches before the first one that may have a copy. */
static unsigned launch_batch(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_launch *l, unsigned n)
{
	unsigned i = 0;

	while (i < n && !table_find(&codes.kernels, l[i].func))
		i++;
	return i > 1 ? codes.under->func.launch_batch(ctx, st, l, i) : 0;
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

static int open_device(const struct device_config *cfg, struct device **ret_dev)
{
	struct device_info info;
	int major, minor, r = codes.under->open(cfg, ret_dev);

	if (r < 0)
		return r;
	codes.under->info(*ret_dev, &info);
	codes.n_sms = info.n_sms;
	if (codes.under->attribute(*ret_dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
				   &major) ||
	    codes.under->attribute(*ret_dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
				   &minor))
		major = minor = 0;
	codes.sm = (unsigned)(10 * major + minor);
	return 0;
}

static void close_device(struct device *dev)
{
	struct list taken;

	code_take(NULL, &taken);
	codes.under->close(dev);
	code_drop(&taken);
	code_end();
}

static void ctx_destroy(struct dev_ctx *ctx)
{
	struct list taken;

	code_take(ctx, &taken);
	codes.under->ctx.destroy(ctx);
	code_drop(&taken);
}

static void stream_destroy(struct dev_stream *st)
{
	code_forget_stream(st);
	codes.under->stream.destroy(st);
}

static void rewrites(struct device *dev, struct device_rewrites *ret)
{
	ret->version = codes.mode == REWRITE_OFF ? 0 : PTX_PERSIST_VERSION;
	ret->kernels = atomic_load_explicit(&codes.kernels_seen, memory_order_relaxed);
	ret->copies = atomic_load_explicit(&codes.copies, memory_order_relaxed);
	ret->launches = atomic_load_explicit(&codes.launches, memory_order_relaxed);
}

int device_rewrite(enum rewrite_mode mode)
{
	if (mode > REWRITE_ALWAYS)
		return -EINVAL;
	codes.mode = mode;
	return 0;
}

const struct device_ops *device_rewritten(const struct device_ops *under)
{
	codes.under = under;
	codes.mode = REWRITE_OFF;
	list_init(&codes.all);
	ours = *under;
	ours.open = open_device;
	ours.close = close_device;
	ours.rewrites = rewrites;
	ours.ctx.destroy = ctx_destroy;
	ours.stream.destroy = stream_destroy;
	ours.module.load = code_load;
	ours.module.load_library = code_load_library;
	ours.module.unload = code_unload;
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
	ours.func.launch = launch;
	ours.func.launch_batch = under->func.launch_batch ? launch_batch : NULL;
	ours.func.set_attribute = set_attribute;
	return &ours;
}
