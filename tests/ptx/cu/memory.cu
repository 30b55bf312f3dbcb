/* SPDX-License-Identifier: Apache-2.0 */
// Kernels for tests/unit/simt/memory.c: state spaces, generic addresses, faults, printf.
#include <assert.h>
#include <stdio.h>

#define KERNEL extern "C" __global__ void

__device__ int scalars[4] = {1, 2, 3, 4};
__constant__ int constants[4] = {10, 20, 30, 40};
__device__ int *pointer = &scalars[2];
__device__ const char *text = "a text";
static __device__ double zeroes[100];
extern __shared__ int dynamic[];

KERNEL spaces(int *out)
{
	__shared__ int s[32];
	int l[8], t = threadIdx.x;

	s[t] = t * 2;
	for (int i = 0; i < 8; i++)
		l[i] = t + i * 100;
	__syncthreads();
	// lanes follow pointers into different spaces
	int *p = t % 4 == 0 ? &s[31 - t] : t % 4 == 1 ? &l[t % 8] : t % 4 == 2 ? pointer : &out[t];
	out[t] = 7000 + t;
	out[32 + t] = *p;
	*p = *p + 1;
	out[64 + t] = s[t] + l[t % 8];
	out[96 + t] = constants[t % 4] + scalars[t % 2] + (int)zeroes[t] + text[t % 6];
	out[128 + t] = __isShared(p) + 2 * __isGlobal(p) + 4 * __isLocal(p);
}

KERNEL dynamic_shared(int *out, int n)
{
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		dynamic[i] = i * 3;
	__syncthreads();
	int s = 0;
	for (int i = 0; i < n; i++)
		s += dynamic[i];
	out[threadIdx.x] = s;
}

struct Vec {
	char c;
	short s;
	int4 v;
	double2 d;
	float f;
	unsigned char b[3];
};

KERNEL vectors(const Vec *in, Vec *out)
{
	Vec v = in[threadIdx.x];

	v.c++;
	v.s -= 2;
	v.v.x += v.v.w;
	v.d.y *= 2;
	v.f += 0.5f;
	v.b[2] ^= v.b[0];
	out[31 - threadIdx.x] = v;
}

struct Large {
	int v[8000];
};

KERNEL large_param(const __grid_constant__ Large p, int *out)
{
	const int *q = p.v;

	out[threadIdx.x] = q[threadIdx.x * 100] + p.v[7999 - threadIdx.x];
}

KERNEL store_at(int *p, int v)
{
	p[threadIdx.x] = v;
}

KERNEL load_at(const int *p, int *out)
{
	out[threadIdx.x] = *p;
}

KERNEL shared_at(int i, int *out)
{
	__shared__ int s[16];

	s[threadIdx.x % 16] = 1;
	*out = ((volatile int *)s)[i];
}

KERNEL trap_if(int n)
{
	if (threadIdx.x == n)
		__trap();
}

KERNEL check(int n)
{
	assert(threadIdx.x < n);
}

KERNEL say(int n)
{
	if (threadIdx.x < n)
		printf("%d of %d: %5.2f|%-6s|%c|%lld|%p|%%|%08x|%*d|%.3s\n", threadIdx.x, n,
		       threadIdx.x * 1.5, "str", 'A' + threadIdx.x, 123456789012345LL,
		       (void *)0x1234, 0xbeef, 5, 42, "abcdef");
}

KERNEL heap(int *out)
{
	int *p = (int *)malloc(64 * (threadIdx.x + 1));

	if (!p) {
		out[threadIdx.x] = -1;
		return;
	}
	for (int i = 0; i < 16; i++)
		p[i] = i * threadIdx.x;
	int s = 0;
	for (int i = 0; i < 16; i++)
		s += p[i];
	out[threadIdx.x] = s;
	free(p);
}
