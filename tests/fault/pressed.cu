/* SPDX-License-Identifier: Apache-2.0 */
/*
 *	pressed WHAT
 *
 * Uses device memory in one way (graph, grid, long, vmm, host, copies or unified) until
 *its standard input ends, while somebody else moves it about. Every word is known, and
 *all of them are looked at again and again.
 */
#include <cooperative_groups.h>
#include <cuda.h>
#include <poll.h>

#include "../path/check.h"

namespace cg = cooperative_groups;

#define DCK(call) REQUIRE((call) == CUDA_SUCCESS)

static const unsigned BLOCKS = 8, THREADS = 128;
static const unsigned WORDS = 3u << 18; /* 3 MiB */

#define EACH(i, n)                                                                       \
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                              \
	i < n;                                                                           \
	i += gridDim.x * blockDim.x

static unsigned *wrong; /* pinned */

static bool enough()
{
	struct pollfd in = {0, POLLIN, 0};

	return poll(&in, 1, 0) > 0;
}

/* ---- words that are linear in their index ---- */

struct line {
	unsigned a, b, shift;
};

__global__ void fill(unsigned *p, unsigned n, line l)
{
	for (EACH(i, n))
		p[i] = l.a * ((i + l.shift) % n) + l.b;
}

__global__ void check(const unsigned *p, unsigned n, line l, unsigned *wrong)
{
	for (EACH(i, n))
		if (p[i] != l.a * ((i + l.shift) % n) + l.b)
			atomicAdd(wrong, 1);
}

__global__ void change(unsigned *p, unsigned n, unsigned by)
{
	for (EACH(i, n))
		p[i] = p[i] * 5 + by;
}

__global__ void add(unsigned *p, const unsigned *q, unsigned n)
{
	for (EACH(i, n))
		p[i] += q[i];
}

static unsigned *words(unsigned n, line l)
{
	unsigned *p;

	CK(cudaMalloc(&p, 4 * (size_t)n));
	fill<<<BLOCKS, THREADS>>>(p, n, l);
	return p;
}

static void are(const unsigned *p, unsigned n, line l)
{
	*wrong = 0;
	check<<<BLOCKS, THREADS>>>(p, n, l, wrong);
	CK(cudaDeviceSynchronize());
	if (*wrong)
		fail("%u words of %p are wrong", *wrong, p);
}

/* ---- a graph: kernels, a copy and a fill, replayed ---- */

static cudaGraphExec_t capture(cudaStream_t st, unsigned *a, unsigned *b, unsigned *c,
			       unsigned *d)
{
	cudaGraphExec_t exec;
	cudaGraph_t g;

	CK(cudaStreamBeginCapture(st, cudaStreamCaptureModeThreadLocal));
	change<<<BLOCKS, THREADS, 0, st>>>(a, WORDS, 3);
	CK(cudaMemcpyAsync(b, a, 4 * WORDS, cudaMemcpyDeviceToDevice, st));
	CK(cudaMemsetAsync(d, 0x5a, 4 * WORDS, st));
	add<<<BLOCKS, THREADS, 0, st>>>(c, b, WORDS);
	add<<<BLOCKS, THREADS, 0, st>>>(d, c, WORDS);
	CK(cudaStreamEndCapture(st, &g));
	CK(cudaGraphInstantiate(&exec, g, 0));
	CK(cudaGraphDestroy(g));
	return exec;
}

static void graph()
{
	line la = {1, 0, 0}, lc = {7, 1, 0}, ld;
	unsigned *a = words(WORDS, la), *b = words(WORDS, la), *c = words(WORDS, lc);
	unsigned *d = words(WORDS, la);
	cudaGraphExec_t exec;
	cudaStream_t st;

	CK(cudaDeviceSynchronize());
	CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
	exec = capture(st, a, b, c, d);
	while (!enough()) {
		for (unsigned i = 0; i < 3; i++) {
			CK(cudaGraphLaunch(exec, st));
			la = {la.a * 5, la.b * 5 + 3, 0};
			lc = {lc.a + la.a, lc.b + la.b, 0};
		}
		CK(cudaStreamSynchronize(st));
		ld = {lc.a, lc.b + 0x5a5a5a5a, 0};
		are(a, WORDS, la);
		are(b, WORDS, la);
		are(c, WORDS, lc);
		are(d, WORDS, ld);
	}
}

