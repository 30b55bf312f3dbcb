/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tile goes from a matrix to shared memory and, transformed, to another, by tensor maps
 * in the kernel's parameters: tiled, at the edge, with another address. Where the device
 * has no tensor maps the program says so and passes.
 */
#include "check.h"

#include <cuda.h>

#define W     72 /* columns; no multiple of a tile's */
#define H     40
#define TILE_W 32
#define TILE_H 16

__device__ static void wait_parity(uint64_t *bar, unsigned parity)
{
	unsigned a = (unsigned)__cvta_generic_to_shared(bar), done = 0;

	while (!done)
		asm volatile("{.reg .pred p;\n"
			     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
			     "selp.u32 %0, 1, 0, p;}"
			     : "=r"(done)
			     : "r"(a), "r"(parity)
			     : "memory");
}

__global__ void twice(const __grid_constant__ CUtensorMap in,
		      const __grid_constant__ CUtensorMap out)
{
#if __CUDA_ARCH__ >= 900
	__shared__ alignas(128) int tile[TILE_H][TILE_W];
	__shared__ uint64_t bar;
	unsigned b = (unsigned)__cvta_generic_to_shared(&bar);
	unsigned t = (unsigned)__cvta_generic_to_shared(tile);
	int x = blockIdx.x * TILE_W, y = blockIdx.y * TILE_H;

	if (threadIdx.x == 0) {
		asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b));
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b),
			     "r"((unsigned)sizeof(tile)));
		asm volatile(
			"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier"
			"::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(t),
			"l"(&in), "r"(x), "r"(y), "r"(b)
			: "memory");
	}
	__syncthreads();
	wait_parity(&bar, 0);
	for (int i = threadIdx.x; i < TILE_W * TILE_H; i += blockDim.x)
		tile[i / TILE_W][i % TILE_W] = 2 * tile[i / TILE_W][i % TILE_W] + 1;
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	__syncthreads();
	if (threadIdx.x == 0) {
		asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
			     "[%0, {%1, %2}], [%3];" ::"l"(&out),
			     "r"(x), "r"(y), "r"(t)
			     : "memory");
		asm volatile("cp.async.bulk.commit_group;");
		asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
	}
#endif
}

static decltype(&cuTensorMapEncodeTiled) encode;
static decltype(&cuTensorMapReplaceAddress) replace;

static CUresult make(CUtensorMap *m, void *p, cuuint64_t width)
{
	cuuint64_t dim[] = {width, H}, stride[] = {W * 4};
	cuuint32_t box[] = {TILE_W, TILE_H}, step[] = {1, 1};

	return encode(m, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, p, dim, stride, box, step,
		      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
		      CU_TENSOR_MAP_L2_PROMOTION_NONE,
		      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static bool look_up(void)
{
	cudaDriverEntryPointQueryResult found;
	void *fn;

	if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000,
					     cudaEnableDefault, &found) ||
	    found != cudaDriverEntryPointSuccess)
		return false;
	encode = (decltype(encode))fn;
	if (cudaGetDriverEntryPointByVersion("cuTensorMapReplaceAddress", &fn, 12000,
					     cudaEnableDefault, &found))
		return false;
	replace = (decltype(replace))fn;
	return true;
}

static void check(const std::vector<int> &in, const std::vector<int> &out, int width)
{
	for (int i = 0; i < W * H; i++) {
		int want = i % W < width ? 2 * in[i] + 1 : -1;

		if (out[i] != want)
			fail("%d,%d: %d instead of %d", i % W, i / W, out[i], want);
	}
}

int main(void)
{
	std::vector<int> host(W * H), minus(W * H, -1);
	alignas(64) CUtensorMap in, out;
	int major = 0;

	check_name = "tensor_map";
	if (cudaFree(nullptr) == cudaErrorInvalidPtx) { /* as is code that uses them */
		printf("SKIP tensor_map: none on this device\n");
		return pass();
	}
	CK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	for (int i = 0; i < W * H; i++)
		host[i] = i * 7;
	dev_array<int> src(host), dst(minus), other(minus);
	if (major < 9 || !look_up() || make(&in, src.p, W) == CUDA_ERROR_NOT_SUPPORTED) {
		printf("SKIP tensor_map: none on this device\n");
		return pass();
	}
	REQUIRE(make(&in, src.p, W) == CUDA_SUCCESS);
	REQUIRE(make(&out, dst.p, W - 4) == CUDA_SUCCESS);
	REQUIRE(make(&out, (char *)dst.p + 4, W) == CUDA_ERROR_INVALID_VALUE);
	REQUIRE(make(&out, dst.p, 0) == CUDA_ERROR_INVALID_VALUE);
	dim3 grid((W + TILE_W - 1) / TILE_W, (H + TILE_H - 1) / TILE_H);
	for (int i = 0; i < 3; i++) { /* the same question again */
		REQUIRE(make(&in, src.p, W) == CUDA_SUCCESS);
		REQUIRE(make(&out, dst.p, W - 4) == CUDA_SUCCESS);
		twice<<<grid, 128>>>(in, out);
		CK(cudaDeviceSynchronize());
		check(host, dst.get(), W - 4);
	}
	REQUIRE(replace(&out, other.p) == CUDA_SUCCESS);
	twice<<<grid, 128>>>(in, out);
	CK(cudaDeviceSynchronize());
	check(host, other.get(), W - 4);
	return pass();
}
