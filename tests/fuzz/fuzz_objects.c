/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays, textures, events, words of memory, and memory of other processes on the
 * software GPU, a few of each. Input: steps of an operation and seven numbers (1 byte
 * each). Kernels read every texture that there is.
 *
 * Two streams, in a context of their own, may stand for ever at a word: nobody waits for
 * them.
 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "fds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MIB   (1ull << 20)
#define PAGE  (2 * MIB)
#define SMALL (128ull << 10) /* a piece that is shared */
#define FEW   4u
#define STEP  8
#define STEPS 64
#define BYTES (64u << 10) /* of host memory for a box */

static const struct device_ops *const ops = &device_soft_ops;
static const char reader[] =
	".version 8.0\n.target sm_80\n.address_size 64\n"
	".visible .entry look(.param .u64 p, .param .u64 t) {\n"
	".reg .b64 %d<3>; .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .b16 %h<3>;\n"
	"ld.param.u64 %d1, [p]; ld.param.u64 %d2, [t]; mov.u32 %r5, %tid.x;\n"
	"cvt.rn.f32.u32 %f1, %r5; mul.f32 %f2, %f1, 0fBDCCCCCD;\n"
	"tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%d2, {%r5}];\n"
	"tex.2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%d2, {%f1, %f2}];\n"
	"tex.3d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%d2, {%f1, %f2, %f2, %f2}];\n"
	"tex.level.a2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%d2, {%r5, %f2, %f1, %f1}], "
	"%f2;\n"
	"txq.width.b32 %r6, [%d2]; st.global.u32 [%d1], %r1; ret; }\n"
	".visible .entry surf(.param .u64 p, .param .u64 t) {\n"
	".reg .b64 %d<3>; .reg .b32 %r<9>;\n"
	"ld.param.u64 %d2, [t]; mov.u32 %r5, %tid.x;\n"
	"suld.b.2d.b32.zero {%r1}, [%d2, {%r5, %r5}];\n"
	"sust.b.2d.b32.clamp [%d2, {%r5, %r5}], {%r1}; ret; }\n";

struct objects {
	struct device *dev;
	struct dev_ctx *ctx, *far; /* far has the last two streams */
	CUdeviceptr mem;           /* a page, mapped; one more behind it */
	struct dev_func *func[2];
	struct dev_array *array[FEW];
	size_t packed[FEW]; /* bytes that all of it takes */
	struct dev_texture *texture[FEW];
	uint64_t value[FEW];
	struct dev_stream *stream[FEW];
	struct dev_event *event[FEW];
	struct dev_mem *piece[FEW];
	uint64_t size[FEW]; /* of the pieces */
	uint64_t mapped[PAGE / SMALL];
};

