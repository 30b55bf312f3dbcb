/* SPDX-License-Identifier: Apache-2.0 */
/*
 *	mixed SECONDS MIB [SEED [STEPS [managed]]]
 *
 * Allocates, fills, changes, copies, checks and frees buffers at random, some of them
 * managed if that is said, up to so much memory together, until the time is over, so many
 * steps are done, or SIGTERM comes. Every word is known: it is a hash of the buffer's seed
 * and its index, times a, plus b, and whatever changes a buffer changes a and b. Prints
 * "running" after the first steps; at the end "right N refused M", where M allocations
 * failed for want of memory. Exit status 1: another error, named; 2: a wrong result.
 */
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda.h>
#include <cuda_runtime.h>

__host__ __device__ static unsigned hashed(unsigned seed, unsigned i)
{
	unsigned x = i * 0x9e3779b1u ^ seed;

	x = (x ^ x >> 16) * 0x85ebca6bu;
	return x ^ x >> 13;
}

struct words {
	unsigned *p;
	unsigned n, seed, a, b;
};

__global__ void fill(words w)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < w.n;
	     i += gridDim.x * blockDim.x)
		w.p[i] = hashed(w.seed, i) * w.a + w.b;
}

__global__ void change(unsigned *p, unsigned n, unsigned a, unsigned b)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += gridDim.x * blockDim.x)
		p[i] = p[i] * a + b;
}

/* Changes a buffer whose address is in memory, not among the arguments. */
__global__ void change_nth(unsigned *const *table, unsigned k, unsigned n, unsigned a,
			   unsigned b)
{
	unsigned *p = table[k];

	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += gridDim.x * blockDim.x)
		p[i] = p[i] * a + b;
}

__global__ void check(words w, unsigned *wrong)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < w.n;
	     i += gridDim.x * blockDim.x)
		if (w.p[i] != hashed(w.seed, i) * w.a + w.b)
			atomicAdd(wrong, 1);
}

#define CK(x)                                                                            \
	do {                                                                             \
		cudaError_t ck_ = (x);                                                   \
		if (ck_) {                                                               \
			printf("line %d: %s\n", __LINE__, cudaGetErrorName(ck_));        \
			exit(ck_ == cudaErrorMemoryAllocation ? 3 : 1);                  \
		}                                                                        \
	} while (0)
#define CU(x)                                                                            \
	do {                                                                             \
		CUresult ck_ = (x);                                                      \
		if (ck_) {                                                               \
			printf("line %d: error %d\n", __LINE__, (int)ck_);               \
			exit(ck_ == CUDA_ERROR_OUT_OF_MEMORY ? 3 : 1);                   \
		}                                                                        \
	} while (0)

enum how {
	MALLOC,
	ASYNC,
	VIRTUAL,
	MANAGED,
};

struct buffer : words {
	how kind;
	size_t room; /* of a virtual one */
	CUmemGenericAllocationHandle handle;
};

static const unsigned BLOCKS = 8, THREADS = 256, TABLE = 64;

static unsigned long long state;
static std::vector<buffer> buffers;
static size_t in_use, budget, refused;
static unsigned hows = MANAGED;
static unsigned *wrong, **table;
static cudaStream_t stream;

static unsigned below(unsigned n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(state >> 33) % n;
}

/* Bytes of the device that a buffer takes, about: small ones share 2 MiB. */
static size_t cost(const buffer &b)
{
	size_t bytes = b.n * 4, piece = 2 << 20;

	return b.kind != VIRTUAL && bytes < piece / 2
		       ? bytes
		       : (bytes + piece - 1) / piece * piece;
}

