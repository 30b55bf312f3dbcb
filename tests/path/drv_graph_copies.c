/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every copy that a graph can have: between device memory, pageable, pinned and
 * registered memory and arrays, of lines, planes and boxes, small and of several MiB,
 * as nodes and captured, changed afterwards and switched off. Around each box nothing
 * may change.
 */
#include <stdbool.h>

#include "driver.h"

enum kind {
	DEVICE,
	PAGEABLE,
	PINNED,
	REGISTERED,
	ARRAY,
	KINDS,
};

static const char *const kind_names[KINDS] = {"device", "pageable", "pinned",
					      "registered", "array"};

/* Shape of a copy, and of the larger thing around it on both sides; widths in bytes. */
struct shape {
	const char *name;
	size_t w, h, d;
	size_t x, y, z; /* at the destination; the source has it at the beginning */
	size_t all_w, all_h, all_d;
};

static const struct shape shapes[] = {
	{"line", 40, 1, 1, 8, 0, 0, 64, 1, 1},
	{"plane", 24, 5, 1, 16, 2, 0, 48, 8, 1},
	{"box", 24, 3, 2, 4, 1, 1, 48, 6, 4},
	{"all", 64, 4, 3, 0, 0, 0, 64, 4, 3},
	{"large plane", 32768, 70, 1, 8, 1, 0, 32784, 72, 1},
	{"large box", 16384, 60, 3, 0, 2, 1, 16384, 64, 5},
};

#define LARGE (64u << 10) /* captured ones are the same, and these take their time */

static CUstream stream;
static CUcontext ctx;

/* One side: memory or an array as large as the shape says. */
struct end {
	enum kind kind;
	const struct shape *s;
	size_t bytes;
	CUarray array;
	CUdeviceptr dev;
	unsigned char *host;
};

static void end_new(struct end *e, enum kind kind, const struct shape *s)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = s->all_w / 4,
				     .Height =
					     s->all_h > 1 || s->all_d > 1 ? s->all_h : 0,
				     .Depth = s->all_d > 1 ? s->all_d : 0,
				     .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				     .NumChannels = 1};

	*e = (struct end){.kind = kind, .s = s, .bytes = s->all_w * s->all_h * s->all_d};
	if (kind == ARRAY)
		CK(cuArray3DCreate(&e->array, &d));
	else if (kind == DEVICE)
		CK(cuMemAlloc(&e->dev, e->bytes));
	else if (kind == PINNED)
		CK(cuMemHostAlloc((void **)&e->host, e->bytes, 0));
	else
		REQUIRE(!posix_memalign((void **)&e->host, 4096, e->bytes));
	if (kind == REGISTERED)
		CK(cuMemHostRegister(e->host, e->bytes, 0));
}

static void end_free(struct end *e)
{
	if (e->kind == REGISTERED)
		CK(cuMemHostUnregister(e->host));
	if (e->kind == ARRAY)
		CK(cuArrayDestroy(e->array));
	else if (e->kind == DEVICE)
		CK(cuMemFree(e->dev));
	else if (e->kind == PINNED)
		CK(cuMemFreeHost(e->host));
	else
		free(e->host);
}

static void set_src(CUDA_MEMCPY3D *c, const struct end *e)
{
	c->srcMemoryType = e->kind == ARRAY    ? CU_MEMORYTYPE_ARRAY
			   : e->kind == DEVICE ? CU_MEMORYTYPE_DEVICE
					       : CU_MEMORYTYPE_HOST;
	c->srcArray = e->array;
	c->srcDevice = e->dev;
	c->srcHost = e->host;
	c->srcPitch = e->s->all_w;
	c->srcHeight = e->s->all_h;
}

static void set_dst(CUDA_MEMCPY3D *c, const struct end *e)
{
	c->dstMemoryType = e->kind == ARRAY    ? CU_MEMORYTYPE_ARRAY
			   : e->kind == DEVICE ? CU_MEMORYTYPE_DEVICE
					       : CU_MEMORYTYPE_HOST;
	c->dstArray = e->array;
	c->dstDevice = e->dev;
	c->dstHost = e->host;
	c->dstPitch = e->s->all_w;
	c->dstHeight = e->s->all_h;
}

