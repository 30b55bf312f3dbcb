/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of memory by a kernel of our own, at the speed at which memory is read. */
#include "device/cuda/copy.h"
#include "device/cuda/stream.h"
#include "device/digest.h"

#define SUMS_BYTES (DIGEST_RANGES * 4ul * sizeof(uint64_t))

static CUresult load(struct dev_ctx *ctx)
{
	struct cuda_digest *d = &ctx->digest;
	CUmodule mod;
	CUfunction fn;
	size_t bytes;
	CUresult res = cu.cuModuleLoadDataEx(&mod, digest_ptx, 0, NULL, NULL);

	if (!res)
		res = cu.cuModuleGetFunction(&fn, mod, "digest");
	if (!res)
		res = cu.cuModuleGetGlobal(&d->totals, &bytes, mod, "totals");
	if (!res)
		d->fn = fn; /* the module goes with the context */
	return res;
}

static CUresult launch(struct dev_ctx *ctx, CUstream st, struct digest_args *args,
		       unsigned n)
{
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = n,
				 .gridDimZ = 1,
				 .blockDimX = DIGEST_CHAINS,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = st};
	void *params[] = {args};
	CUresult res;

	for (unsigned i = 0; i < n; i++)
		config.gridDimX = MAX(config.gridDimX, (unsigned)args->range[i].blocks);
	res = cu.cuMemsetD8Async(args->sums, 0, SUMS_BYTES, st);
	return res ? res : cu.cuLaunchKernelEx(&config, ctx->digest.fn, params, NULL);
}

static CUresult some(struct dev_ctx *ctx, CUstream st, struct digest_args *args,
		     const struct digest_range *r, unsigned n, struct digest *ret)
{
	uint64_t sums[DIGEST_RANGES][4];
	CUresult res;

	for (unsigned i = 0; i < n; i++) {
		args->range[i].addr = r[i].addr;
		args->range[i].blocks = r[i].bytes / DIGEST_BLOCK;
	}
	res = launch(ctx, st, args, n);
	if (!res)
		res = cu.cuMemcpyDtoHAsync(sums, args->sums, n * sizeof(sums[0]), st);
	if (!res)
		res = cu.cuStreamSynchronize(st);
	for (unsigned i = 0; i < n && !res; i++)
		ret[i] = digest_of_sums(sums[i]);
	return res;
}

CUresult cuda_digest(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct digest_key *key, const struct digest_range *r,
		     unsigned n, struct digest *ret)
{
	struct digest_args args = {.key = *key};
	CUresult res = cuda_enter(ctx);

	if (!res && !ctx->digest.fn)
		res = load(ctx);
	args.sums = ctx->digest.totals;
	for (unsigned at = 0; at < n && !res; at += DIGEST_RANGES)
		res = some(ctx, cuda_stream_of(st), &args, r + at,
			   MIN(n - at, DIGEST_RANGES), ret + at);
	return res;
}