static void open_device(struct objects *o)
{
	struct device_config cfg = {
		.tpcs = 1, .memory_bytes = 32 * MIB, .granularity = SMALL, .threads = 1};
	static const char *const names[] = {"look", "surf"};
	struct dev_jit jit = {.optimization_level = 4};
	struct dev_mem *piece;
	struct dev_module *mod;

	if (ops->open(&cfg, &o->dev) < 0 || ops->ctx.create(o->dev, 0, &o->ctx) ||
	    ops->ctx.create(o->dev, 0, &o->far) ||
	    ops->memory.reserve(o->dev, 2 * PAGE, 0, 0, &o->mem) ||
	    ops->memory.create(o->dev, PAGE, DEV_MEMORY_DEVICE, &piece) ||
	    ops->memory.map(o->dev, o->mem, piece) ||
	    ops->memory.set_access(o->dev, o->mem, PAGE,
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
	    ops->module.load(o->ctx, reader, sizeof(reader), &jit, &mod))
		abort();
	for (unsigned i = 0; i < 2; i++)
		if (ops->module.function(mod, names[i], &o->func[i]))
			abort();
	for (unsigned i = 0; i < FEW; i++)
		if (ops->stream.create(i < 2 ? o->ctx : o->far, DEV_STREAM_NON_BLOCKING,
				       0, &o->stream[i]))
			abort();
}

/* One of the first two streams, at which nothing stands. */
static struct dev_stream *quick(const struct objects *o, unsigned n)
{
	return o->stream[n % 2];
}

static void make_array(struct objects *o, const uint8_t *v)
{
	static const CUarray_format formats[] = {
		CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16,
		CU_AD_FORMAT_HALF,          CU_AD_FORMAT_FLOAT,
		CU_AD_FORMAT_SIGNED_INT32,  (CUarray_format)0x77,
	};
	struct array_shape s = {
		.width = v[1],
		.height = v[2] & 63,
		.depth = v[3] & 15,
		.format = formats[v[4] % ARRAY_SIZE(formats)],
		.channels = v[4] / 32 & 7,
		.flags = v[5],
		.levels = v[6] & 7,
	};
	struct dev_array **a = &o->array[v[0] % FEW];
	uint64_t bytes;

	if (*a || ops->array.bytes(o->ctx, &s, &bytes) != CUDA_SUCCESS)
		return;
	if (ops->array.create(o->ctx, &s, a) != CUDA_SUCCESS)
		*a = NULL;
}

/* Textures and arrays are the caller's to end, once nothing uses them. */
static void end_textures(struct objects *o)
{
	(void)ops->ctx.synchronize(o->ctx);
	for (unsigned i = 0; i < FEW; i++) {
		if (o->texture[i])
			ops->texture.destroy(o->texture[i]);
		o->texture[i] = NULL;
	}
}

static void end_array(struct objects *o, unsigned i)
{
	struct dev_array **a = &o->array[i % FEW];

	if (!*a)
		return;
	end_textures(o);
	ops->array.destroy(*a);
	*a = NULL;
}

static struct dev_box box(const struct objects *o, const uint8_t *v)
{
	return (struct dev_box){
		.array = o->array[v[0] % FEW],
		.level = v[1] >> 6,
		.x = v[1] & 15,
		.y = v[2] >> 6,
		.z = v[2] >> 4 & 3,
		.width = v[3],
		.height = 1 + (v[2] & 15),
		.depth = 1 + (v[1] >> 4 & 3),
	};
}

static void copy_box(struct objects *o, const uint8_t *v)
{
	struct dev_box b = box(o, v);
	struct dev_copy_3d c = {.dst.box = b, .src.memory = {o->mem + v[4], 256, 4096}};
	static char host[BYTES];

	if (!b.array || b.width * b.height * b.depth > BYTES)
		return;
	if (v[5] & 1) {
		(void)ops->array.write(o->ctx, quick(o, v[5]), &b, host);
	} else if (v[5] & 2) {
		(void)ops->array.read(o->ctx, quick(o, v[5]), host, &b);
	} else {
		if (v[5] & 4)
			c.src.box = box(o, v + 1);
		(void)ops->array.copy(o->ctx, quick(o, v[5]), &c);
	}
}

static void make_texture(struct objects *o, const uint8_t *v)
{
	struct dev_texture_desc d = {
		.array = o->array[v[1] % (FEW + 1) % FEW],
		.is_level = v[2] & 1,
		.level = v[2] >> 1 & 3,
		.addr = o->mem + v[3] * 16,
		.width = v[4],
		.height = v[5] & 63,
		.pitch = v[2] & 8 ? v[6] * 32 : 0,
		.format = CU_AD_FORMAT_FLOAT,
		.channels = 1 + (v[2] >> 4 & 3),
		.sampler = {.addressMode = {v[5] >> 6, v[6] & 3, v[6] >> 2 & 3},
			    .filterMode = v[6] >> 4 & 1,
			    .flags = v[6] >> 4,
			    .maxMipmapLevelClamp = v[4]},
	};
	unsigned i = v[0] % FEW;

	if (v[1] % (FEW + 1) == FEW)
		d.array = NULL;
	if (o->texture[i] || (v[2] & 128 && !d.array))
		return;
	if ((v[2] & 128 ? ops->texture.create_surface(o->ctx, &d, &o->value[i],
						      &o->texture[i])
			: ops->texture.create(o->ctx, &d, &o->value[i],
					      &o->texture[i])) != CUDA_SUCCESS)
		o->texture[i] = NULL;
}

static void launch(struct objects *o, const uint8_t *v)
{
	uint64_t params[2] = {o->mem, o->value[v[0] % FEW]};
	struct dev_launch l = {.func = o->func[v[1] & 1],
			       .grid = {1, 1, 1},
			       .block = {1 + v[2] % 64u, 1, 1},
			       .params = params,
			       .params_size = sizeof(params)};

	(void)ops->func.launch(o->ctx, quick(o, v[3]), &l);
}

static void words(struct objects *o, const uint8_t *v)
{
	struct dev_mem_op op[3];

	for (unsigned i = 0; i < ARRAY_SIZE(op); i++)
		op[i] = (struct dev_mem_op){
			.op = (CUstreamBatchMemOpType)(v[1 + i] & 7),
			.flags = v[1 + i] >> 3 & 7,
			.addr = o->mem + (v[4] & 63) * 4,
			.value = v[5 + (i & 1)],
		};
	(void)ops->stream.mem_ops(o->far, o->stream[2 + (v[0] & 1)], op, 1 + v[6] % 3u,
				  v[6] >> 4);
}

static void events(struct objects *o, const uint8_t *v)
{
	struct dev_event **e = &o->event[v[1] % FEW], *other = o->event[v[2] % FEW];
	struct dev_stream *st = quick(o, v[3]);
	float ms;

	if (!*e) {
		if (ops->event.create(o->ctx, v[4], e) != CUDA_SUCCESS)
			*e = NULL;
		return;
	}
	switch (v[0] % 7) {
	case 0:
		(void)ops->event.record(o->ctx, *e, st);
		break;
	case 1: /* what stands holds up only what stands */
		(void)ops->stream.wait_event(o->far, o->stream[2 + (v[3] & 1)], *e);
		break;
	case 2:
		(void)ops->event.query(*e);
		break;
	case 3:
		if (other)
			(void)ops->event.elapsed(*e, other, &ms);
		break;
	case 4:
		(void)ops->ctx.record_event(o->ctx, *e);
		break;
	case 5:
		(void)ops->stream.query(o->ctx, st);
		break;
	default:
		ops->event.destroy(*e);
		*e = NULL;
	}
}

/* Memory of another process: a piece of ours that was exported, or whatever they sent. */
static void share(struct objects *o, const uint8_t *v)
{
	struct dev_mem **c = &o->piece[v[0] % FEW], *mine = o->piece[v[1] % FEW];
	int fd = -1;

	if (*c) {
		ops->memory.release(o->dev, *c);
		*c = NULL;
		return;
	}
	o->size[v[0] % FEW] = SMALL * (1 + v[3] % 3u);
	if (v[2] & 1) {
		if (ops->memory.create(o->dev, SMALL * (1 + v[3] % 3u),
				       v[3] & 128 ? DEV_MEMORY_HOST : DEV_MEMORY_DEVICE,
				       c) != CUDA_SUCCESS)
			*c = NULL;
		return;
	}
	if (!(v[2] & 2) || !mine || ops->memory.export(o->dev, mine, &fd) != CUDA_SUCCESS)
		fd = fds_any(v[4], SMALL * (v[5] % 4u));
	if (ops->memory.import(o->dev, fd, SMALL * (1 + v[3] % 3u), c) != CUDA_SUCCESS)
		*c = NULL;
	closep(&fd);
}

/* Mappings are the caller's to end, one at a time. */
static void unmap(struct objects *o, unsigned i)
{
	CUdeviceptr at = o->mem + PAGE + i * SMALL;

	if (o->mapped[i] && ops->memory.unmap(o->dev, at, o->mapped[i]) != CUDA_SUCCESS)
		abort();
	o->mapped[i] = 0;
}

static void map_backing(struct objects *o, const uint8_t *v)
{
	struct dev_mem *c = o->piece[v[0] % FEW];
	unsigned i = v[1] % ARRAY_SIZE(o->mapped);
	CUdeviceptr at = o->mem + PAGE + i * SMALL;

	if (v[2] & 1) {
		unmap(o, i);
		return;
	}
	if (c && ops->memory.map(o->dev, at, c) != CUDA_SUCCESS)
		return;
	if (c)
		o->mapped[i] = o->size[v[0] % FEW];
	(void)ops->memory.set_access(o->dev, at, SMALL * (1 + v[3] % 3u),
				     v[4] & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					      : CU_MEM_ACCESS_FLAGS_PROT_READ);
	(void)ops->copy.fill(o->ctx, quick(o, v[4]), at + v[5], 0, v[6], 1, v[5], 1);
}

static void step(struct objects *o, const uint8_t *v)
{
	switch (v[0] % 10) {
	case 0:
		make_array(o, v + 1);
		break;
	case 1:
		end_array(o, v[1]);
		break;
	case 2:
		copy_box(o, v + 1);
		break;
	case 3:
		make_texture(o, v + 1);
		break;
	case 4:
		launch(o, v + 1);
		break;
	case 5:
		words(o, v + 1);
		break;
	case 6:
		events(o, v + 1);
		break;
	case 7:
		share(o, v + 1);
		break;
	case 8:
		map_backing(o, v + 1);
		break;
	default:
		(void)ops->copy.fill(v[1] & 2 ? o->far : o->ctx, o->stream[v[1] % FEW],
				     o->mem + v[2], v[3], v[4], 1u << (v[5] & 3), v[5],
				     v[6]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct objects o = {NULL};
	unsigned before = fds_open();
	uint8_t v[STEP + 8]; /* boxes look beyond their step */

	open_device(&o);
	for (unsigned i = 0; i < STEPS && size >= STEP; i++) {
		memset(v, 0, sizeof(v));
		memcpy(v, data, STEP);
		step(&o, v);
		data += STEP;
		size -= STEP;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(o.mapped); i++)
		unmap(&o, i);
	end_textures(&o);
	for (unsigned i = 0; i < FEW; i++)
		end_array(&o, i);
	for (unsigned i = 0; i < FEW; i++)
		if (o.piece[i])
			ops->memory.release(o.dev, o.piece[i]);
	ops->close(o.dev); /* ends what still runs */
	if (fds_open() != before)
		abort();
	return 0;
}
