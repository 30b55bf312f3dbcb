/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of nodes beyond kernels and copies: memory, host functions between kernels,
 * operations on words of memory, conditional nodes; edges with data; attributes.
 */
#include "driver.h"

#include <unistd.h>

/* p[0] = p[0] * mul + add */
static const char *const step =
	".version 7.8\n"
	".target sm_75\n"
	".address_size 64\n"
	".visible .entry step(.param .u64 pp, .param .u32 pm, .param .u32 pa)\n"
	"{\n"
	"	.reg .b32 %r<6>;\n"
	"	.reg .b64 %d<4>;\n"
	"	ld.param.u64 %d1, [pp];\n"
	"	ld.param.u32 %r2, [pm];\n"
	"	ld.param.u32 %r3, [pa];\n"
	"	cvta.to.global.u64 %d1, %d1;\n"
	"	ld.global.u32 %r4, [%d1];\n"
	"	mad.lo.u32 %r4, %r4, %r2, %r3;\n"
	"	st.global.u32 [%d1], %r4;\n"
	"	ret;\n"
	"}\n";

/* p[0]--, and the condition is what is left */
static const char *const countdown =
	".version 8.4\n"
	".target sm_75\n"
	".address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);\n"
	".visible .entry countdown(.param .u64 pp, .param .u64 ph)\n"
	"{\n"
	"	.reg .b32 %r<4>;\n"
	"	.reg .b64 %d<4>;\n"
	"	ld.param.u64 %d1, [pp];\n"
	"	ld.param.u64 %d2, [ph];\n"
	"	cvta.to.global.u64 %d1, %d1;\n"
	"	ld.global.u32 %r1, [%d1];\n"
	"	sub.u32 %r1, %r1, 1;\n"
	"	st.global.u32 [%d1], %r1;\n"
	"	{\n"
	"	.param .b64 a0;\n"
	"	st.param.b64 [a0+0], %d2;\n"
	"	.param .b32 a1;\n"
	"	st.param.b32 [a1+0], %r1;\n"
	"	call.uni cudaGraphSetConditional, (a0, a1);\n"
	"	}\n"
	"	ret;\n"
	"}\n";

static CUfunction func;
static CUstream stream;
static CUcontext ctx;
static CUdeviceptr mem;

static CUDA_KERNEL_NODE_PARAMS params_of(CUfunction f, void **args)
{
	return (CUDA_KERNEL_NODE_PARAMS){ .func = f,
					  .gridDimX = 1,
					  .gridDimY = 1,
					  .gridDimZ = 1,
					  .blockDimX = 1,
					  .blockDimY = 1,
					  .blockDimZ = 1,
					  .kernelParams = args };
}

static CUgraphNode add_step(CUgraph g, const CUgraphNode *deps, size_t n, CUdeviceptr p,
			    unsigned mul, unsigned add)
{
	void *args[] = { &p, &mul, &add };
	CUDA_KERNEL_NODE_PARAMS k = params_of(func, args);
	CUgraphNode node;

	CK(cuGraphAddKernelNode(&node, g, deps, n, &k));
	return node;
}

static void launch_step(CUstream st, CUdeviceptr p, unsigned mul, unsigned add,
			int early)
{
	void *args[] = { &p, &mul, &add };
	CUlaunchAttribute a = {
		.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		.value = { .programmaticStreamSerializationAllowed = 1 },
	};
	CUlaunchConfig c = { .gridDimX = 1,
			     .gridDimY = 1,
			     .gridDimZ = 1,
			     .blockDimX = 1,
			     .blockDimY = 1,
			     .blockDimZ = 1,
			     .hStream = st,
			     .attrs = &a,
			     .numAttrs = early ? 1 : 0 };

	CK(cuLaunchKernelEx(&c, func, args, NULL));
}

static unsigned word(CUdeviceptr p)
{
	unsigned v;

	CK(cuMemcpyDtoH(&v, p, sizeof(v)));
	return v;
}

