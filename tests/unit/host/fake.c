/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define PAGE  (2ull << 20)
#define PAGES 4096u /* of the band that the fake knows; it is enough for any test */

struct fake_state fake;
_Atomic uint64_t fake_charged, fake_quota = UINT64_MAX;
_Atomic unsigned fake_refused;
void (*fake_while_charging)(void);

struct device {
	int nothing;
};

struct dev_ctx {
	CUresult status;
};

/* A stream is a number of operations, done in order when a test says so. */
struct dev_stream {
	uint64_t submitted, done;
	unsigned index;
};

struct dev_event {
	bool recorded;
	struct dev_stream *st;
	uint64_t at;
};

struct dev_mem {
	uint64_t size;
	unsigned mapped;
	bool compressible;
};

/* One page of the band. */
static struct {
	bool reserved, access;
	struct dev_mem *mem;
	bool first; /* of its mapping */
} pages[PAGES];

static struct device the_device;

static unsigned page_of(CUdeviceptr addr)
{
	cr_assert_geq(addr, DEVICE_BAND_BASE);
	cr_assert_eq(addr % PAGE, 0);
	cr_assert_lt((addr - DEVICE_BAND_BASE) / PAGE, PAGES);
	return (unsigned)((addr - DEVICE_BAND_BASE) / PAGE);
}

static int fake_open(const struct device_config *cfg, struct device **ret_dev)
{
	*ret_dev = &the_device;
	return 0;
}

static void fake_close(struct device *dev)
{
}

static void fake_info(struct device *dev, struct device_info *ret)
{
	*ret = (struct device_info){.name = "fake",
				    .memory_bytes = 8ull << 30,
				    .driver_version = 13000,
				    .driver = "570.1",
				    .granularity = PAGE,
				    .n_sms = 2};
}

static uint64_t fake_overhead(struct device *dev)
{
	return fake.overhead;
}

static bool fake_footprint(struct device *dev, uint64_t *ret_least, uint64_t *ret_most)
{
	*ret_least = fake.takes - fake.unsure;
	*ret_most = fake.takes;
	return !fake.silent;
}

struct dev_module {
	uint64_t bytes;
};

/* A module takes some memory when it is loaded, and more when something is looked up. */
static CUresult fake_module_load(struct dev_ctx *ctx, const void *image, size_t size,
				 struct dev_jit *jit, struct dev_module **ret)
{
	if (fake.limit && fake.created + fake.module_takes > fake.limit)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = calloc(1, sizeof(**ret));
	(*ret)->bytes = fake.module_takes;
	fake.takes += fake.module_takes;
	fake.modules++;
	return CUDA_SUCCESS;
}

static void fake_module_unload(struct dev_module *mod)
{
	fake.takes -= mod->bytes;
	fake.modules--;
	free(mod);
}

static uint64_t fake_module_memory(struct dev_module *mod)
{
	return fake.module_guess;
}

static CUresult fake_module_function(struct dev_module *mod, const char *name,
				     struct dev_func **ret_func)
{
	mod->bytes += fake.function_takes;
	fake.takes += fake.function_takes;
	*ret_func = NULL;
	return CUDA_SUCCESS;
}

static CUresult fake_attribute(struct device *dev, CUdevice_attribute attr, int *ret)
{
	*ret = (int)attr;
	return attr < 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_ctx_create(struct device *dev, unsigned flags, struct dev_ctx **ret)
{
	*ret = calloc(1, sizeof(**ret));
	fake.contexts++;
	fake.overhead += fake.context_takes;
	return CUDA_SUCCESS;
}

static void fake_ctx_destroy(struct dev_ctx *ctx)
{
	fake.contexts--;
	free(ctx);
}

static CUresult fake_ctx_known(struct dev_ctx *ctx)
{
	return ctx->status;
}

static CUresult fake_ctx_status(struct dev_ctx *ctx)
{
	fake.asked_status++;
	return ctx->status;
}

static void fake_ctx_fault(struct dev_ctx *ctx, char *ret_text, size_t size)
{
	*ret_text = '\0';
}

static bool free_run(unsigned first, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (first + i >= PAGES || pages[first + i].reserved)
			return false;
	}
	return true;
}

static CUresult fake_reserve(struct device *dev, uint64_t size, uint64_t align,
			     uint64_t addr, CUdeviceptr *ret)
{
	uint64_t n = size / PAGE;
	unsigned first = 0;

	cr_assert_eq(size % PAGE, 0);
	if (addr)
		first = page_of(addr);
	while (first < PAGES && !free_run(first, n)) {
		if (addr)
			return CUDA_ERROR_OUT_OF_MEMORY;
		first++;
	}
	if (first == PAGES)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint64_t i = 0; i < n; i++)
		pages[first + i].reserved = true;
	fake.reserved += size;
	*ret = DEVICE_BAND_BASE + first * PAGE;
	return CUDA_SUCCESS;
}

static CUresult fake_unreserve(struct device *dev, CUdeviceptr addr, uint64_t size)
{
	for (uint64_t at = 0; at < size; at += PAGE) {
		unsigned p = page_of(addr + at);

		cr_assert(pages[p].reserved && !pages[p].mem, "page still mapped");
		pages[p].reserved = false;
	}
	fake.reserved -= size;
	return CUDA_SUCCESS;
}

