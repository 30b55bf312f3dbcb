/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned and mapped memory: the device reads and writes it in place, the CPU sees that
 * without a copy; registered memory; copies of every shape from and to it, also while a
 * kernel runs; what pointers say of it; forked children; ranges that are wrong.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define N 100000

__global__ void scale(const int *in, int *out, int n, int by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = in[i] * by;
}

/* Waits until the host says so, then fills: what the host must not see before. */
__global__ void fill_when(volatile int *go, int *out, int n, int value)
{
	if (threadIdx.x == 0)
		while (!*go)
			;
	__syncthreads();
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		out[i] = value + i;
}

__global__ void store(int *p)
{
	*p = 1;
}

static void expect(const int *p, int n, int by, const char *what)
{
	for (int i = 0; i < n; i++) {
		if (p[i] != i * by)
			fail("%s: [%d] is %d, not %d", what, i, p[i], i * by);
	}
}

static int *pinned(size_t bytes, unsigned flags)
{
	void *p;

	CK(cudaHostAlloc(&p, bytes, flags));
	memset(p, 0, bytes);
	return (int *)p;
}

static void zero_copy(void)
{
	int *in = pinned(N * sizeof(int), cudaHostAllocMapped);
	int *out = pinned(N * sizeof(int), cudaHostAllocDefault), *d_in, *d_out;
	unsigned flags;

	for (int i = 0; i < N; i++)
		in[i] = i;
	CK(cudaHostGetDevicePointer(&d_in, in, 0));
	CK(cudaHostGetDevicePointer(&d_out, out, 0));
	if (d_in != in || d_out != out)
		fail("unified addressing: another address on the device");
	scale<<<(N + 255) / 256, 256>>>(d_in, d_out, N, 3);
	CK(cudaDeviceSynchronize());
	expect(out, N, 3, "zero copy");
	for (int i = 0; i < N; i++)
		in[i] = 2 * i; /* seen by the next kernel without anything else */
	scale<<<(N + 255) / 256, 256>>>(in, out, N, 2);
	CK(cudaDeviceSynchronize());
	expect(out, N, 4, "zero copy again");
	CK(cudaHostGetFlags(&flags, in));
	if (!(flags & cudaHostAllocMapped))
		fail("flags 0x%x", flags);
	CK(cudaMemset(out, 0xff, 400));
	CK(cudaDeviceSynchronize());
	if (out[0] != -1 || out[99] != -1 || out[100] != 400)
		fail("memset of pinned memory: %d %d %d", out[0], out[99], out[100]);
	CK(cudaFreeHost(in));
	CK(cudaFreeHost(out));
	CK(cudaFreeHost(NULL));
}

static void attributes(void)
{
	cudaPointerAttributes a;
	int *p = pinned(1000, 0), *q = (int *)malloc(1000), *d;

	CK(cudaMalloc(&d, 1000));
	CK(cudaPointerGetAttributes(&a, p + 7));
	if (a.type != cudaMemoryTypeHost || a.hostPointer != p + 7 ||
	    a.devicePointer != p + 7)
		fail("attributes of pinned memory: %d %p %p", a.type, a.hostPointer,
		     a.devicePointer);
	CK(cudaPointerGetAttributes(&a, q));
	if (a.type != cudaMemoryTypeUnregistered)
		fail("attributes of pageable memory: %d", a.type);
	CK(cudaPointerGetAttributes(&a, d));
	if (a.type != cudaMemoryTypeDevice || a.hostPointer)
		fail("attributes of device memory: %d %p", a.type, a.hostPointer);
	CK(cudaFree(d));
	CK(cudaFreeHost(p));
	free(q);
}