static void run(CUgraphExec x)
{
	CK(cuGraphLaunch(x, stream));
	CK(cuStreamSynchronize(stream));
}

/* ---- memory ---- */

static CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t size)
{
	return (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = size,
	};
}

static void copy_word(CUgraph g, CUgraphNode *ret, const CUgraphNode *deps, size_t n,
		      CUdeviceptr dst, CUdeviceptr src)
{
	CUDA_MEMCPY3D c = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			    .srcDevice = src,
			    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			    .dstDevice = dst,
			    .WidthInBytes = 4,
			    .Height = 1,
			    .Depth = 1 };

	CK(cuGraphAddMemcpyNode(ret, g, deps, n, &c, ctx));
}

static void memory_nodes(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS a = alloc_params(1 << 20), b = alloc_params(1 << 19), q;
	CUDA_MEMSET_NODE_PARAMS f = { .value = 7, .elementSize = 4, .width = 1, .height = 1 };
	CUgraphNode n[6], out;
	CUgraph g, other;
	CUgraphExec x, y;
	CUdeviceptr p;
	cuuint64_t used;

	CK(cuGraphCreate(&g, 0));
	CK(cuGraphAddMemAllocNode(&n[0], g, NULL, 0, &a));
	REQUIRE(a.dptr);
	f.dst = a.dptr;
	CK(cuGraphAddMemsetNode(&n[1], g, &n[0], 1, &f, ctx));
	n[2] = add_step(g, &n[1], 1, a.dptr, 6, 0);
	copy_word(g, &n[3], &n[2], 1, mem, a.dptr);
	CK(cuGraphAddMemFreeNode(&n[4], g, &n[3], 1, a.dptr));
	EXPECT(cuGraphAddMemFreeNode(&out, g, &n[3], 1, a.dptr), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphAddMemFreeNode(&out, g, NULL, 0, mem), CUDA_ERROR_INVALID_VALUE);
	CK(cuGraphMemAllocNodeGetParams(n[0], &q));
	REQUIRE(q.dptr == a.dptr && q.bytesize == 1 << 20);
	CK(cuGraphMemFreeNodeGetParams(n[4], &p));
	REQUIRE(p == a.dptr);
	/* freed before: the next allocation has the same place */
	CK(cuGraphAddMemAllocNode(&n[5], g, &n[4], 1, &b));
	REQUIRE(b.dptr == a.dptr);

	EXPECT(cuGraphClone(&other, g), CUDA_ERROR_NOT_SUPPORTED);
	CK(cuGraphDebugDotPrint(g, "/dev/null", 0));
	EXPECT(cuGraphDestroyNode(n[4]), CUDA_ERROR_NOT_SUPPORTED);
	CK(cuGraphInstantiate(&x, g, 0));
	EXPECT(cuGraphInstantiate(&y, g, 0), CUDA_ERROR_NOT_SUPPORTED);
	run(x);
	REQUIRE(word(mem) == 42);
	CK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
	REQUIRE(used >= 1 << 20);
	EXPECT(cuGraphLaunch(x, stream), CUDA_ERROR_INVALID_VALUE); /* b lives */
	CK(cuMemFree(b.dptr));
	EXPECT(cuMemFree(b.dptr), CUDA_ERROR_INVALID_VALUE);
	run(x);
	CK(cuMemFreeAsync(b.dptr, stream));
	CK(cuGraphExecDestroy(x));
	CK(cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	run(x);
	run(x);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	CK(cuMemsetD32(b.dptr, 1, 1)); /* it outlives the graph */
	CK(cuMemFree(b.dptr));
	CK(cuDeviceGraphMemTrim(0));
	CK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
	REQUIRE(used == 0);
}

/* ---- host functions ---- */

static unsigned seen[64], n_seen;

/* Sees what the kernels before it have done: through memory of the host. */
static unsigned watched;

static void look(void *arg)
{
	seen[n_seen++] = *(unsigned *)arg;
	usleep(1000);
}

static void host_nodes(void)
{
	CUDA_HOST_NODE_PARAMS h = { look, &watched };
	CUDA_MEMCPY3D c = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			    .srcDevice = mem,
			    .dstMemoryType = CU_MEMORYTYPE_HOST,
			    .dstHost = &watched,
			    .WidthInBytes = 4,
			    .Height = 1,
			    .Depth = 1 };
	CUgraphNode n[6];
	CUgraphExec x;
	CUgraph g;
	unsigned elsewhere = 99;

	CK(cuMemsetD32(mem, 0, 1));
	CK(cuGraphCreate(&g, 0));
	n[0] = add_step(g, NULL, 0, mem, 1, 1);
	CK(cuGraphAddMemcpyNode(&n[1], g, &n[0], 1, &c, ctx));
	CK(cuGraphAddHostNode(&n[2], g, &n[1], 1, &h));
	n[3] = add_step(g, &n[2], 1, mem, 1, 10);
	CK(cuGraphAddMemcpyNode(&n[4], g, &n[3], 1, &c, ctx));
	CK(cuGraphAddHostNode(&n[5], g, &n[4], 1, &h));
	CK(cuGraphInstantiate(&x, g, 0));
	for (int i = 0; i < 5; i++)
		CK(cuGraphLaunch(x, stream));
	/* what is changed now holds for later launches only */
	h.userData = &elsewhere;
	CK(cuGraphExecHostNodeSetParams(x, n[5], &h));
	CK(cuGraphLaunch(x, stream));
	CK(cuGraphExecDestroy(x)); /* while they run */
	CK(cuStreamSynchronize(stream));
	REQUIRE(n_seen == 12);
	for (unsigned i = 0; i < 5; i++)
		REQUIRE(seen[2 * i] == 11 * i + 1 && seen[2 * i + 1] == 11 * i + 11);
	REQUIRE(seen[10] == 56 && seen[11] == 99);
	REQUIRE(word(mem) == 66);
	CK(cuGraphDestroy(g));
}