static CUresult fake_mem_create(struct device *dev, uint64_t size, enum dev_memory memory,
				struct dev_mem **ret)
{
	if (fake.limit && fake.created + size > fake.limit) {
		fake_refused++;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = calloc(1, sizeof(**ret));
	(*ret)->size = size;
	(*ret)->compressible = fake.compresses && memory == DEV_MEMORY_COMPRESSIBLE;
	fake.created += size;
	return CUDA_SUCCESS;
}

static bool fake_mem_compressible(struct device *dev, const struct dev_mem *mem)
{
	return mem->compressible;
}

static void fake_mem_release(struct device *dev, struct dev_mem *mem)
{
	cr_assert_eq(mem->mapped, 0, "mem released while mapped");
	fake.created -= mem->size;
	free(mem);
}

static CUresult fake_mem_export(struct device *dev, struct dev_mem *mem, int *ret_fd)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult fake_mem_import(struct device *dev, int fd, uint64_t size,
				struct dev_mem **ret)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult fake_map(struct device *dev, CUdeviceptr addr, struct dev_mem *mem)
{
	for (uint64_t at = 0; at < mem->size; at += PAGE) {
		unsigned p = page_of(addr + at);

		cr_assert(pages[p].reserved && !pages[p].mem, "page not free");
		pages[p].mem = mem;
		pages[p].first = at == 0;
		pages[p].access = false;
	}
	mem->mapped++;
	fake.mapped += mem->size;
	return CUDA_SUCCESS;
}

static CUresult fake_unmap(struct device *dev, CUdeviceptr addr, uint64_t size)
{
	struct dev_mem *c = pages[page_of(addr)].mem;

	cr_assert(c && c->size == size && pages[page_of(addr)].first, "not one mapping");
	for (uint64_t at = 0; at < size; at += PAGE) {
		unsigned p = page_of(addr + at);

		if (pages[p].access)
			fake.accessible -= PAGE;
		pages[p].mem = NULL;
		pages[p].access = false;
	}
	c->mapped--;
	fake.mapped -= size;
	return CUDA_SUCCESS;
}

static CUresult fake_set_access(struct device *dev, CUdeviceptr addr, uint64_t size,
				CUmemAccess_flags access)
{
	bool on = access != CU_MEM_ACCESS_FLAGS_PROT_NONE;

	for (uint64_t at = 0; at < size; at += PAGE) {
		unsigned p = page_of(addr + at);

		cr_assert(pages[p].mem, "access to nothing");
		if (on != pages[p].access)
			fake.accessible += on ? PAGE : -PAGE;
		pages[p].access = on;
	}
	return CUDA_SUCCESS;
}

static CUresult fake_stream_create(struct dev_ctx *ctx, unsigned flags, int priority,
				   struct dev_stream **ret)
{
	*ret = calloc(1, sizeof(**ret));
	(*ret)->index = fake.streams++ % FAKE_STREAMS;
	return CUDA_SUCCESS;
}

uint64_t fake_submit(struct dev_stream *st)
{
	return ++st->submitted;
}

uint64_t fake_done(const struct dev_stream *st)
{
	return st->done;
}

void fake_advance(struct dev_stream *st, uint64_t n)
{
	st->done = MIN(st->done + n, st->submitted);
}

unsigned fake_index(const struct dev_stream *st)
{
	return st->index;
}

static CUresult fake_stream_query(struct dev_ctx *ctx, struct dev_stream *st)
{
	if (ctx->status)
		return ctx->status;
	return st && st->done < st->submitted ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult fake_stream_wait_event(struct dev_ctx *ctx, struct dev_stream *st,
				       struct dev_event *ev)
{
	if (st && ev->st)
		fake.waits[st->index][ev->st->index] =
			MAX(fake.waits[st->index][ev->st->index], ev->at);
	return CUDA_SUCCESS;
}

static void fake_stream_destroy(struct dev_stream *st)
{
	fake.streams--;
	free(st);
}

static CUresult fake_stream_wait(struct dev_ctx *ctx, struct dev_stream *st)
{
	return ctx->status;
}

static CUresult fake_ctx_synchronize(struct dev_ctx *ctx)
{
	fake.synchronized++;
	return ctx->status;
}

static CUresult fake_event_create(struct dev_ctx *ctx, unsigned flags,
				  struct dev_event **ret)
{
	*ret = calloc(1, sizeof(**ret));
	fake.events++;
	return CUDA_SUCCESS;
}

static void fake_event_destroy(struct dev_event *ev)
{
	fake.events--;
	free(ev);
}

static CUresult fake_event_record(struct dev_ctx *ctx, struct dev_event *ev,
				  struct dev_stream *st)
{
	ev->recorded = true;
	ev->st = st;
	ev->at = st ? st->submitted : 0;
	return CUDA_SUCCESS;
}

static CUresult fake_event_query(struct dev_event *ev)
{
	return ev->recorded && (!ev->st || ev->st->done >= ev->at) ? CUDA_SUCCESS
								   : CUDA_ERROR_NOT_READY;
}

static CUresult fake_fill(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			  size_t pitch, uint32_t value, unsigned elem_bytes, size_t width,
			  size_t height)
{
	return dst - DEVICE_BAND_BASE < PAGES * PAGE ? CUDA_SUCCESS
						     : CUDA_ERROR_INVALID_VALUE;
}

struct dev_array {
	struct array_shape shape;
};

static CUresult fake_array_bytes(struct dev_ctx *ctx, const struct array_shape *s,
				 uint64_t *ret_bytes)
{
	*ret_bytes = s->width * MAX(s->height, (uint64_t)1);
	return s->width ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_array_create(struct dev_ctx *ctx, const struct array_shape *s,
				  struct dev_array **ret_array)
{
	*ret_array = calloc(1, sizeof(**ret_array));
	(*ret_array)->shape = *s;
	return CUDA_SUCCESS;
}

static void fake_array_destroy(struct dev_array *a)
{
	free(a);
}

static CUresult fake_tensor_map(struct dev_ctx *ctx, const struct dev_tensor_map *m,
				CUtensorMap *ret_map)
{
	for (unsigned i = 0; i < CU_TENSOR_MAP_NUM_QWORDS; i++)
		ret_map->opaque[i] = m->address + i;
	return m->rank ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_tensor_map_move(struct dev_ctx *ctx, CUtensorMap *map,
				     CUdeviceptr address)
{
	map->opaque[0] = address;
	return CUDA_SUCCESS;
}

static uint64_t fake_busy(struct device *dev, uint64_t *ret_memory_ns)
{
	*ret_memory_ns = 0;
	return 0;
}

/* Functions in streams never run unless the test says that streams reach them. */
static CUresult fake_host_func(struct dev_ctx *ctx, struct dev_stream *st,
			       void (*fn)(void *arg, uint64_t token), void *arg)
{
	if (!ctx->status && fake.reaches_functions)
		fn(arg, 0);
	return ctx->status;
}

static CUresult fake_tpc_map(struct dev_ctx *ctx, struct dev_tpc_map *ret)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static void fake_sensors(struct device *dev, uint32_t ret_value[SENSOR_NUM])
{
	for (unsigned i = 0; i < SENSOR_NUM; i++)
		ret_value[i] = i == SENSOR_TEMPERATURE ? 41 : SENSOR_NONE;
}

const struct device_ops fake_ops = {
	.abi = DEVICE_OPS_ABI,
	.name = "fake",
	.open = fake_open,
	.close = fake_close,
	.info = fake_info,
	.overhead = fake_overhead,
	.footprint = fake_footprint,
	.attribute = fake_attribute,
	.busy_ns = fake_busy,
	.tpc_map = fake_tpc_map,
	.sensors = fake_sensors,
	.ctx =
		{
			.create = fake_ctx_create,
			.destroy = fake_ctx_destroy,
			.synchronize = fake_ctx_synchronize,
			.status = fake_ctx_status,
			.known = fake_ctx_known,
			.fault = fake_ctx_fault,
		},
	.memory =
		{
			.reserve = fake_reserve,
			.unreserve = fake_unreserve,
			.create = fake_mem_create,
			.compressible = fake_mem_compressible,
			.release = fake_mem_release,
			.export = fake_mem_export,
			.import = fake_mem_import,
			.map = fake_map,
			.unmap = fake_unmap,
			.set_access = fake_set_access,
		},
	.copy =
		{
			.fill = fake_fill,
		},
	.array =
		{
			.bytes = fake_array_bytes,
			.create = fake_array_create,
			.destroy = fake_array_destroy,
		},
	.tensor =
		{
			.map = fake_tensor_map,
			.move = fake_tensor_map_move,
		},
	.stream =
		{
			.create = fake_stream_create,
			.destroy = fake_stream_destroy,
			.query = fake_stream_query,
			.wait_event = fake_stream_wait_event,
			.synchronize = fake_stream_wait,
			.host_func = fake_host_func,
		},
	.event =
		{
			.create = fake_event_create,
			.destroy = fake_event_destroy,
			.record = fake_event_record,
			.query = fake_event_query,
			.synchronize = fake_event_query,
		},
	.module =
		{
			.load = fake_module_load,
			.load_library = fake_module_load,
			.unload = fake_module_unload,
			.memory = fake_module_memory,
			.function = fake_module_function,
		},
};

static int charge(void *arg, uint64_t bytes)
{
	if (fake_while_charging)
		fake_while_charging();
	if (fake_charged + bytes > fake_quota)
		return -EDQUOT;
	fake_charged += bytes;
	return 0;
}

static void uncharge(void *arg, uint64_t bytes)
{
	cr_assert_geq(fake_charged, bytes);
	fake_charged -= bytes;
}

const struct accounts fake_broker = {.charge = charge, .uncharge = uncharge};

struct session *fake_session(void)
{
	struct device_config cfg = {0};
	struct session *s;

	cr_assert_eq(sess_new(&fake_ops, &cfg, &fake_broker, &s), 0);
	return s;
}
