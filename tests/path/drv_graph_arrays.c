/* SPDX-License-Identifier: Apache-2.0 */
/* Copies in graphs with arrays on either side: boxes, slices, layers, levels, captured
 * ones, and what an executable graph's copy may become. */
#include <stdbool.h>

#include "driver.h"

#define W 8 /* elements of 4 bytes */
#define H 6
#define D 4
#define N (W * H * D)

static CUstream stream;
static CUcontext ctx;

static void run(CUgraphExec x)
{
	CK(cuGraphLaunch(x, stream));
	CK(cuStreamSynchronize(stream));
}

static CUarray array_3d(unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = W,
				     .Height = H,
				     .Depth = D,
				     .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				     .NumChannels = 1,
				     .Flags = flags};
	CUarray a;

	CK(cuArray3DCreate(&a, &d));
	return a;
}

static unsigned at(const unsigned *v, unsigned x, unsigned y, unsigned z)
{
	return v[(z * H + y) * W + x];
}

/* A box out of the middle of memory into the middle of an array, and back. */
static void boxes(unsigned flags)
{
	static unsigned in[N], out[N];
	CUarray a = array_3d(flags), b = array_3d(flags);
	CUdeviceptr mem, back;
	CUDA_MEMCPY3D to = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			    .srcPitch = 4 * W,
			    .srcHeight = H,
			    .srcXInBytes = 4,
			    .srcY = 1,
			    .srcZ = 1,
			    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			    .dstArray = a,
			    .dstXInBytes = 8,
			    .dstY = 2,
			    .dstZ = 1,
			    .WidthInBytes = 12,
			    .Height = 3,
			    .Depth = 2};
	CUDA_MEMCPY3D over, from;
	CUgraphNode n[3];
	CUgraphExec x;
	CUgraph g;

	CK(cuMemAlloc(&mem, sizeof(in)));
	CK(cuMemAlloc(&back, sizeof(out)));
	to.srcDevice = mem;
	over = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			       .srcArray = a,
			       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			       .dstArray = b,
			       .WidthInBytes = 4 * W,
			       .Height = H,
			       .Depth = D};
	from = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			       .srcArray = b,
			       .srcXInBytes = 8,
			       .srcY = 2,
			       .srcZ = 1,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstDevice = back,
			       .dstPitch = 4 * W,
			       .dstHeight = H,
			       .WidthInBytes = 12,
			       .Height = 3,
			       .Depth = 2};
	CK(cuGraphCreate(&g, 0));
	CK(cuGraphAddMemcpyNode(&n[0], g, NULL, 0, &to, ctx));
	CK(cuGraphAddMemcpyNode(&n[1], g, &n[0], 1, &over, ctx));
	CK(cuGraphAddMemcpyNode(&n[2], g, &n[1], 1, &from, ctx));
	CK(cuGraphInstantiate(&x, g, 0));
	for (unsigned round = 0; round < 3; round++) {
		if (round == 2) { /* the same copy from elsewhere */
			to.srcZ = 2;
			CK(cuGraphExecMemcpyNodeSetParams(x, n[0], &to, ctx));
		}
		for (unsigned i = 0; i < N; i++)
			in[i] = i + 1000 * round;
		CK(cuMemcpyHtoD(mem, in, sizeof(in)));
		CK(cuMemsetD32(back, 0, N));
		CK(cuCtxSynchronize()); /* the stream does not wait for these */
		run(x);
		CK(cuMemcpyDtoH(out, back, sizeof(out)));
		for (unsigned z = 0; z < 2; z++) {
			for (unsigned y = 0; y < 3; y++) {
				for (unsigned c = 0; c < 3; c++)
					REQUIRE(at(out, c, y, z) ==
						at(in, 1 + c, 1 + y,
						   (round == 2 ? 2 : 1) + z));
				REQUIRE(at(out, 3, y, z) == 0);
			}
		}
	}
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	CK(cuArrayDestroy(a));
	CK(cuArrayDestroy(b));
	CK(cuMemFree(mem));
	CK(cuMemFree(back));
}