/* All of it, to or from plain memory, without a graph. */
static void whole(const struct end *e, unsigned char *plain, bool write)
{
	const struct end p = {.kind = PAGEABLE, .s = e->s, .host = plain};
	CUDA_MEMCPY3D c = {
		.WidthInBytes = e->s->all_w, .Height = e->s->all_h, .Depth = e->s->all_d};

	if (e->host) {
		memcpy(write ? e->host : plain, write ? plain : e->host, e->bytes);
		return;
	}
	set_src(&c, write ? &p : e);
	set_dst(&c, write ? e : &p);
	CK(cuMemcpy3D(&c));
	CK(cuCtxSynchronize());
}

static CUDA_MEMCPY3D box(const struct end *src, const struct end *dst)
{
	const struct shape *s = src->s;
	CUDA_MEMCPY3D c = {.WidthInBytes = s->w,
			   .Height = s->h,
			   .Depth = s->d,
			   .dstXInBytes = s->x,
			   .dstY = s->y,
			   .dstZ = s->z};

	set_src(&c, src);
	set_dst(&c, dst);
	return c;
}

static unsigned char pattern(unsigned round, size_t i)
{
	return (unsigned char)(i * 7 + i / 251 + round * 101 + 1);
}

/* Launches and looks at all of the destination; runs: the copy is switched on. */
static void check(CUgraphExec x, const struct end *src, const struct end *dst,
		  const CUDA_MEMCPY3D *c, unsigned round, bool runs)
{
	const struct shape *s = src->s;
	unsigned char *in = malloc(src->bytes), *out = malloc(src->bytes);

	REQUIRE(in && out);
	for (size_t i = 0; i < src->bytes; i++)
		in[i] = pattern(round, i);
	memset(out, 0xee, src->bytes);
	whole(dst, out, true);
	whole(src, in, true);
	CK(cuGraphLaunch(x, stream));
	CK(cuStreamSynchronize(stream));
	whole(dst, out, false);
	for (size_t z = 0; z < s->all_d; z++) {
		for (size_t y = 0; y < s->all_h; y++) {
			for (size_t b = 0; b < s->all_w; b++) {
				size_t i = (z * s->all_h + y) * s->all_w + b;
				size_t j = i - c->dstXInBytes + c->srcXInBytes -
					   (c->dstZ * s->all_h + c->dstY) * s->all_w;
				bool inside = runs && b - c->dstXInBytes < s->w &&
					      y - c->dstY < s->h && z - c->dstZ < s->d;
				unsigned want = inside ? in[j] : 0xee;

				if (out[i] == want)
					continue;
				fail("%s from %s to %s, round %u: %u instead of %u at "
				     "%zu, "
				     "%zu, %zu",
				     s->name, kind_names[src->kind],
				     kind_names[dst->kind], round, out[i], want, b, y, z);
			}
		}
	}
	free(in);
	free(out);
}

static void pair(const struct shape *s, enum kind from, enum kind to, bool captured)
{
	struct end src, dst;
	CUDA_MEMCPY3D c;
	CUgraphNode n;
	CUgraphExec x;
	CUgraph g;
	size_t one = 1;

	end_new(&src, from, s);
	end_new(&dst, to, s);
	c = box(&src, &dst);
	if (captured) {
		CK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		CK(cuMemcpy3DAsync(&c, stream));
		CK(cuStreamEndCapture(stream, &g));
		CK(cuGraphGetNodes(g, &n, &one));
		REQUIRE(one == 1);
	} else {
		CK(cuGraphCreate(&g, 0));
		CK(cuGraphAddMemcpyNode(&n, g, NULL, 0, &c, ctx));
	}
	CK(cuGraphInstantiate(&x, g, 0));
	check(x, &src, &dst, &c, 0, true);
	check(x, &src, &dst, &c, 1, true);
	CK(cuGraphNodeSetEnabled(x, n, 0));
	check(x, &src, &dst, &c, 2, false);
	CK(cuGraphNodeSetEnabled(x, n, 1));
	/* Copies of more dimensions cannot be changed (cuda.h). */
	if (s->all_h <= 1 && s->all_d <= 1 && from != ARRAY && to != ARRAY) {
		c.srcXInBytes = c.dstXInBytes;
		c.dstXInBytes = 0;
		CK(cuGraphExecMemcpyNodeSetParams(x, n, &c, ctx));
		check(x, &src, &dst, &c, 3, true);
	}
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	end_free(&src);
	end_free(&dst);
}

int main(void)
{
	check_name = "drv_graph_copies";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
		for (enum kind from = 0; from < KINDS; from++) {
			for (enum kind to = 0; to < KINDS; to++) {
				pair(&shapes[s], from, to, false);
				if (shapes[s].w * shapes[s].h < LARGE)
					pair(&shapes[s], from, to, true);
			}
		}
	}
	return pass();
}
