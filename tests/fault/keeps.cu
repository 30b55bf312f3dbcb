/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps device memory and does with it as it is told, a line each, and answers each with
 * the CUDA error and a number:
 *	a SLOT BYTES	allocate, fill		f SLOT		free
 *	l SLOT TIMES	launches that change it	c SLOT		how many words are wrong
 *	v SLOT TIMES	as l, by an address that lies in memory
 *	w SLOT ROUNDS	a kernel that works for so long; not waited for
 *	x SLOT ROUNDS	one that then writes where nothing is; not waited for
 *	p SLOT EIGHTH	a kernel that is given all of it, and works with that part
 *	g SLOT EIGHTH	likewise, by a graph
 *	s		wait for all
 *	h		a host function that does not end: kernels cannot stand still
 *	e SLOT		gives it to other processes; the handle follows
 *	o SLOT BYTES HANDLE	opens what another has so given	q SLOT	closes it
 *	t SECONDS BYTES	allocate and free as fast as it goes: how often; the error is the
 *			first other than out of memory
 */
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>
#include <unistd.h>

static const unsigned SLOTS = 64, BLOCKS = 16, THREADS = 128;

static struct slot {
	unsigned *p, n, a, b;
} slots[SLOTS];

static unsigned *in_host; /* so that there is always room for it */

#define EACH(i, n)                                                                       \
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                              \
	i < n;                                                                           \
	i += gridDim.x * blockDim.x

__global__ void fill(unsigned *p, unsigned n)
{
	for (EACH(i, n))
		p[i] = i;
}

__global__ void change(unsigned *p, unsigned n, unsigned a, unsigned b)
{
	for (EACH(i, n))
		p[i] = p[i] * a + b;
}

__global__ void change_behind(unsigned *const *p, unsigned n, unsigned a, unsigned b)
{
	for (EACH(i, n))
		(*p)[i] = (*p)[i] * a + b;
}

__global__ void check(slot s, unsigned *wrong)
{
	for (EACH(i, s.n))
		if (s.p[i] != i * s.a + s.b)
			atomicAdd(wrong, 1);
}

/* Changes nothing in the end. */
__global__ void work(volatile unsigned *p, unsigned n, unsigned rounds)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	for (unsigned k = 0; k < rounds; k++)
		p[(i + k * 977) % n] ^= 0;
}

__global__ void work_in_part(volatile unsigned *p, unsigned from, unsigned n)
{
	for (EACH(i, n))
		p[from + i] ^= 0;
}

__global__ void work_then_fault(volatile unsigned *p, unsigned n, unsigned rounds)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	for (unsigned k = 0; k < rounds; k++)
		p[(i + k * 977) % n] ^= 0;
	*(volatile unsigned *)((size_t)p + (1ull << 40)) = i;
}

static cudaError_t count_wrong(const slot &s, unsigned *ret_n)
{
	cudaError_t e;

	*in_host = 0;
	check<<<BLOCKS, THREADS>>>(s, in_host);
	e = cudaDeviceSynchronize();
	*ret_n = *in_host;
	return e;
}

static cudaError_t allocate(slot *s, unsigned long long bytes)
{
	cudaError_t e = cudaMalloc(&s->p, bytes);

	if (e) {
		cudaGetLastError(); /* not sticky */
		return e;
	}
	s->n = bytes / 4;
	s->a = 1;
	s->b = 0;
	fill<<<BLOCKS, THREADS>>>(s->p, s->n);
	return cudaGetLastError();
}

/* behind: where its address lies, and all that the kernel is told of it; NULL: nowhere. */
static cudaError_t launch(slot *s, unsigned times, unsigned **behind = NULL)
{
	for (unsigned i = 0; i < times; i++) {
		if (behind)
			change_behind<<<BLOCKS, THREADS>>>(behind, s->n, 5, i);
		else
			change<<<BLOCKS, THREADS>>>(s->p, s->n, 5, i);
		s->a *= 5;
		s->b = s->b * 5 + i;
	}
	return cudaGetLastError();
}

static cudaError_t launch_behind(slot *s, unsigned times)
{
	static unsigned **behind;
	cudaError_t e = behind ? cudaSuccess : cudaMalloc(&behind, sizeof(*behind));

	if (e == cudaSuccess)
		e = cudaMemcpy(behind, &s->p, sizeof(*behind), cudaMemcpyHostToDevice);
	return e ? e : launch(s, times, behind);
}