/* Copies into pinned memory return before the device gets there. */
static void overlap(void)
{
	int *go = pinned(sizeof(int), cudaHostAllocMapped), *back, *d;
	cudaStream_t st;

	back = pinned(N * sizeof(int), 0);
	CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
	CK(cudaMalloc(&d, N * sizeof(int)));
	fill_when<<<1, 256, 0, st>>>(go, d, N, 0);
	CK(cudaMemcpyAsync(back, d, N * sizeof(int), cudaMemcpyDeviceToHost, st));
	if (cudaStreamQuery(st) != cudaErrorNotReady)
		fail("the stream did not wait for the host");
	if (back[N - 1])
		fail("copied too early");
	*(volatile int *)go = 1;
	CK(cudaStreamSynchronize(st));
	expect(back, N, 1, "copy behind a kernel");
	CK(cudaMemsetAsync(d, 0, N * sizeof(int), st));
	CK(cudaMemcpyAsync(d, back, N * sizeof(int), cudaMemcpyHostToDevice, st));
	memset(go, 0, sizeof(*go));
	CK(cudaStreamSynchronize(st));
	memset(back, 0, N * sizeof(int));
	CK(cudaMemcpy(back, d, N * sizeof(int), cudaMemcpyDefault));
	expect(back, N, 1, "there and back");
	CK(cudaStreamDestroy(st));
	CK(cudaFree(d));
	CK(cudaFreeHost(back));
	CK(cudaFreeHost(go));
}

/* Rows, and every mix of pinned, pageable and device memory. */
static void shapes(void)
{
	const size_t width = 300, pitch = 512, rows = 40;
	char *p = (char *)pinned(pitch * rows, 0), *q = (char *)malloc(pitch * rows), *d;
	size_t d_pitch;

	CK(cudaMallocPitch(&d, &d_pitch, width, rows));
	for (size_t i = 0; i < pitch * rows; i++)
		p[i] = (char)(i * 7);
	CK(cudaMemcpy2D(d, d_pitch, p, pitch, width, rows, cudaMemcpyHostToDevice));
	memset(q, 0, pitch * rows);
	CK(cudaMemcpy2D(q, pitch, d, d_pitch, width, rows, cudaMemcpyDeviceToHost));
	for (size_t y = 0; y < rows; y++) {
		if (memcmp(p + y * pitch, q + y * pitch, width) || q[y * pitch + width])
			fail("2-D, pinned to device to pageable: row %zu", y);
	}
	memset(p, 0, pitch * rows);
	CK(cudaMemcpy2DAsync(p, pitch, d, d_pitch, width, rows, cudaMemcpyDefault));
	CK(cudaDeviceSynchronize());
	for (size_t y = 0; y < rows; y++) {
		if (memcmp(p + y * pitch, q + y * pitch, width) || p[y * pitch + width])
			fail("2-D, device to pinned: row %zu", y);
	}
	CK(cudaMemcpy(p + 1, q + 3, 5000, cudaMemcpyHostToHost));
	CK(cudaMemcpyAsync(q + 7000, p + 1, 5000, cudaMemcpyDefault));
	CK(cudaDeviceSynchronize());
	if (memcmp(q + 7000, q + 3, 5000))
		fail("pageable to pinned to pageable");
	CK(cudaMemcpyAsync(p + 8000, p + 1, 5000, cudaMemcpyDefault));
	CK(cudaDeviceSynchronize());
	if (memcmp(p + 8000, q + 3, 5000))
		fail("pinned to pinned");
	CK(cudaFree(d));
	CK(cudaFreeHost(p));
	free(q);
}