/* ---- all blocks at once, which wait for one another ---- */

__global__ void around(unsigned *p, unsigned *q, unsigned n, unsigned rounds)
{
	for (unsigned r = 0; r < rounds; r++) {
		for (EACH(i, n))
			q[i] = p[(i + 4099) % n] * 5 + 1;
		cg::this_grid().sync();
		unsigned *was = p;
		p = q;
		q = was;
	}
}

static void grid()
{
	line l = {3, 2, 0};
	unsigned *p = words(WORDS, l), *q = words(WORDS, l);
	unsigned n = WORDS, rounds = 4;
	void *args[] = {&p, &q, &n, &rounds};

	while (!enough()) {
		CK(cudaLaunchCooperativeKernel((const void *)around, BLOCKS, THREADS,
					       args, 0, NULL));
		for (unsigned r = 0; r < rounds; r++)
			l = {l.a * 5, l.b * 5 + 1, (l.shift + 4099) % n};
		are(p, n, l);
	}
}

/* ---- kernels that are in flight for a second ---- */

__device__ static unsigned long long now()
{
	unsigned long long t;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

/* Each thread counts, all over the buffer, how often it did. */
__global__ void count_on(unsigned *p, unsigned *count, unsigned n,
			 unsigned long long ns)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
	unsigned long long until = now() + ns;
	unsigned k = 0;

	while (now() < until)
		p[i + k++ % (n / all) * all]++;
	count[i] += k;
}

__global__ void add_up(const unsigned *p, const unsigned *count, unsigned n,
		       unsigned *wrong)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
	unsigned sum = 0;

	for (unsigned k = i; k < n; k += all)
		sum += p[k];
	if (sum != count[i] || !sum)
		atomicAdd(wrong, 1);
}

static void long_kernels()
{
	const line zero = {0, 0, 0};
	unsigned *p = words(WORDS, zero), *count = words(BLOCKS * THREADS, zero);
	line l = {1, 1, 0};
	unsigned *q = words(WORDS, l);

	while (!enough()) {
		count_on<<<BLOCKS, THREADS>>>(p, count, WORDS, 1000000000);
		*wrong = 0;
		add_up<<<BLOCKS, THREADS>>>(p, count, WORDS, wrong);
		CK(cudaDeviceSynchronize());
		REQUIRE(*wrong == 0);
		are(q, WORDS, l);
	}
}

/* ---- the program's own mappings ---- */

static const unsigned PIECES = 4;
static const size_t PIECE = 4u << 20;

static struct {
	CUmemGenericAllocationHandle h;
	unsigned at; /* place in the range */
	line l;
} pieces[PIECES];
static CUdeviceptr range;

static CUdeviceptr place(unsigned at)
{
	return range + at * PIECE;
}

static void map(unsigned at, CUmemGenericAllocationHandle h, CUmemAccess_flags flags)
{
	CUmemAccessDesc d = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};

	DCK(cuMemMap(place(at), PIECE, 0, h, 0));
	DCK(cuMemSetAccess(place(at), PIECE, &d, 1));
}