static cudaError_t churn(unsigned seconds, unsigned long long bytes, unsigned *ret_n)
{
	auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);

	while (std::chrono::steady_clock::now() < end) {
		void *p;
		cudaError_t e = cudaMalloc(&p, bytes);

		if (e == cudaErrorMemoryAllocation) {
			cudaGetLastError();
			continue;
		}
		if (e == cudaSuccess)
			e = cudaFree(p);
		if (e)
			return e;
		++*ret_n;
	}
	return cudaSuccess;
}

static void CUDART_CB waits(void *)
{
	for (;;)
		pause();
}

static cudaError_t wait_beside(void)
{
	cudaStream_t st;
	cudaError_t e = cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking);

	return e ? e : cudaLaunchHostFunc(st, waits, NULL);
}

static cudaError_t work_by_graph(const slot *s, unsigned eighth)
{
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaError_t e = cudaStreamCreate(&stream);

	if (e)
		return e;
	e = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
	work_in_part<<<BLOCKS, THREADS, 0, stream>>>(s->p, s->n / 8 * eighth, s->n / 8);
	if (e == cudaSuccess)
		e = cudaStreamEndCapture(stream, &graph);
	if (e == cudaSuccess)
		e = cudaGraphInstantiate(&exec, graph, 0);
	if (e == cudaSuccess)
		e = cudaGraphLaunch(exec, stream);
	if (e == cudaSuccess)
		e = cudaStreamSynchronize(stream);
	if (e == cudaSuccess)
		e = cudaGraphExecDestroy(exec);
	if (e == cudaSuccess)
		e = cudaGraphDestroy(graph);
	return e == cudaSuccess ? cudaStreamDestroy(stream) : e;
}

/* ---- memory of two processes ---- */

static cudaIpcMemHandle_t handle;

static cudaError_t give(const slot *s)
{
	cudaError_t e = cudaIpcGetMemHandle(&handle, s->p);
	const unsigned char *h = (const unsigned char *)&handle;

	for (size_t i = 0; i < sizeof(handle) && e == cudaSuccess; i++)
		printf("%02x", h[i]);
	if (e == cudaSuccess)
		printf("\n");
	return e;
}

/* Opens memory of another process, in which everything is as allocate() left it. */
static cudaError_t open_given(slot *s, unsigned long long bytes, const char *hex)
{
	unsigned char *h = (unsigned char *)&handle;

	for (size_t i = 0; i < sizeof(handle); i++)
		if (sscanf(hex + 2 * i, "%2hhx", &h[i]) != 1)
			return cudaErrorInvalidValue;
	s->n = bytes / 4;
	s->a = 1;
	s->b = 0;
	return cudaIpcOpenMemHandle((void **)&s->p, handle,
				    cudaIpcMemLazyEnablePeerAccess);
}

static cudaError_t told(char what, unsigned i, unsigned long long value, unsigned *ret_n)
{
	if (what == 't')
		return churn(i, value, ret_n);
	if (i >= SLOTS)
		return cudaErrorInvalidValue;
	slot *s = &slots[i];

	switch (what) {
	case 'a':
		return allocate(s, value);
	case 'f':
		return cudaFree(s->p);
	case 'l':
		return launch(s, value);
	case 'v':
		return launch_behind(s, value);
	case 'c':
		return count_wrong(*s, ret_n);
	case 'w':
		work<<<BLOCKS, THREADS>>>(s->p, s->n, value);
		return cudaGetLastError();
	case 'x':
		work_then_fault<<<BLOCKS, THREADS>>>(s->p, s->n, value);
		return cudaGetLastError();
	case 'p':
		work_in_part<<<BLOCKS, THREADS>>>(s->p, s->n / 8 * value, s->n / 8);
		return cudaGetLastError();
	case 'g':
		return work_by_graph(s, value);
	case 's':
		return cudaDeviceSynchronize();
	case 'h':
		return wait_beside();
	case 'e':
		return give(s);
	case 'q':
		return cudaIpcCloseMemHandle(s->p);
	default:
		return cudaErrorInvalidValue;
	}
}

int main(void)
{
	char line[256], what;

	if (cudaMallocHost(&in_host, sizeof(*in_host)))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long long value = 0;
		char hex[200] = "";
		unsigned i = 0, n = 0;

		if (sscanf(line, "%c %u %llu %199s", &what, &i, &value, hex) < 1)
			return 2;
		cudaError_t e = what == 'o' && i < SLOTS ? open_given(&slots[i], value, hex)
							 : told(what, i, value, &n);
		printf("%d %u\n", (int)e, n);
		fflush(stdout);
	}
	return 0;
}