/* Memory that only the program sees: read and written when its turn comes. */
static void pageable(void)
{
	static unsigned in[256], more[1024], out[2];
	CUDA_MEMCPY3D to = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			     .srcHost = in,
			     .srcPitch = 64,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstDevice = mem,
			     .dstPitch = 32,
			     .WidthInBytes = 8,
			     .Height = 3,
			     .Depth = 1 };
	CUDA_MEMCPY3D from = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .srcDevice = mem,
			       .dstMemoryType = CU_MEMORYTYPE_HOST,
			       .dstHost = out,
			       .WidthInBytes = 8,
			       .Height = 1,
			       .Depth = 1 };
	CUgraphNode n[3];
	unsigned on = 7;
	CUgraphExec x;
	CUgraph g;

	CK(cuGraphCreate(&g, 0));
	CK(cuGraphAddMemcpyNode(&n[0], g, NULL, 0, &to, ctx));
	n[1] = add_step(g, &n[0], 1, mem, 10, 1);
	CK(cuGraphAddMemcpyNode(&n[2], g, &n[1], 1, &from, ctx));
	CK(cuGraphInstantiate(&x, g, 0));
	for (unsigned i = 0; i < 3; i++) {
		in[0] = i;
		in[1] = 100 + i;
		in[33] = 200 + i; /* the second word of the third row */
		run(x);
		REQUIRE(out[0] == 10 * i + 1 && out[1] == 100 + i);
		REQUIRE(word(mem + 68) == 200 + i);
	}
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));

	/* more than before: rows stay rows and a line a line */
	to.srcPitch = to.dstPitch = 0;
	to.Height = 1;
	CK(cuGraphCreate(&g, 0));
	CK(cuGraphAddMemcpyNode(&n[0], g, NULL, 0, &to, ctx));
	n[1] = add_step(g, &n[0], 1, mem, 10, 1);
	CK(cuGraphAddMemcpyNode(&n[2], g, &n[1], 1, &from, ctx));
	CK(cuGraphInstantiate(&x, g, 0));
	for (unsigned i = 0; i < 1024; i++)
		more[i] = 1000 + i;
	to.srcHost = more;
	to.WidthInBytes = 4000;
	CK(cuGraphExecMemcpyNodeSetParams(x, n[0], &to, ctx));
	run(x);
	REQUIRE(out[0] == 10001 && out[1] == 1001 && word(mem + 3996) == 1999);
	CK(cuGraphNodeSetEnabled(x, n[0], 0));
	CK(cuGraphNodeGetEnabled(x, n[0], &on));
	REQUIRE(on == 0);
	run(x);
	REQUIRE(out[0] == 100011);
	CK(cuGraphNodeSetEnabled(x, n[2], 0));
	run(x);
	REQUIRE(out[0] == 100011 && word(mem) == 1000111);
	CK(cuGraphNodeSetEnabled(x, n[0], 1));
	CK(cuGraphNodeSetEnabled(x, n[2], 1));
	run(x);
	REQUIRE(out[0] == 10001);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
}

