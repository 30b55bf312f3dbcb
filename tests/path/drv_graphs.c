/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs built node by node with the driver API: order, queries, changes, refusals. */
#include "driver.h"

#include <unistd.h>

/* p[i] = p[i] * mul + add: what order the nodes ran in shows in the result. */
static const char *const step =
	".version 7.0\n"
	".target sm_52\n"
	".address_size 64\n"
	".visible .entry step(.param .u64 pp, .param .u32 pi, .param .u32 pm, .param .u32 pa)\n"
	"{\n"
	"	.reg .b32 %r<6>;\n"
	"	.reg .b64 %d<4>;\n"
	"	ld.param.u64 %d1, [pp];\n"
	"	ld.param.u32 %r1, [pi];\n"
	"	ld.param.u32 %r2, [pm];\n"
	"	ld.param.u32 %r3, [pa];\n"
	"	cvta.to.global.u64 %d1, %d1;\n"
	"	mul.wide.u32 %d2, %r1, 4;\n"
	"	add.u64 %d1, %d1, %d2;\n"
	"	ld.global.u32 %r4, [%d1];\n"
	"	mad.lo.u32 %r4, %r4, %r2, %r3;\n"
	"	st.global.u32 [%d1], %r4;\n"
	"	ret;\n"
	"}\n";

static CUfunction func;
static CUstream stream;
static CUdeviceptr mem;
static CUcontext ctx;

struct args {
	CUdeviceptr p;
	unsigned i, mul, add;
	void *ptr[4];
};

static CUDA_KERNEL_NODE_PARAMS kernel(struct args *a, unsigned i, unsigned mul,
				      unsigned add)
{
	CUDA_KERNEL_NODE_PARAMS p = { .func = func,
				      .gridDimX = 1,
				      .gridDimY = 1,
				      .gridDimZ = 1,
				      .blockDimX = 1,
				      .blockDimY = 1,
				      .blockDimZ = 1 };

	*a = (struct args){ mem, i, mul, add, { &a->p, &a->i, &a->mul, &a->add } };
	p.kernelParams = a->ptr;
	return p;
}

static CUgraphNode add_kernel(CUgraph g, const CUgraphNode *deps, size_t n, unsigned i,
			      unsigned mul, unsigned add)
{
	CUDA_KERNEL_NODE_PARAMS p;
	struct args a;
	CUgraphNode node;

	p = kernel(&a, i, mul, add);
	CK(cuGraphAddKernelNode(&node, g, deps, n, &p));
	memset(&a, 0xee, sizeof(a)); /* the node has what it needs */
	return node;
}

static CUgraphNode add_fill(CUgraph g, const CUgraphNode *deps, size_t n, unsigned i,
			    unsigned value)
{
	CUDA_MEMSET_NODE_PARAMS p = { .dst = mem + 4 * i,
				      .value = value,
				      .elementSize = 4,
				      .width = 1,
				      .height = 1 };
	CUgraphNode node;

	CK(cuGraphAddMemsetNode(&node, g, deps, n, &p, ctx));
	return node;
}

static CUDA_MEMCPY3D copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	CUDA_MEMCPY3D p = { .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			    .srcDevice = src,
			    .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			    .dstDevice = dst,
			    .WidthInBytes = bytes,
			    .Height = 1,
			    .Depth = 1 };

	return p;
}

static unsigned run(CUgraphExec x, unsigned i)
{
	unsigned v[64];

	CK(cuGraphLaunch(x, stream));
	CK(cuStreamSynchronize(stream));
	CK(cuMemcpyDtoH(v, mem, sizeof(v)));
	return v[i];
}

static void CUDA_CB twice(void *arg)
{
	*(unsigned *)arg *= 2;
}

