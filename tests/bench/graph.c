/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of graphs for a program: instantiating, launching, replaying, updating graphs of
 * tiny kernels in a chain and side by side, with whatever libcuda is loaded:
 *
 *	bench_graph [kernels...]	weft-run -- bench_graph
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"

#define ROUNDS   7
#define LAUNCHES 200 /* in a row before waiting */

static const char *const ptx =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry step(.param .u64 p, .param .u32 n)\n{\n"
	".reg .u64 %a, %b;\n.reg .u32 %x, %y, %t, %m;\n.reg .pred %q;\n"
	"ld.param.u64 %a, [p];\nld.param.u32 %m, [n];\n"
	"cvta.to.global.u64 %a, %a;\nmov.u32 %t, %tid.x;\n"
	"mul.wide.u32 %b, %t, 4;\nadd.u64 %a, %a, %b;\n"
	"ld.global.u32 %x, [%a];\nadd.u32 %x, %x, %m;\nst.global.u32 [%a], %x;\n"
	"ret;\n}\n";

#define FUNCTIONS(X)                                                                     \
	X(cuInit)                                                                        \
	X(cuDevicePrimaryCtxRetain)                                                      \
	X(cuCtxSetCurrent)                                                               \
	X(cuMemAlloc)                                                                    \
	X(cuModuleLoadData)                                                              \
	X(cuModuleGetFunction)                                                           \
	X(cuStreamCreate)                                                                \
	X(cuStreamSynchronize)                                                           \
	X(cuGraphCreate)                                                                 \
	X(cuGraphDestroy)                                                                \
	X(cuGraphAddKernelNode)                                                          \
	X(cuGraphInstantiateWithFlags)                                                   \
	X(cuGraphExecDestroy)                                                            \
	X(cuGraphExecUpdate)                                                             \
	X(cuGraphExecKernelNodeSetParams)                                                \
	X(cuGraphLaunch)

static struct {
#define X(fn) __typeof__(fn) *fn;
	FUNCTIONS(X)
#undef X
} cu;

static void check(CUresult r, const char *what)
{
	if (r) {
		fprintf(stderr, "%s: error %d\n", what, (int)r);
		exit(1);
	}
}

#define CHECK(call) check(call, #call)

static void *find(const char *name)
{
	static void *lib;
	void *p;

	if (!lib)
		lib = dlopen("libcuda.so.1", RTLD_NOW);
	p = lib ? dlsym(lib, name) : NULL;
	if (!p) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return p;
}

#define QUOTED(fn)  #fn
#define NAME_OF(fn) QUOTED(fn)

static CUdeviceptr mem;
static CUfunction step;
static CUstream stream;

static void start(void)
{
	CUcontext ctx;
	CUmodule mod;
	void *p;

#define X(fn)                                                                            \
	p = find(NAME_OF(fn));                                                           \
	__builtin_memcpy(&cu.fn, &p, sizeof(p));
	FUNCTIONS(X)
#undef X
	CHECK(cu.cuInit(0));
	CHECK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(cu.cuCtxSetCurrent(ctx));
	CHECK(cu.cuMemAlloc(&mem, 1u << 20));
	CHECK(cu.cuModuleLoadData(&mod, ptx));
	CHECK(cu.cuModuleGetFunction(&step, mod, "step"));
	CHECK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static CUgraphNode add(CUgraph g, CUdeviceptr where, uint32_t by, const CUgraphNode *deps,
		       size_t n_deps)
{
	void *params[] = {&where, &by};
	const CUDA_KERNEL_NODE_PARAMS k = {.func = step,
					   .gridDimX = 1,
					   .gridDimY = 1,
					   .gridDimZ = 1,
					   .blockDimX = 32,
					   .blockDimY = 1,
					   .blockDimZ = 1,
					   .kernelParams = params};
	CUgraphNode node;

	CHECK(cu.cuGraphAddKernelNode(&node, g, deps, n_deps, &k));
	return node;
}

/* n kernels; wide: all but the first and the last side by side. */
static CUgraph build(unsigned n, bool wide, uint32_t by, CUgraphNode *ret_last)
{
	CUgraphNode *nodes = calloc(n, sizeof(CUgraphNode));
	CUgraph g;

	CHECK(cu.cuGraphCreate(&g, 0));
	for (unsigned i = 0; i < n; i++) {
		if (!wide)
			nodes[i] = add(g, mem, by, &nodes[i ? i - 1 : 0], i ? 1 : 0);
		else if (i == 0 || i == n - 1)
			nodes[i] = add(g, mem, by, nodes + 1, i ? n - 2 : 0);
		else
			nodes[i] = add(g, mem + 128 * i, by, nodes, 1);
	}
	*ret_last = nodes[n - 1];
	free(nodes);
	return g;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double median_us(uint64_t *ns)
{
	qsort(ns, ROUNDS, sizeof(*ns), by_value);
	return (double)ns[ROUNDS / 2] / 1e3;
}

struct times {
	uint64_t make[ROUNDS], launch[ROUNDS], replay[ROUNDS], one[ROUNDS];
	uint64_t update[ROUNDS], set[ROUNDS];
};

static void set_last(CUgraphExec exec, CUgraphNode last, uint32_t by)
{
	void *params[] = {&mem, &by};
	const CUDA_KERNEL_NODE_PARAMS k = {.func = step,
					   .gridDimX = 1,
					   .gridDimY = 1,
					   .gridDimZ = 1,
					   .blockDimX = 32,
					   .blockDimY = 1,
					   .blockDimZ = 1,
					   .kernelParams = params};

	CHECK(cu.cuGraphExecKernelNodeSetParams(exec, last, &k));
}

static void launches(CUgraphExec exec, struct times *t, unsigned i)
{
	uint64_t at = clock_now_ns(), queued;

	for (unsigned k = 0; k < LAUNCHES; k++)
		CHECK(cu.cuGraphLaunch(exec, stream));
	queued = clock_now_ns();
	CHECK(cu.cuStreamSynchronize(stream));
	t->launch[i] = (queued - at) / LAUNCHES;
	t->replay[i] = (clock_now_ns() - at) / LAUNCHES;
	at = clock_now_ns();
	CHECK(cu.cuGraphLaunch(exec, stream));
	CHECK(cu.cuStreamSynchronize(stream));
	t->one[i] = clock_now_ns() - at;
}

static void measure(unsigned n, bool wide)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphNode last, other_last;
	CUgraph g = build(n, wide, 1, &last), other = build(n, wide, 2, &other_last);
	CUgraphExec exec;
	struct times t;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t at = clock_now_ns();

		CHECK(cu.cuGraphInstantiateWithFlags(&exec, g, 0));
		t.make[i] = clock_now_ns() - at;
		CHECK(cu.cuGraphLaunch(exec, stream));
		CHECK(cu.cuStreamSynchronize(stream));
		launches(exec, &t, i);
		at = clock_now_ns();
		CHECK(cu.cuGraphExecUpdate(exec, i & 1 ? g : other, &info));
		t.update[i] = clock_now_ns() - at;
		at = clock_now_ns();
		set_last(exec, last, 3);
		t.set[i] = clock_now_ns() - at;
		CHECK(cu.cuGraphLaunch(exec, stream));
		CHECK(cu.cuStreamSynchronize(stream));
		CHECK(cu.cuGraphExecDestroy(exec));
	}
	printf("%-6s %6u %12.1f %12.2f %12.2f %12.1f %12.1f %12.2f\n",
	       wide ? "wide" : "chain", n, median_us(t.make), median_us(t.launch),
	       median_us(t.replay), median_us(t.one), median_us(t.update),
	       median_us(t.set));
	CHECK(cu.cuGraphDestroy(g));
	CHECK(cu.cuGraphDestroy(other));
}

int main(int argc, char **argv)
{
	static const unsigned sizes[] = {10, 100, 1000};

	start();
	printf("us, medians of %d; replay: of %d launches in a row; one: with its wait\n",
	       ROUNDS, LAUNCHES);
	printf("%-6s %6s %12s %12s %12s %12s %12s %12s\n", "shape", "nodes",
	       "instantiate", "launch", "replay", "one", "update", "set params");
	for (int i = 0; i < (argc > 1 ? argc - 1 : (int)ARRAY_SIZE(sizes)); i++) {
		unsigned n = argc > 1 ? (unsigned)atoi(argv[i + 1]) : sizes[i];

		measure(n < 3 ? 3 : n, false);
		measure(n < 3 ? 3 : n, true);
	}
	return 0;
}