/* Level 1 of a mipmapped array, filled and read by one graph. */
static void levels(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 2 * W,
				     .Height = 2 * H,
				     .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				     .NumChannels = 1};
	static unsigned in[W * H], out[W * H];
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = in,
			   .srcPitch = 4 * W,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .WidthInBytes = 4 * W,
			   .Height = H,
			   .Depth = 1};
	CUmipmappedArray m;
	CUarray level;
	CUgraphNode n[2];
	CUgraphExec x;
	CUgraph g;

	CK(cuMipmappedArrayCreate(&m, &d, 2));
	CK(cuMipmappedArrayGetLevel(&level, m, 1));
	CK(cuGraphCreate(&g, 0));
	c.dstArray = level;
	CK(cuGraphAddMemcpyNode(&n[0], g, NULL, 0, &c, ctx));
	c = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			    .srcArray = level,
			    .dstMemoryType = CU_MEMORYTYPE_HOST,
			    .dstHost = out,
			    .dstPitch = 4 * W,
			    .WidthInBytes = 4 * W,
			    .Height = H,
			    .Depth = 1};
	CK(cuGraphAddMemcpyNode(&n[1], g, &n[0], 1, &c, ctx));
	CK(cuGraphInstantiate(&x, g, 0));
	for (unsigned round = 1; round < 3; round++) {
		for (unsigned i = 0; i < W * H; i++)
			in[i] = i * round;
		run(x);
		REQUIRE(!memcmp(in, out, sizeof(in)));
	}
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	CK(cuMipmappedArrayDestroy(m));
}

/* The copies of a stream with arrays in them, from and to pageable memory and pinned. */
static void captured(bool pinned)
{
	static unsigned pageable[2][W * H];
	CUDA_ARRAY_DESCRIPTOR d = {.Width = W,
				   .Height = H,
				   .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				   .NumChannels = 1};
	unsigned *in = pageable[0], *out = pageable[1];
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcPitch = 4 * W,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .WidthInBytes = 4 * W,
			   .Height = H};
	CUDA_MEMCPY3D half = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			      .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			      .dstXInBytes = 2 * W,
			      .WidthInBytes = 2 * W,
			      .Height = H,
			      .Depth = 1};
	CUarray a, b;
	CUgraphExec x;
	CUgraph g;
	void *p = NULL;

	if (pinned) {
		CK(cuMemHostAlloc(&p, 2 * sizeof(pageable[0]), 0));
		in = p;
		out = in + W * H;
	}
	CK(cuArrayCreate(&a, &d));
	CK(cuArrayCreate(&b, &d));
	c.srcHost = in;
	c.dstArray = a;
	CK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CK(cuMemcpy2DAsync(&c, stream));
	half.srcArray = a;
	half.dstArray = b;
	CK(cuMemcpy3DAsync(&half, stream));
	half.dstXInBytes = 0;
	half.srcXInBytes = 2 * W;
	CK(cuMemcpy3DAsync(&half, stream));
	c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			    .srcArray = b,
			    .dstMemoryType = CU_MEMORYTYPE_HOST,
			    .dstHost = out,
			    .dstPitch = 4 * W,
			    .WidthInBytes = 4 * W,
			    .Height = H};
	CK(cuMemcpy2DAsync(&c, stream));
	CK(cuStreamEndCapture(stream, &g));
	CK(cuGraphInstantiate(&x, g, 0));
	for (unsigned round = 1; round < 3; round++) {
		for (unsigned i = 0; i < W * H; i++)
			in[i] = i * round;
		run(x);
		for (unsigned i = 0; i < W * H; i++)
			REQUIRE(out[i] == in[i / W * W + (i % W + W / 2) % W]);
	}
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	CK(cuArrayDestroy(a));
	CK(cuArrayDestroy(b));
	if (p)
		CK(cuMemFreeHost(p));
}

static void wrong_boxes(void)
{
	CUarray a = array_3d(0);
	CUdeviceptr mem;
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			   .srcPitch = 4 * W,
			   .srcHeight = H,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .dstArray = a,
			   .WidthInBytes = 4 * W,
			   .Height = H,
			   .Depth = D};
	CUgraphNode n;
	CUgraph g;

	CK(cuMemAlloc(&mem, 4 * N));
	c.srcDevice = mem;
	CK(cuGraphCreate(&g, 0));
	c.dstZ = 1;
	EXPECT(cuGraphAddMemcpyNode(&n, g, NULL, 0, &c, ctx), CUDA_ERROR_INVALID_VALUE);
	c.dstZ = 0;
	c.dstXInBytes = 4;
	EXPECT(cuGraphAddMemcpyNode(&n, g, NULL, 0, &c, ctx), CUDA_ERROR_INVALID_VALUE);
	c.dstXInBytes = 0;
	CK(cuGraphAddMemcpyNode(&n, g, NULL, 0, &c, ctx));
	CK(cuGraphDestroy(g));
	CK(cuArrayDestroy(a));
	CK(cuMemFree(mem));
}

int main(void)
{
	check_name = "drv_graph_arrays";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	boxes(0);
	boxes(CUDA_ARRAY3D_LAYERED);
	levels();
	captured(false);
	captured(true);
	wrong_boxes();
	CK(cuCtxSynchronize());
	return pass();
}