/* fill -> two branches -> copies to the host, a function there, and back. */
static void diamond(void)
{
	CUDA_HOST_NODE_PARAMS host = { .fn = twice };
	CUgraphNode n[8], both[2], nodes[16], from[16], to[16];
	CUDA_MEMCPY3D c;
	unsigned *word;
	CUgraph g;
	CUgraphExec x;
	CUgraphNodeType type;
	size_t count;

	CK(cuMemHostAlloc((void **)&word, 4, 0));
	host.userData = word;
	CK(cuGraphCreate(&g, 0));
	n[0] = add_fill(g, NULL, 0, 0, 5);
	n[1] = add_kernel(g, &n[0], 1, 0, 3, 1);  /* 16 */
	n[2] = add_fill(g, NULL, 0, 1, 7);
	n[3] = add_kernel(g, &n[2], 1, 1, 10, 0); /* 70 */
	both[0] = n[1];
	both[1] = n[3];
	CK(cuGraphAddEmptyNode(&n[4], g, both, 2));
	c = copy((uintptr_t)word, mem, 4);
	CK(cuGraphAddMemcpyNode(&n[5], g, &n[4], 1, &c, ctx));
	CK(cuGraphAddHostNode(&n[6], g, &n[5], 1, &host));
	c = copy(mem + 8, (uintptr_t)word, 4);
	CK(cuGraphAddMemcpyNode(&n[7], g, &n[6], 1, &c, ctx));

	count = 0;
	CK(cuGraphGetNodes(g, NULL, &count));
	REQUIRE(count == 8);
	count = 16;
	CK(cuGraphGetNodes(g, nodes, &count));
	REQUIRE(count == 8 && nodes[9] == NULL);
	count = 16;
	CK(cuGraphGetRootNodes(g, nodes, &count));
	/* in no particular order */
	REQUIRE(count == 2 && ((nodes[0] == n[0] && nodes[1] == n[2]) ||
			       (nodes[0] == n[2] && nodes[1] == n[0])));
	count = 16;
	CK(cuGraphGetEdges(g, from, to, NULL, &count));
	REQUIRE(count == 7);
	count = 16;
	CK(cuGraphNodeGetDependencies(n[4], nodes, NULL, &count));
	REQUIRE(count == 2 && nodes[0] == n[1] && nodes[1] == n[3]);
	count = 16;
	CK(cuGraphNodeGetDependentNodes(n[0], nodes, NULL, &count));
	REQUIRE(count == 1 && nodes[0] == n[1]);
	CK(cuGraphNodeGetType(n[6], &type));
	REQUIRE(type == CU_GRAPH_NODE_TYPE_HOST);

	CK(cuGraphInstantiate(&x, g, 0));
	CK(cuGraphUpload(x, stream));
	REQUIRE(run(x, 2) == 32);
	*word = 0;
	REQUIRE(run(x, 2) == 32 && run(x, 1) == 70);
	CK(cuGraphExecDestroy(x));
	EXPECT(cuGraphLaunch(x, stream), CUDA_ERROR_INVALID_VALUE);
	CK(cuGraphDestroy(g));
	EXPECT(cuGraphDestroy(g), CUDA_ERROR_INVALID_VALUE);
	CK(cuMemFreeHost(word));
}

