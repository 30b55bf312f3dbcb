/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image from a guest, loaded into the software GPU, and its kernels run: whatever they
 * do, it is an error of the context and nothing else. Endless kernels are ended.
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "device/device.h"

#define MEMORY_BYTES (32u << 20)
#define FUNCTIONS    4u
#define POLLS        40
#define POLL_US      500
#define PARAMS_BYTES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore_output(void *arg, const char *text, size_t size)
{
}

/* Parameters: the first is device memory, the others are small numbers. */
static size_t fill_params(const struct device_ops *ops, struct dev_func *f,
			  CUdeviceptr mem, unsigned char *params)
{
	size_t end = 0;
	struct dev_param p;

	memset(params, 0, PARAMS_BYTES);
	for (unsigned i = 0; ops->func.param(f, i, &p) == CUDA_SUCCESS; i++) {
		uint64_t v = i ? 33 : mem;

		end = (size_t)p.offset + p.size;
		if (end > PARAMS_BYTES)
			break;
		memcpy(params + p.offset, &v, MIN(p.size, sizeof(v)));
	}
	return end;
}

static void run(const struct device_ops *ops, struct dev_ctx *ctx, struct dev_func *f,
		CUdeviceptr mem)
{
	unsigned char params[PARAMS_BYTES];
	struct dev_launch l = {.func = f,
			       .grid = {3, 1, 1},
			       .block = {40, 1, 1},
			       .shared_bytes = 256,
			       .params = params};

	l.params_size = fill_params(ops, f, mem, params);
	if (l.params_size > PARAMS_BYTES ||
	    ops->func.launch(ctx, NULL, &l) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < POLLS; i++) {
		if (ops->stream.query(ctx, NULL) != CUDA_ERROR_NOT_READY)
			return;
		usleep(POLL_US);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct device_ops *ops = &device_soft_ops;
	struct device_config cfg = {.tpcs = 1,
				    .memory_bytes = MEMORY_BYTES,
				    .threads = 1,
				    .output = ignore_output};
	char log[512];
	struct dev_jit jit = {.error_log = log, .error_size = sizeof(log)};
	struct dev_mem *piece;
	struct dev_module *mod;
	struct device *dev;
	struct dev_ctx *ctx;
	struct dev_func *f;
	const char *name;
	CUdeviceptr mem;

	if (ops->open(&cfg, &dev) < 0)
		return 0;
	if (ops->ctx.create(dev, 0, &ctx) ||
	    ops->memory.reserve(dev, 2u << 20, 0, 0, &mem) ||
	    ops->memory.create(dev, 2u << 20, DEV_MEMORY_DEVICE, &piece) ||
	    ops->memory.map(dev, mem, piece) ||
	    ops->memory.set_access(dev, mem, 2u << 20,
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
		__builtin_trap(); /* of a fresh device */
	if (ops->module.load(ctx, data, size, &jit, &mod) == CUDA_SUCCESS) {
		for (unsigned i = 0; i < FUNCTIONS; i++) {
			if (ops->module.function_at(mod, i, &f, &name))
				break;
			run(ops, ctx, f, mem);
		}
	} else if (strnlen(log, sizeof(log)) == sizeof(log)) {
		__builtin_trap();
	}
	ops->close(dev); /* ends what still runs */
	return 0;
}