static void registered(void)
{
	size_t bytes = N * sizeof(int), all = (bytes + 4095) & ~(size_t)4095;
	int *p = (int *)mmap(NULL, all, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int *d, *out;

	for (int i = 0; i < N; i++)
		p[i] = i;
	CK(cudaMalloc(&out, bytes));
	CK(cudaHostRegister(p, bytes, cudaHostRegisterMapped));
	if (cudaHostRegister(p, bytes, 0) != cudaErrorHostMemoryAlreadyRegistered)
		fail("registered twice");
	CK(cudaHostGetDevicePointer(&d, p, 0));
	expect(p, N, 1, "contents after registering");
	scale<<<(N + 255) / 256, 256>>>(d, out, N, 5);
	scale<<<(N + 255) / 256, 256>>>(out, d, N, 2);
	CK(cudaDeviceSynchronize());
	expect(p, N, 10, "registered, written by a kernel");
	CK(cudaMemcpyAsync(p, out, bytes, cudaMemcpyDeviceToHost));
	CK(cudaDeviceSynchronize());
	expect(p, N, 5, "copied into registered memory");
	CK(cudaHostUnregister(p));
	expect(p, N, 5, "contents after unregistering");
	if (cudaHostUnregister(p) != cudaErrorHostMemoryNotRegistered)
		fail("unregistered twice");
	/* In the middle of pages, and where pages are nobody's: both are for copies. */
	CK(cudaHostRegister(p + 100, 4000, 0));
	CK(cudaMemcpy(p + 100, out, 4000, cudaMemcpyDeviceToHost));
	if (p[100] || p[101] != 5 || p[1099] != 4995)
		fail("a part of pages: %d %d %d", p[100], p[101], p[1099]);
	CK(cudaHostUnregister(p + 100));
	CK(cudaFree(out));
	munmap(p, all);
	(void)cudaGetLastError();
}

/* A child sees the pages, and its own library has no device. */
static void forked(void)
{
	int *shared = pinned(4096, 0), *own, status;
	void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	pid_t child;

	own = (int *)p;
	own[0] = 1;
	shared[0] = 2;
	CK(cudaHostRegister(own, 8192, 0));
	child = fork();
	if (!child) {
		bool ok = own[0] == 1 && shared[0] == 2;

		own[0] = 7;
		shared[1] = 8;
		ok &= cudaDeviceSynchronize() != cudaSuccess;
		ok &= cudaFreeHost(shared) != cudaSuccess;
		_exit(ok ? 0 : 1);
	}
	if (waitpid(child, &status, 0) != child || status)
		fail("child: status 0x%x", status);
	if (own[0] != 1)
		fail("a child wrote to its parent's registered memory");
	if (shared[1] != 8)
		fail("what a child wrote to pinned memory is not there");
	CK(cudaHostUnregister(own));
	if (own[0] != 1)
		fail("registered memory has changed");
	CK(cudaFreeHost(shared));
	munmap(p, 8192);
	CK(cudaDeviceSynchronize());
}

/* Much of it, in pieces: places are used again. */
static void churn(void)
{
	int *p[32];

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 32; i++) {
			p[i] = pinned((size_t)(i + 1) * 5000, 0);
			p[i][0] = i;
		}
		for (int i = 0; i < 32; i++) {
			if (p[i][0] != i)
				fail("two allocations in one place");
			if (i % 2 == round % 2)
				CK(cudaFreeHost(p[i]));
		}
		for (int i = 0; i < 32; i++) {
			if (i % 2 != round % 2)
				CK(cudaFreeHost(p[i]));
		}
	}
}

/*
 * Far less than a region each: no two share a byte, and each ends where it was said to.
 * Sizes are up to 4200 times the unit.
 */
static void small(size_t unit, int count)
{
	enum { COUNT = 300 };
	size_t size[COUNT];
	int *p[COUNT];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < count; i++) {
			if (round && i % 3 != round)
				continue; /* still there */
			size[i] = unit * (1 + (size_t)(i * 37 + round) % 4200);
			p[i] = pinned(size[i], 0);
			if ((uintptr_t)p[i] % 512)
				fail("%p is not aligned", p[i]);
			for (size_t k = 0; k < size[i] / 4; k++)
				p[i][k] = i;
		}
		for (int i = 0; i < count; i += 7) {
			int n = (int)(size[i] / 4);

			scale<<<(n + 255) / 256, 256>>>(p[i], p[i], n, 2);
		}
		CK(cudaDeviceSynchronize());
		for (int i = 0; i < count; i++) {
			for (size_t k = 0; k < size[i] / 4; k++) {
				if (p[i][k] != (i % 7 ? i : 2 * i))
					fail("allocation %d of %zu: [%zu] is %d", i,
					     size[i], k, p[i][k]);
				p[i][k] = i;
			}
		}
		for (int i = 0; i < count; i++) {
			if (round == 2 || i % 3 == round + 1)
				CK(cudaFreeHost(p[i]));
		}
	}
}