static bool virtual_new(buffer *b)
{
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access = {};
	size_t grain;
	CUresult r;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CU(cuMemGetAllocationGranularity(&grain, &prop,
					 CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	b->room = (b->n * 4 + grain - 1) / grain * grain;
	r = cuMemCreate(&b->handle, b->room, &prop, 0);
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		return false;
	CU(r);
	CU(cuMemAddressReserve((CUdeviceptr *)&b->p, b->room, 0, 0, 0));
	CU(cuMemMap((CUdeviceptr)b->p, b->room, 0, b->handle, 0));
	CU(cuMemSetAccess((CUdeviceptr)b->p, b->room, &access, 1));
	return true;
}

static bool memory_new(buffer *b)
{
	cudaError_t e;

	if (b->kind == VIRTUAL)
		return virtual_new(b);
	if (b->kind == MANAGED)
		e = cudaMallocManaged(&b->p, b->n * 4);
	else if (b->kind == ASYNC)
		e = cudaMallocAsync(&b->p, b->n * 4, stream);
	else
		e = cudaMalloc(&b->p, b->n * 4);
	if (e == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		return false;
	}
	CK(e);
	return true;
}

static void memory_free(buffer *b)
{
	switch (b->kind) {
	case MALLOC:
	case MANAGED:
		CK(cudaFree(b->p));
		break;
	case ASYNC:
		CK(cudaFreeAsync(b->p, stream));
		break;
	default:
		CK(cudaStreamSynchronize(stream));
		CU(cuMemUnmap((CUdeviceptr)b->p, b->room));
		CU(cuMemAddressFree((CUdeviceptr)b->p, b->room));
		CU(cuMemRelease(b->handle));
	}
}

/* From a few words up to a quarter of the budget, as many small as large ones. */
static bool buffer_new(buffer *b)
{
	unsigned bits = 8;

	while (budget >> (bits + 3))
		bits++;
	*b = {};
	b->n = 1 + below(1u << (4 + below(bits - 5)));
	b->kind = (how)below(hows);
	b->seed = below(~0u >> 1);
	b->a = 1;
	if (in_use + cost(*b) > budget || buffers.size() == TABLE)
		return false;
	if (!memory_new(b)) {
		refused++;
		return false;
	}
	in_use += cost(*b);
	return true;
}

static void enter(const buffer &b)
{
	CK(cudaMemcpyAsync(table + buffers.size(), &b.p, sizeof(b.p),
			   cudaMemcpyHostToDevice, stream));
	buffers.push_back(b);
}

static void add(void)
{
	buffer b;

	if (!buffer_new(&b))
		return;
	fill<<<BLOCKS, THREADS, 0, stream>>>(b);
	enter(b);
}

static void add_copy(void)
{
	unsigned k = below(buffers.size());
	const buffer from = buffers[k];
	buffer b = from;

	b.kind = MALLOC;
	if (in_use + cost(b) > budget || buffers.size() == TABLE)
		return;
	if (!memory_new(&b)) {
		refused++;
		return;
	}
	in_use += cost(b);
	CK(cudaMemcpyAsync(b.p, from.p, b.n * 4, cudaMemcpyDeviceToDevice, stream));
	enter(b);
}

static void drop(unsigned k)
{
	memory_free(&buffers[k]);
	in_use -= cost(buffers[k]);
	buffers[k] = buffers.back();
	CK(cudaMemcpyAsync(table + k, &buffers[k].p, sizeof(buffers[k].p),
			   cudaMemcpyHostToDevice, stream));
	buffers.pop_back();
}

static void changed(buffer *b, unsigned times, unsigned mul, unsigned plus)
{
	while (times--) {
		b->b = b->b * mul + plus;
		b->a *= mul;
	}
}

static void launch(buffer *b)
{
	unsigned mul = below(1000) | 1, plus = below(1000), times = 1 + below(3);

	for (unsigned i = 0; i < times; i++)
		change<<<BLOCKS, THREADS, 0, stream>>>(b->p, b->n, mul, plus);
	changed(b, times, mul, plus);
}

static void launch_nth(unsigned k)
{
	unsigned mul = below(1000) | 1, plus = below(1000);

	change_nth<<<BLOCKS, THREADS, 0, stream>>>(table, k, buffers[k].n, mul, plus);
	changed(&buffers[k], 1, mul, plus);
}

/* Has the graph's kernel change another buffer. */
static void redirect(cudaGraphExec_t exec, cudaGraph_t graph, buffer *b, unsigned mul,
		     unsigned plus)
{
	void *args[] = {&b->p, &b->n, &mul, &plus};
	cudaKernelNodeParams p = {};
	cudaGraphNode_t node;
	size_t n = 1;

	CK(cudaGraphGetNodes(graph, &node, &n));
	p.func = (void *)change;
	p.gridDim = dim3(BLOCKS);
	p.blockDim = dim3(THREADS);
	p.kernelParams = args;
	CK(cudaGraphExecKernelNodeSetParams(exec, node, &p));
}

static void replay(buffer *b)
{
	buffer *other = &buffers[below(buffers.size())];
	unsigned mul = below(1000) | 1, plus = below(1000), times = 1 + below(3);
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	change<<<BLOCKS, THREADS, 0, stream>>>(b->p, b->n, mul, plus);
	CK(cudaStreamEndCapture(stream, &graph));
	CK(cudaGraphInstantiate(&exec, graph, 0));
	for (unsigned i = 0; i < times; i++)
		CK(cudaGraphLaunch(exec, stream));
	changed(b, times, mul, plus);
	redirect(exec, graph, other, mul, plus);
	CK(cudaGraphLaunch(exec, stream));
	changed(other, 1, mul, plus);
	CK(cudaStreamSynchronize(stream));
	CK(cudaGraphExecDestroy(exec));
	CK(cudaGraphDestroy(graph));
}

static void overwrite(buffer *b)
{
	unsigned byte = below(256);

	CK(cudaMemsetAsync(b->p, byte, b->n * 4, stream));
	b->a = 0;
	b->b = byte * 0x01010101u;
}

static void send(buffer *b)
{
	std::vector<unsigned> v(b->n);

	b->seed = below(~0u >> 1);
	b->a = 1;
	b->b = 0;
	for (unsigned i = 0; i < b->n; i++)
		v[i] = hashed(b->seed, i);
	CK(cudaMemcpyAsync(b->p, v.data(), b->n * 4, cudaMemcpyHostToDevice, stream));
	CK(cudaStreamSynchronize(stream));
}

static void fail(const buffer &b, unsigned n, unsigned i, unsigned got)
{
	printf("%u of %u words at %p of kind %d are wrong, the first at %u: 0x%x\n", n,
	       b.n, b.p, b.kind, i, got);
	exit(2);
}

static void look(const buffer &b)
{
	unsigned i, n = 1 + below(b.n < 20000 ? b.n : 20000), from = below(b.n - n + 1);
	std::vector<unsigned> v(n);

	CK(cudaStreamSynchronize(stream));
	CK(cudaMemcpy(v.data(), b.p + from, n * 4, cudaMemcpyDeviceToHost));
	for (i = 0; i < n; i++)
		if (v[i] != hashed(b.seed, from + i) * b.a + b.b)
			fail(b, n, from + i, v[i]);
}

/* The program reads a few words of it, and writes one. */
static void touch(const buffer &b)
{
	volatile unsigned *p = b.p;
	unsigned writes = below(8), i;

	CK(cudaStreamSynchronize(stream));
	for (unsigned k = 0; k < 4; k++) {
		i = below(b.n);
		unsigned must = hashed(b.seed, i) * b.a + b.b;

		if (p[i] != must)
			fail(b, 1, i, p[i]);
		if (k == writes) {
			p[i] = ~must;
			p[i] = must;
		}
	}
}

/* The kernel found n wrong: what the program finds. */
static void tell(const buffer &b, unsigned n)
{
	std::vector<unsigned> v(b.n);
	unsigned from = b.n, to = 0, count = 0;

	CK(cudaMemcpy(v.data(), b.p, b.n * 4, cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < b.n; i++) {
		if (v[i] == hashed(b.seed, i) * b.a + b.b)
			continue;
		from = from < i ? from : i;
		to = i;
		count++;
	}
	printf("a kernel found %u wrong; %u are, from %u to %u\n", n, count, from, to);
	fail(b, count, from, from < b.n ? v[from] : 0);
}

static void look_all(const buffer &b)
{
	unsigned n;

	check<<<BLOCKS, THREADS, 0, stream>>>(b, wrong);
	CK(cudaMemcpyAsync(&n, wrong, 4, cudaMemcpyDeviceToHost, stream));
	CK(cudaStreamSynchronize(stream));
	if (n)
		tell(b, n);
}

static void step(void)
{
	unsigned what = below(20), k;

	if (buffers.empty() || what < 5)
		return add();
	k = below(buffers.size());
	switch (what) {
	case 5:
		return add_copy();
	case 6:
	case 7:
	case 8:
	case 9:
		return drop(k);
	case 10:
		return overwrite(&buffers[k]);
	case 11:
		return send(&buffers[k]);
	case 12:
		return replay(&buffers[k]);
	case 13:
		return launch_nth(k);
	case 14:
		return buffers[k].kind == MANAGED ? touch(buffers[k]) : look(buffers[k]);
	case 15:
		return look_all(buffers[k]);
	default:
		return launch(&buffers[k]);
	}
}

static volatile sig_atomic_t stopped;

static void on_signal(int)
{
	stopped = 1;
}

int main(int argc, char **argv)
{
	auto start = std::chrono::steady_clock::now();
	unsigned long steps = 0, most;
	double seconds;

	if (argc < 3)
		return 1;
	signal(SIGTERM, on_signal);
	seconds = atof(argv[1]);
	budget = strtoull(argv[2], nullptr, 0) << 20;
	state = argc > 3 ? strtoull(argv[3], nullptr, 0) : 1;
	most = argc > 4 ? strtoul(argv[4], nullptr, 0) : ~0ul;
	hows += argc > 5;
	CK(cudaStreamCreate(&stream));
	CK(cudaMalloc(&table, TABLE * sizeof(*table)));
	CK(cudaMalloc(&wrong, 4));
	CK(cudaMemset(wrong, 0, 4));
	while (steps < most && !stopped &&
	       std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
			       .count() < seconds) {
		step();
		if (++steps == 20) {
			printf("running\n");
			fflush(stdout);
		}
	}
	for (const buffer &b : buffers)
		look_all(b);
	while (!buffers.empty())
		drop(buffers.size() - 1);
	CK(cudaDeviceSynchronize());
	printf("right %lu refused %zu\n", steps, refused);
	return 0;
}