/* Parameters of nodes and of what was instantiated; switching off; updating. */
static void changes(void)
{
	CUDA_KERNEL_NODE_PARAMS p, got;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUgraphExecUpdateResultInfo info;
	CUgraphNode n[3], c;
	struct args a;
	CUgraph g, clone;
	CUgraphExec x;
	unsigned on;

	CK(cuGraphCreate(&g, 0));
	n[0] = add_fill(g, NULL, 0, 0, 1);
	n[1] = add_kernel(g, &n[0], 1, 0, 2, 3);
	n[2] = add_kernel(g, &n[1], 1, 0, 10, 0);
	CK(cuGraphKernelNodeGetParams(n[1], &got));
	REQUIRE(got.func == func && got.gridDimX == 1 &&
		*(unsigned *)got.kernelParams[3] == 3);
	CK(cuGraphInstantiate(&x, g, 0));
	REQUIRE(run(x, 0) == 50);
	p = kernel(&a, 0, 2, 4);
	CK(cuGraphExecKernelNodeSetParams(x, n[1], &p));
	REQUIRE(run(x, 0) == 60);
	CK(cuGraphMemsetNodeGetParams(n[0], &fill));
	REQUIRE(fill.value == 1 && fill.dst == mem);
	fill.value = 2;
	CK(cuGraphExecMemsetNodeSetParams(x, n[0], &fill, ctx));
	REQUIRE(run(x, 0) == 80);
	CK(cuGraphNodeSetEnabled(x, n[2], 0));
	REQUIRE(run(x, 0) == 8);
	CK(cuGraphNodeGetEnabled(x, n[2], &on));
	REQUIRE(on == 0);
	CK(cuGraphNodeSetEnabled(x, n[2], 1));
	REQUIRE(run(x, 0) == 80);

	/* a clone, changed, updates it */
	CK(cuGraphClone(&clone, g));
	CK(cuGraphNodeFindInClone(&c, n[1], clone));
	REQUIRE(c != n[1]);
	p = kernel(&a, 0, 7, 0);
	CK(cuGraphKernelNodeSetParams(c, &p));
	CK(cuGraphExecUpdate(x, clone, &info));
	REQUIRE(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
	REQUIRE(run(x, 0) == 70);
	/* but not one of another shape */
	CK(cuGraphNodeFindInClone(&c, n[2], clone));
	CK(cuGraphDestroyNode(c));
	EXPECT(cuGraphExecUpdate(x, clone, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	REQUIRE(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	REQUIRE(run(x, 0) == 70);
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(clone));
	CK(cuGraphDestroy(g));
}

/* A graph in a graph, twice, and events that the outside sees. */
static void children(void)
{
	CUgraphNode n[5], inner[2];
	CUgraphExec x;
	CUgraph g, child, owned;
	CUevent done;

	CK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	CK(cuGraphCreate(&child, 0));
	inner[0] = add_kernel(child, NULL, 0, 3, 2, 0);
	inner[1] = add_kernel(child, inner, 1, 3, 1, 1);
	CK(cuGraphCreate(&g, 0));
	n[0] = add_fill(g, NULL, 0, 3, 5);
	CK(cuGraphAddChildGraphNode(&n[1], g, &n[0], 1, child));
	CK(cuGraphAddChildGraphNode(&n[2], g, &n[1], 1, child));
	n[3] = add_kernel(g, &n[2], 1, 3, 100, 0);
	CK(cuGraphAddEventRecordNode(&n[4], g, &n[3], 1, done));
	CK(cuGraphDestroy(child));
	CK(cuGraphChildGraphNodeGetGraph(n[1], &owned));
	EXPECT(cuGraphDestroy(owned), CUDA_ERROR_INVALID_VALUE);
	CK(cuGraphInstantiate(&x, g, 0));
	CK(cuGraphDestroy(g));
	CK(cuGraphLaunch(x, stream));
	CK(cuEventSynchronize(done));
	REQUIRE(run(x, 3) == 2300);
	CK(cuGraphExecDestroy(x));
	CK(cuEventDestroy(done));
}

/* Many branches: more than there are lanes, each a chain. */
static void wide(void)
{
	enum { BRANCHES = 40, LENGTH = 5 };
	CUgraphNode start, ends[BRANCHES], last;
	CUgraphExec x;
	CUgraph g;
	unsigned v[64], i, k;

	CK(cuGraphCreate(&g, 0));
	CK(cuGraphAddEmptyNode(&start, g, NULL, 0));
	for (i = 0; i < BRANCHES; i++) {
		ends[i] = add_fill(g, &start, 1, i, i);
		for (k = 0; k < LENGTH; k++)
			ends[i] = add_kernel(g, &ends[i], 1, i, 3, 1);
	}
	CK(cuGraphAddEmptyNode(&last, g, ends, BRANCHES));
	add_kernel(g, &last, 1, 0, 1, 1000);
	CK(cuGraphInstantiate(&x, g, 0));
	for (k = 0; k < 5; k++)
		CK(cuGraphLaunch(x, stream));
	CK(cuStreamSynchronize(stream));
	CK(cuMemcpyDtoH(v, mem, sizeof(v)));
	for (i = 0; i < BRANCHES; i++)
		REQUIRE(v[i] == 243 * i + 121 + (i ? 0 : 1000));
	CK(cuGraphExecDestroy(x));
	CK(cuGraphDestroy(g));
}

static void refusals(void)
{
	CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_CONDITIONAL };
	CUDA_KERNEL_NODE_PARAMS p;
	CUgraphNode n[2], out;
	struct args a;
	CUgraph g, other;
	CUgraphExec x;

	CK(cuGraphCreate(&g, 0));
	CK(cuGraphCreate(&other, 0));
	EXPECT(cuGraphCreate(&g, 1), CUDA_ERROR_INVALID_VALUE);
	n[0] = add_kernel(g, NULL, 0, 0, 1, 1);
	n[1] = add_kernel(g, &n[0], 1, 0, 1, 1);
	p = kernel(&a, 0, 1, 1);
	EXPECT(cuGraphAddKernelNode(&out, other, n, 1, &p), CUDA_ERROR_INVALID_VALUE);
	p.blockDimX = 4096;
	EXPECT(cuGraphAddKernelNode(&out, g, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphAddDependencies(g, n, n, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphAddDependencies(g, &n[0], &n[1], NULL, 1),
	       CUDA_ERROR_INVALID_VALUE);
	CK(cuGraphAddDependencies(g, &n[1], &n[0], NULL, 1)); /* a cycle */
	EXPECT(cuGraphInstantiate(&x, g, 0), CUDA_ERROR_INVALID_VALUE);
	CK(cuGraphRemoveDependencies(g, &n[1], &n[0], NULL, 1));
	CK(cuGraphInstantiate(&x, g, 0));
	CK(cuGraphExecDestroy(x));
	EXPECT(cuGraphAddNode(&out, g, NULL, NULL, 0, &any), CUDA_ERROR_INVALID_VALUE);
	CK(cuGraphDestroy(g));
	CK(cuGraphDestroy(other));
}

static volatile int destroyed;

static void CUDA_CB destroy(void *arg)
{
	destroyed += *(int *)arg;
}

static void user_objects(void)
{
	CUuserObject o;
	CUgraphExec x;
	CUgraph g;
	int one = 1;

	CK(cuUserObjectCreate(&o, &one, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	CK(cuGraphCreate(&g, 0));
	CK(cuGraphRetainUserObject(g, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
	CK(cuGraphInstantiate(&x, g, 0)); /* an empty graph is one too */
	CK(cuGraphDestroy(g));
	CK(cuGraphLaunch(x, stream));
	CK(cuStreamSynchronize(stream));
	REQUIRE(destroyed == 0);
	CK(cuGraphExecDestroy(x));
	for (int i = 0; i < 2000 && !destroyed; i++) /* by a thread of the driver's */
		usleep(1000);
	REQUIRE(destroyed == 1);
}

int main(void)
{
	CUdevice dev;
	CUmodule mod;

	check_name = "drv_graphs";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuCtxCreate(&ctx, NULL, 0, dev));
	CK(cuModuleLoadData(&mod, step));
	CK(cuModuleGetFunction(&func, mod, "step"));
	CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CK(cuMemAlloc(&mem, 256));
	CK(cuMemsetD8(mem, 0, 256));
	diamond();
	changes();
	children();
	wide();
	refusals();
	user_objects();
	CK(cuMemFree(mem));
	CK(cuStreamDestroy(stream));
	CK(cuCtxDestroy(ctx));
	return pass();
}