static void CUDART_CB late(void *arg)
{
	usleep(30000);
}

/* Memory that the device still uses goes to nobody else. */
static void freed_in_use(void)
{
	int *p = pinned(4000, 0), *d, *q[16];
	cudaStream_t st;

	CK(cudaMalloc(&d, 4000));
	CK(cudaMemset(d, 1, 4000));
	CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
	CK(cudaLaunchHostFunc(st, late, NULL));
	CK(cudaMemcpyAsync(p, d, 4000, cudaMemcpyDeviceToHost, st));
	CK(cudaFreeHost(p));
	for (int i = 0; i < 16; i++)
		q[i] = pinned(4000, 0);
	CK(cudaDeviceSynchronize());
	for (int i = 0; i < 16; i++) {
		if (q[i][0] || q[i][999])
			fail("a copy into what was freed before");
		CK(cudaFreeHost(q[i]));
	}
	CK(cudaStreamDestroy(st));
	CK(cudaFree(d));
}

static void wrong(void)
{
	int *p = pinned(4096, 0), *d, local;
	void *q;

	CK(cudaMalloc(&d, 1 << 20));
	if (cudaMemcpy(d, p, 1 << 20, cudaMemcpyHostToDevice) == cudaSuccess)
		fail("a copy from behind the end of pinned memory");
	if (cudaMemcpyAsync(p + 1000, d, 1000, cudaMemcpyDeviceToHost) == cudaSuccess &&
	    cudaDeviceSynchronize() == cudaSuccess)
		fail("a copy over the end of pinned memory");
	if (cudaFreeHost(p + 4) == cudaSuccess || cudaHostUnregister(p) == cudaSuccess ||
	    cudaHostRegister(p, 4096, 0) == cudaSuccess ||
	    cudaHostGetDevicePointer(&q, &local, 0) == cudaSuccess)
		fail("a wrong pointer was taken");
	if (cudaHostAlloc(&q, (size_t)1 << 60, 0) != cudaErrorMemoryAllocation)
		fail("an exabyte of pinned memory");
	(void)cudaGetLastError();
	CK(cudaFreeHost(p));
	CK(cudaDeviceSynchronize());
	CK(cudaFree(d));
	/* Last: it ends the context. */
	store<<<1, 1>>>((int *)0x26f000000000);
	if (cudaDeviceSynchronize() != cudaErrorIllegalAddress)
		fail("a kernel wrote where no host memory is");
}

/* Data on its way when memory is unregistered still arrives there. */
static void unregistered_in_use(void)
{
	const size_t bytes = 64 << 10;
	int *p = (int *)mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cudaStream_t st;
	int *d;

	CK(cudaMalloc(&d, bytes));
	CK(cudaMemset(d, 1, bytes));
	CK(cudaStreamCreateWithFlags(&st, cudaStreamNonBlocking));
	memset(p, 0, bytes);
	CK(cudaHostRegister(p, bytes, 0));
	CK(cudaLaunchHostFunc(st, late, NULL));
	CK(cudaMemcpyAsync(p, d, bytes, cudaMemcpyDeviceToHost, st));
	CK(cudaHostUnregister(p));
	CK(cudaStreamSynchronize(st));
	if (p[0] != 0x01010101 || p[bytes / 4 - 1] != 0x01010101)
		fail("unregistered while it was copied to: %x", p[0]);
	CK(cudaStreamDestroy(st));
	CK(cudaFree(d));
	munmap(p, bytes);
}

int main(void)
{
	check_name = "host_memory";
	zero_copy();
	attributes();
	overlap();
	shapes();
	registered();
	forked();
	churn();
	small(4, 300);
	small(64, 60);
	freed_in_use();
	unregistered_in_use();
	wrong();
	return pass();
}
