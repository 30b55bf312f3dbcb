/* SPDX-License-Identifier: Apache-2.0 */
/* Loops that stop and go on: what is alive in them is of every kind. Each kernel writes one number
 * for each of its threads. */
#include <cuda_fp16.h>
#include <stdint.h>

extern "C" {

__device__ static unsigned number()
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

/* Rounds of each thread's own number. */
__global__ void apart(uint64_t *out, unsigned n)
{
	uint64_t x = number() + 1;
	unsigned rounds = 0;

	for (unsigned i = 0; i < n; i++) {
		while (x != 1 && rounds % 50 != 49) {
			x = x & 1 ? 3 * x + 1 : x / 2;
			rounds++;
		}
		x += number() + i;
		rounds++;
	}
	out[number()] = x * 1000 + rounds;
}

/* Predicates, halves, floats of both sizes and pointers are alive. */
__global__ void kinds(uint64_t *out, unsigned n)
{
	bool odd = number() & 1, big = number() > n;
	__half h = __float2half((float)(number() % 16));
	float f = 0.5f * (float)number();
	double d = 1.0 / (1.0 + number());
	short s = (short)number();
	const uint64_t *from = out + number();

	for (unsigned i = 0; i < n; i++) {
		h = __hadd(h, __float2half(odd ? 1.0f : 0.5f));
		f = f * 1.25f - (big ? 1.0f : 2.0f);
		d = d * d + (odd != big ? 0.25 : 0.125);
		s = (short)(s * 3 + 1);
		odd = odd != (i % 3 == 0);
		if (i % 7 == 0 && *from > 5)
			d += 1.0;
	}
	out[number()] = (uint64_t)__float2uint_rz(__half2float(h)) ^ __float_as_uint(f) ^
			(uint64_t)__double_as_longlong(d) ^ (uint64_t)(unsigned short)s << 48;
}

/* A block's threads meet in the loop, and use memory that they share. */
__global__ void together(uint64_t *out, unsigned n)
{
	__shared__ unsigned row[128];
	__shared__ unsigned char last[3];
	extern __shared__ unsigned more[];

	row[threadIdx.x] = number();
	more[threadIdx.x] = 3 * number();
	if (threadIdx.x < 3)
		last[threadIdx.x] = (unsigned char)threadIdx.x;
	__syncthreads();
	for (unsigned i = 0; i < n; i++) {
		unsigned other = row[(threadIdx.x + i) % blockDim.x] +
				 more[(threadIdx.x * 5 + i) % blockDim.x];

		__syncthreads();
		row[threadIdx.x] += other;
		more[threadIdx.x] ^= other;
		if (threadIdx.x == i % 3)
			last[threadIdx.x] += 7;
		__syncthreads();
	}
	out[number()] = (uint64_t)row[threadIdx.x] << 32 |
			(more[threadIdx.x] + last[threadIdx.x % 3]);
}

/* Some threads end before others, and loops follow each other. */
__global__ void several(uint64_t *out, unsigned n)
{
	uint64_t sum = 0;

	if (number() % 5 == 3) {
		out[number()] = 5;
		return;
	}
	for (unsigned i = 0; i < number() % 40; i++)
		sum += i * i;
	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = i; k < number() % 64; k++)
			sum = sum * 3 + k;
	}
	if (sum % 2) {
		out[number()] = sum;
		return;
	}
	do {
		sum = sum * 5 + 1;
	} while (sum % 64 > 1);
	out[number()] = sum;
}

/* A tree after a loop that all threads leave together. */
__global__ void tree(uint64_t *out, unsigned n)
{
	__shared__ uint64_t sums[128];
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += (uint64_t)i * number() ^ blockIdx.x;
	sums[threadIdx.x] = sum;
	__syncthreads();
	for (unsigned step = blockDim.x / 2; step; step /= 2) {
		if (threadIdx.x < step)
			sums[threadIdx.x] += sums[threadIdx.x + step];
		__syncthreads();
	}
	sum = sums[0];
	for (unsigned lane = 16; lane; lane /= 2)
		sum += __shfl_xor_sync(~0u, sum, lane);
	out[number()] = sum + threadIdx.x;
}

}