static void make(unsigned k, unsigned seed)
{
	CUmemAllocationProp prop = {};

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	DCK(cuMemCreate(&pieces[k].h, PIECE, &prop, 0));
	pieces[k].l = {seed | 1, seed, 0};
	map(pieces[k].at, pieces[k].h, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	fill<<<BLOCKS, THREADS>>>((unsigned *)place(pieces[k].at), PIECE / 4,
				  pieces[k].l);
}

static void drop(unsigned k)
{
	CK(cudaDeviceSynchronize());
	DCK(cuMemUnmap(place(pieces[k].at), PIECE));
}

static void holds(unsigned k, unsigned at)
{
	are((const unsigned *)place(at), PIECE / 4, pieces[k].l);
}

static void vmm_step(unsigned k, unsigned what, unsigned *free_place)
{
	unsigned at = pieces[k].at;

	switch (what) {
	case 0: /* elsewhere, after a time in which it is nowhere */
		drop(k);
		map(*free_place, pieces[k].h, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
		pieces[k].at = *free_place;
		*free_place = at;
		break;
	case 1: /* at two places, of which one may not be written */
		map(*free_place, pieces[k].h, CU_MEM_ACCESS_FLAGS_PROT_READ);
		holds(k, *free_place);
		DCK(cuMemUnmap(place(*free_place), PIECE));
		break;
	case 2: /* without a handle, which is asked for again */
		DCK(cuMemRelease(pieces[k].h));
		holds(k, at);
		DCK(cuMemRetainAllocationHandle(&pieces[k].h, (void *)place(at)));
		break;
	case 3: /* new memory at the same place */
		drop(k);
		DCK(cuMemRelease(pieces[k].h));
		make(k, rand());
		break;
	default:
		change<<<BLOCKS, THREADS>>>((unsigned *)place(at), PIECE / 4, 9);
		pieces[k].l = {pieces[k].l.a * 5, pieces[k].l.b * 5 + 9, 0};
	}
}

static void vmm()
{
	unsigned free_place = PIECES;

	DCK(cuMemAddressReserve(&range, (PIECES + 1) * PIECE, 0, 0, 0));
	for (unsigned k = 0; k < PIECES; k++) {
		pieces[k].at = k;
		make(k, k);
	}
	while (!enough()) {
		unsigned k = rand() % PIECES;

		vmm_step(k, rand() % 6, &free_place);
		for (k = 0; k < PIECES; k++)
			holds(k, pieces[k].at);
	}
}

/* ---- host memory that the device reads and writes ---- */

__global__ void exchange(unsigned *p, unsigned *h, unsigned n)
{
	for (EACH(i, n)) {
		unsigned was = p[i];

		p[i] = h[i];
		h[i] = was + 1;
	}
}

static void host()
{
	unsigned *p = words(WORDS, {1, 5, 0}), *h, *dev, n = WORDS;
	std::vector<unsigned> other(n);
	unsigned base = 5, hb = 77;

	CK(cudaHostAlloc(&h, 4 * (size_t)n, cudaHostAllocMapped));
	CK(cudaHostGetDevicePointer(&dev, h, 0));
	for (unsigned i = 0; i < n; i++)
		h[i] = i + hb;
	while (!enough()) {
		unsigned was = base;

		exchange<<<BLOCKS, THREADS>>>(p, dev, n);
		CK(cudaDeviceSynchronize());
		base = hb;
		hb = was + 1;
		for (unsigned i = 0; i < n; i++)
			REQUIRE(h[i] == i + hb);
		are(p, n, {1, base, 0});
		CK(cudaMemcpy(other.data(), p, 4 * (size_t)n, cudaMemcpyDefault));
		for (unsigned i = 0; i < n; i++)
			REQUIRE(other[i] == i + base);
		CK(cudaMemcpyAsync(p, h, 4 * (size_t)n, cudaMemcpyDefault));
		base = hb;
		are(p, n, {1, base, 0});
	}
}

/* ---- copies between pieces ---- */

static void copies()
{
	const size_t size = 4 * (size_t)WORDS, pitch = 12288, rows = size / pitch;
	std::vector<unsigned char> model[2], got(size);
	unsigned char *p[2];

	for (unsigned k = 0; k < 2; k++) {
		CK(cudaMalloc(&p[k], size));
		model[k].resize(size);
		for (size_t i = 0; i < size; i++)
			model[k][i] = (unsigned char)(i * 7 + i / 4096 + k);
		CK(cudaMemcpy(p[k], model[k].data(), size, cudaMemcpyHostToDevice));
	}
	while (!enough()) {
		for (unsigned n = 0; n < 20; n++) {
			unsigned to = rand() % 2;
			size_t bytes = 1 + rand() % (2u << 20),
			       at = rand() % (size - bytes);
			size_t from = rand() % (size - bytes), width = 1 + rand() % pitch;
			size_t high = 1 + rand() % rows;

			CK(cudaMemcpyAsync(p[to] + at, p[!to] + from, bytes,
					   cudaMemcpyDeviceToDevice));
			memcpy(&model[to][at], &model[!to][from], bytes);
			CK(cudaMemcpy2DAsync(p[!to], pitch, p[to], pitch, width, high,
					     cudaMemcpyDefault));
			for (size_t y = 0; y < high; y++)
				memcpy(&model[!to][y * pitch], &model[to][y * pitch],
				       width);
		}
		for (unsigned k = 0; k < 2; k++) {
			CK(cudaMemcpy(got.data(), p[k], size, cudaMemcpyDeviceToHost));
			REQUIRE(!memcmp(got.data(), model[k].data(), size));
		}
	}
}

/* ---- one address space: what an address says of itself, wherever its memory is ---- */

static void says(unsigned *p, size_t at, size_t bytes)
{
	cudaPointerAttributes a;
	CUdeviceptr base = 0;
	unsigned type = 0;
	size_t size = 0;
	int managed = -1;

	CK(cudaPointerGetAttributes(&a, (char *)p + at));
	REQUIRE(a.type == cudaMemoryTypeDevice && a.device == 0);
	REQUIRE(a.devicePointer == (char *)p + at && !a.hostPointer);
	DCK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				  (CUdeviceptr)p + at));
	REQUIRE(type == CU_MEMORYTYPE_DEVICE);
	DCK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
				  (CUdeviceptr)p + at));
	REQUIRE(managed == 0);
	DCK(cuMemGetAddressRange(&base, &size, (CUdeviceptr)p + at));
	REQUIRE(base == (CUdeviceptr)p && size == bytes);
}

