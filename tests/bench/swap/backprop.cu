/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training steps of a network with one hidden layer: many inputs, HIDDEN neurons, one
 * output; backward propagation with momentum. The weights of the first layer and what
 * they were last changed by are nearly all of the memory.
 */
#include "workload.h"

#include <algorithm>
#include <atomic>

#define HIDDEN   16
#define ROWS     16 /* inputs that a block takes at a time */
#define RATE     0.3f
#define MOMENTUM 0.3f
#define TARGET   0.9f

typedef unsigned long long u64;

/* The small half of the network: sums into the hidden neurons, second layer. */
struct head {
	u64 sum[HIDDEN];
	float w[HIDDEN], change[HIDDEN];
	float delta[HIDDEN];
	float error; /* of the output, last */
};

__host__ __device__ static inline float squash(float x)
{
	return x / (1.0f + (x < 0.0f ? -x : x));
}

/* Slope of squash() where it gave y: (1 - |y|)^2. */
__host__ __device__ static inline float slope(float y)
{
	float a = 1.0f - (y < 0.0f ? -y : y);

	return a * a;
}

__host__ __device__ static inline u64 product(float x, float w)
{
	return (u64)(long long)(x * w * FIX);
}

/* The output, and from its error what each hidden neuron is to be changed by. */
__host__ __device__ static inline void turn_back(head *t, float scale)
{
	float hidden[HIDDEN], out = 0.0f, d;

	for (int j = 0; j < HIDDEN; j++) {
		hidden[j] = squash((float)(long long)t->sum[j] / FIX * scale);
		out = out + hidden[j] * t->w[j];
		t->sum[j] = 0;
	}
	out = squash(out);
	t->error = TARGET - out;
	d = t->error * slope(out);
	for (int j = 0; j < HIDDEN; j++) {
		t->delta[j] = slope(hidden[j]) * (d * t->w[j]);
		t->change[j] = RATE * d * hidden[j] + MOMENTUM * t->change[j];
		t->w[j] = t->w[j] + t->change[j];
	}
}

__host__ __device__ static inline void adjust_one(float *w, float *change, float delta,
						  float x)
{
	*change = RATE * delta * x + MOMENTUM * *change;
	*w = *w + *change;
}

__global__ void forward(const float *x, const float *w, size_t n, head *t)
{
	__shared__ u64 part[ROWS][HIDDEN];
	int j = threadIdx.x, r = threadIdx.y;
	u64 sum = 0;

	for (size_t i = blockIdx.x * (size_t)ROWS + r; i < n;
	     i += (size_t)gridDim.x * ROWS)
		sum += product(x[i], w[i * HIDDEN + j]);
	part[r][j] = sum;
	__syncthreads();
	if (r)
		return;
	for (int k = 1; k < ROWS; k++)
		sum += part[k][j];
	atomicAdd(&t->sum[j], sum);
}

__global__ void middle(head *t, float scale)
{
	turn_back(t, scale);
}

__global__ void adjust(const float *x, float *w, float *change, size_t n, const head *t)
{
	int j = threadIdx.x;
	float delta = t->delta[j];

	for (size_t i = blockIdx.x * (size_t)ROWS + threadIdx.y; i < n;
	     i += (size_t)gridDim.x * ROWS)
		adjust_one(&w[i * HIDDEN + j], &change[i * HIDDEN + j], delta, x[i]);
}

int main(int argc, char **argv)
{
	workload work("backprop", argc, argv, 256, 4);
	size_t n = work.bytes / (8 * HIDDEN + 4), all = n * HIDDEN;
	float scale = 8.0f / sqrtf((float)n);
	std::vector<float> x(n), w(all), change(all);
	std::vector<head> top(1);

	memset(top.data(), 0, sizeof(head));
	for (int j = 0; j < HIDDEN; j++)
		top[0].w[j] = 2.0f * mixf(j, 4, 0) - 1.0f;
	in_parts(n, [&](size_t i, size_t end) {
		for (; i < end; i++) {
			x[i] = 2.0f * mixf((uint32_t)i, 5, 0) - 1.0f;
			for (int j = 0; j < HIDDEN; j++)
				w[i * HIDDEN + j] = mixf((uint32_t)i, 6, j) - 0.5f;
		}
	});
	work_array<float> dx(work, x), dw(work, w), dchange(work, change);
	work_array<head> dtop(work, top);
	dim3 block(HIDDEN, ROWS);
	unsigned blocks = std::min(grid(n, ROWS), 4096u);

	work.traffic = (5 * all + 2 * n) * 4 * work.steps;
	work.loaded(forward, middle, adjust);
	for (int s = 0; s < work.steps; s++) {
		forward<<<blocks, block>>>(dx.p, dw.p, n, dtop.p);
		middle<<<1, 1>>>(dtop.p, scale);
		adjust<<<blocks, block>>>(dx.p, dw.p, dchange.p, n, dtop.p);
		CK(cudaGetLastError());
	}
	work.took();

	for (int s = 0; s < work.steps; s++) {
		std::atomic<u64> sums[HIDDEN] = {};

		in_parts(n, [&](size_t i, size_t end) {
			u64 part[HIDDEN] = {};

			for (; i < end; i++)
				for (int j = 0; j < HIDDEN; j++)
					part[j] += product(x[i], w[i * HIDDEN + j]);
			for (int j = 0; j < HIDDEN; j++)
				sums[j] += part[j];
		});
		std::copy(sums, sums + HIDDEN, top[0].sum);
		turn_back(&top[0], scale);
		in_parts(n, [&](size_t i, size_t end) {
			for (; i < end; i++)
				for (int j = 0; j < HIDDEN; j++)
					adjust_one(&w[i * HIDDEN + j],
						   &change[i * HIDDEN + j],
						   top[0].delta[j], x[i]);
		});
	}
	dw.must_equal(w, "weights");
	dchange.must_equal(change, "changes");
	dx.must_equal(x, "inputs");
	std::vector<head> got(1);
	CK(cudaMemcpy(got.data(), dtop.p, sizeof(head), cudaMemcpyDeviceToHost));
	if (memcmp(&got[0], &top[0], offsetof(head, error) + sizeof(float)))
		fail("error %.9g instead of %.9g", (double)got[0].error,
		     (double)top[0].error);
	return pass();
}