/* Into an array from the program's memory, on into another one, and out again. */
static void arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = 8,
				    .Height = 4,
				    .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				    .NumChannels = 1 };
	CUDA_MEMCPY3D c = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			    .WidthInBytes = 32,
			    .Height = 4,
			    .Depth = 1 };
	static unsigned in[32], out[32];
	CUarray a, b;
	CUgraphNode n[3];
	CUgraphExec x;
	CUgraph g;

	CK(cuArrayCreate(&a, &d));
	CK(cuArrayCreate(&b, &d));
	CK(cuGraphCreate(&g, 0));
	c.srcHost = in;
	c.dstArray = a;
	CK(cuGraphAddMemcpyNode(&n[0], g, NULL, 0, &c, ctx));
	c = (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_ARRAY,
			     .srcArray = a,
			     .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			     .dstArray = b,
			     .WidthInBytes = 32,
			     .Height = 4,
			     .Depth = 1 };
	CK(cuGraphAddMemcpyNode(&n[1], g, &n[0], 1, &c, ctx));
	c.srcArray = b;
	c.dstArray = NULL;
	c.dstMemoryType = CU_MEMORYTYPE_HOST;
	c.dstHost = out;
	CK(cuGraphAddMemcpyNode(&n[2], g, &n[1], 1, &c, ctx));
	c.Height = 5;
	EXPECT(cuGraphAddMemcpyNode(&n[2], g, &n[1], 1, &c, ctx), CUDA_ERROR_INVALID_VALUE);
	CK(cuGraphInstantiate(&x, g, 0));
	for (unsigned round = 1; round < 4; round++) {
		for (unsigned i = 0; i < 32; i++)
			in[i] = i * round;
		run(x);
		for (unsigned i = 0; i < 32; i++)
			REQUIRE(out[i] == i * round);
	}
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	CK(cuArrayDestroy(a));
	CK(cuArrayDestroy(b));
}

/* ---- words of memory ---- */

static void mem_ops(void)
{
	CUstreamBatchMemOpParams ops[2], *all;
	CUDA_BATCH_MEM_OP_NODE_PARAMS p = { .ctx = ctx, .count = 2, .paramArray = ops }, q;
	CUgraphNode n[2];
	CUgraphExec x;
	CUgraph g;

	memset(ops, 0, sizeof(ops));
	ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[0].writeValue.address = mem;
	ops[0].writeValue.value = 5;
	ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	ops[1].waitValue.address = mem;
	ops[1].waitValue.value = 5;
	ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	CK(cuGraphCreate(&g, 0));
	CK(cuGraphAddBatchMemOpNode(&n[0], g, NULL, 0, &p));
	n[1] = add_step(g, &n[0], 1, mem, 2, 0);
	CK(cuGraphBatchMemOpNodeGetParams(n[0], &q));
	all = q.paramArray;
	REQUIRE(q.count == 2 && all[1].waitValue.address == mem);
	CK(cuGraphInstantiate(&x, g, 0));
	run(x);
	REQUIRE(word(mem) == 10);
	ops[0].writeValue.value = ops[1].waitValue.value = 8;
	CK(cuGraphExecBatchMemOpNodeSetParams(x, n[0], &p));
	run(x);
	REQUIRE(word(mem) == 16);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
}