static void unified()
{
	line l = {9, 4, 0};
	unsigned *p = words(WORDS, l), *q = words(WORDS, {0, 0, 0}), *pool, *h;
	const size_t bytes = 4 * (size_t)WORDS;
	int can = -1;

	CK(cudaDeviceCanAccessPeer(&can, 0, 0));
	REQUIRE(can == 0);
	REQUIRE(cudaDeviceEnablePeerAccess(0, 0) != cudaSuccess);
	REQUIRE(cudaGetLastError() != cudaSuccess);
	CK(cudaMallocAsync(&pool, bytes, NULL));
	CK(cudaMallocHost(&h, bytes));
	while (!enough()) {
		for (size_t at = 0; at < bytes; at += (1u << 20) + 4) {
			says(p, at, bytes);
			says(pool, at, bytes);
		}
		CK(cudaMemcpy(pool, p, bytes, cudaMemcpyDefault));
		CK(cudaMemcpy(h, pool, bytes, cudaMemcpyDefault));
		CK(cudaMemcpy(q, h, bytes, cudaMemcpyDefault));
		are(q, WORDS, l);
		change<<<BLOCKS, THREADS>>>(q, WORDS, 1);
		l = {l.a * 5, l.b * 5 + 1, 0};
		CK(cudaMemcpyPeer(p, 0, q, 0, bytes));
		are(p, WORDS, l);
	}
}

static const struct {
	const char *name;
	void (*run)();
} parts[] = {
	{"graph", graph}, {"grid", grid},     {"long", long_kernels}, {"vmm", vmm},
	{"host", host},   {"copies", copies}, {"unified", unified},
};

int main(int argc, char **argv)
{
	check_name = argc > 1 ? argv[1] : "pressed";
	CK(cudaMallocHost(&wrong, sizeof(*wrong)));
	for (const auto &p : parts) {
		if (strcmp(p.name, check_name))
			continue;
		p.run();
		return pass();
	}
	fail("no such part");
}