/* ---- conditions ---- */

static CUgraph add_condition(CUgraph g, CUgraphConditionalHandle h, CUgraphNode after,
			     CUgraphConditionalNodeType type, CUgraphNode *ret)
{
	CUgraphNodeParams p;

	memset(&p, 0, sizeof(p));
	p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	p.conditional.handle = h;
	p.conditional.type = type;
	p.conditional.size = 1;
	p.conditional.ctx = ctx;
	CK(cuGraphAddNode(ret, g, &after, NULL, after ? 1 : 0, &p));
	return p.conditional.phGraph_out[0];
}

static void conditions(void)
{
	CUgraphConditionalHandle h = 0;
	CUdeviceptr count = mem + 64;
	CUgraphNode n, start, kernel;
	CUgraph g, body;
	CUgraphExec x, y;
	CUmodule mod;
	CUfunction down;
	CUresult r;
	void *args[] = { &count, &h };
	CUDA_KERNEL_NODE_PARAMS k;

	CK(cuGraphCreate(&g, 0));
	r = cuGraphConditionalHandleCreate(&h, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	if (r == CUDA_ERROR_NOT_SUPPORTED) {
		printf("no conditional nodes here\n");
		CK(cuGraphDestroy(g));
		return;
	}
	CK(r);
	CK(cuModuleLoadData(&mod, countdown));
	CK(cuModuleGetFunction(&down, mod, "countdown"));
	start = add_step(g, NULL, 0, mem, 0, 1); /* mem = 1 */
	body = add_condition(g, h, start, CU_GRAPH_COND_TYPE_WHILE, &n);
	kernel = add_step(body, NULL, 0, mem, 2, 0);
	k = params_of(down, args);
	CK(cuGraphAddKernelNode(&kernel, body, &kernel, 1, &k));
	add_step(g, &n, 1, mem, 1, 1000);
	EXPECT(cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE);
	CK(cuGraphDebugDotPrint(g, "/dev/null", CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
	CK(cuGraphInstantiate(&x, g, 0));
	EXPECT(cuGraphInstantiate(&y, g, 0), CUDA_ERROR_NOT_SUPPORTED);
	for (unsigned i = 1; i < 5; i++) {
		CK(cuMemsetD32(count, i, 1));
		run(x);
		REQUIRE(word(mem) == 1000 + (1u << i));
	}
	CK(cuGraphExecDestroy(x));
	CK(cuGraphInstantiate(&x, g, 0));
	CK(cuMemsetD32(count, 3, 1));
	run(x);
	REQUIRE(word(mem) == 1008);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	CK(cuModuleUnload(mod));
}

/* ---- edges and attributes ---- */

static void edges(void)
{
	CUgraphNode from[4], to[4];
	CUgraphEdgeData data[4];
	CUgraphExec x;
	CUgraph g;
	size_t n = 4;

	CK(cuMemsetD32(mem, 1, 1));
	CK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch_step(stream, mem, 3, 0, 0);
	launch_step(stream, mem, 1, 5, 1);
	CK(cuMemsetD32Async(mem + 4, 9, 1, stream));
	launch_step(stream, mem, 2, 0, 1);
	CK(cuStreamEndCapture(stream, &g));
	CK(cuGraphGetEdges(g, from, to, data, &n));
	REQUIRE(n == 3);
	for (unsigned i = 0; i < n; i++) {
		unsigned early = data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
		CUgraphNodeType a, b;

		CK(cuGraphNodeGetType(from[i], &a));
		CK(cuGraphNodeGetType(to[i], &b));
		REQUIRE(early == (a == CU_GRAPH_NODE_TYPE_KERNEL &&
				  b == CU_GRAPH_NODE_TYPE_KERNEL));
		REQUIRE(data[i].from_port ==
			(early ? CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC : 0));
	}
	EXPECT(cuGraphGetEdges(g, from, to, NULL, &n), CUDA_ERROR_LOSSY_QUERY);
	CK(cuGraphInstantiate(&x, g, 0));
	run(x);
	REQUIRE(word(mem) == 16);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
}

/* A capture that goes on with a graph of the program's, and waits for an event that was
 * never recorded, which is nothing to wait for. */
static void capture_to_graph(void)
{
	CUgraphNode first;
	CUgraphExec x;
	CUevent never;
	CUgraph g;

	CK(cuMemsetD32(mem, 2, 1));
	CK(cuEventCreate(&never, CU_EVENT_DISABLE_TIMING));
	CK(cuGraphCreate(&g, 0));
	first = add_step(g, NULL, 0, mem, 3, 0);
	CK(cuStreamBeginCaptureToGraph(stream, g, &first, NULL, 1,
				       CU_STREAM_CAPTURE_MODE_RELAXED));
	CK(cuStreamWaitEvent(stream, never, 0));
	launch_step(stream, mem, 1, 4, 0);
	CK(cuStreamEndCapture(stream, NULL));
	CK(cuGraphInstantiate(&x, g, 0));
	run(x);
	REQUIRE(word(mem) == 10);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	CK(cuEventDestroy(never));
}

static void attributes(void)
{
	CUkernelNodeAttrValue v;
	CUgraphNode nodes[1];
	CUgraphExec x;
	CUstream high;
	CUgraph g;
	size_t n = 1;

	CK(cuStreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -1));
	CK(cuMemsetD32(mem, 4, 1));
	CK(cuStreamBeginCapture(high, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch_step(high, mem, 2, 1, 0);
	CK(cuStreamEndCapture(high, &g));
	CK(cuGraphGetNodes(g, nodes, &n));
	CK(cuGraphKernelNodeGetAttribute(nodes[0], CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
	REQUIRE(v.priority == -1);
	memset(&v, 0, sizeof(v));
	v.sharedMemCarveout = 50;
	CK(cuGraphKernelNodeSetAttribute(
		nodes[0], CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &v));
	CK(cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
	run(x);
	REQUIRE(word(mem) == 9);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
	CK(cuStreamDestroy(high));
}

/* cuMemAllocAsync and cuMemFreeAsync in a capture */
static void captured_memory(void)
{
	CUgraphExec x;
	CUdeviceptr p = 0;
	CUgraph g;
	CUresult r;

	CK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	r = cuMemAllocAsync(&p, 4096, stream);
	if (r == CUDA_ERROR_NOT_SUPPORTED) {
		printf("no memory pools here\n");
		CK(cuStreamEndCapture(stream, &g));
		CK(cuGraphDestroy(g));
		return;
	}
	CK(r);
	CK(cuMemsetD32Async(p, 3, 1024, stream));
	launch_step(stream, p + 16, 5, 1, 0);
	CK(cuMemcpyDtoDAsync(mem, p + 16, 4, stream));
	CK(cuMemFreeAsync(p, stream));
	CK(cuStreamEndCapture(stream, &g));
	CK(cuGraphInstantiate(&x, g, 0));
	run(x);
	run(x);
	REQUIRE(word(mem) == 16);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
}

int main(void)
{
	CUmodule mod;

	check_name = "drv_graph_nodes";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuMemAlloc(&mem, 4096));
	CK(cuModuleLoadData(&mod, step));
	CK(cuModuleGetFunction(&func, mod, "step"));
	CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	memory_nodes();
	host_nodes();
	pageable();
	arrays();
	mem_ops();
	conditions();
	edges();
	capture_to_graph();
	attributes();
	captured_memory();
	CK(cuCtxSynchronize());
	return pass();
}
