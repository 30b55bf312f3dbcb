/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that reach memory in the ways that programs do (tests/ptx/extents.c). Each is given its
 * memory first, then numbers. */
#include <stdint.h>

extern "C" {

__global__ void add(float *c, const float *a, const float *b, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

__global__ void grid_stride(float *y, const float *x, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)blockDim.x * gridDim.x)
		y[i] = 2.0f * x[i] + y[i];
}

__global__ void stencil(float *out, const float *in, int w, int h)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x;
	int y = blockIdx.y * blockDim.y + threadIdx.y;

	if (x > 0 && y > 0 && x < w - 1 && y < h - 1)
		out[y * w + x] = in[y * w + x] + in[y * w + x - 1] + in[y * w + x + 1] +
				 in[(y - 1) * w + x] + in[(y + 1) * w + x];
}

__global__ void multiply(float *c, const float *a, const float *b, int m, int n, int k)
{
	int row = blockIdx.y * blockDim.y + threadIdx.y;
	int col = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;

	if (row >= m || col >= n)
		return;
	for (int i = 0; i < k; i++)
		sum += a[row * k + i] * b[i * n + col];
	c[row * n + col] = sum;
}

#define TILE 16

__global__ void tiled(float *c, const float *a, const float *b, int n)
{
	__shared__ float as[TILE][TILE], bs[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;

	for (int t = 0; t < n / TILE; t++) {
		as[threadIdx.y][threadIdx.x] = a[row * n + t * TILE + threadIdx.x];
		bs[threadIdx.y][threadIdx.x] = b[(t * TILE + threadIdx.y) * n + col];
		__syncthreads();
		for (int i = 0; i < TILE; i++)
			sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
		__syncthreads();
	}
	c[row * n + col] = sum;
}

__global__ void transpose(float *out, const float *in, int w, int h)
{
	__shared__ float tile[32][33];
	int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;

	for (int j = 0; j < 32; j += 8)
		if (x < w && y + j < h)
			tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * w + x];
	__syncthreads();
	x = blockIdx.y * 32 + threadIdx.x;
	y = blockIdx.x * 32 + threadIdx.y;
	for (int j = 0; j < 32; j += 8)
		if (x < h && y + j < w)
			out[(y + j) * h + x] = tile[threadIdx.x][threadIdx.y + j];
}

/* A block for each row, from one on in the middle of memory that has all of them. */
__global__ void rows(float *out, const float *all, const float *x, long first, int cols)
{
	const float *row = all + (first + blockIdx.x) * cols;
	float sum = 0;

	for (int i = threadIdx.x; i < cols; i += blockDim.x)
		sum += row[i] * x[i];
	atomicAdd(&out[blockIdx.x], sum);
}

/* A few columns of each of many rows that are far apart. */
__global__ void columns(float *out, const float *all, long pitch, int first, int n)
{
	const float *row = all + blockIdx.x * pitch + first;

	for (int i = threadIdx.x; i < n; i += blockDim.x)
		out[blockIdx.x * n + i] = row[i];
}

__global__ void gather(float *out, const int *index, const float *table, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = table[index[i]];
}

struct element {
	struct element *next;
	float value;
};

__global__ void list(float *out, const struct element *head)
{
	float sum = 0;

	for (const struct element *e = head; e; e = e->next)
		sum += e->value;
	*out = sum;
}

__global__ void sums(float *out, const float *in, int n)
{
	__shared__ float part[256];
	float sum = 0;

	for (int i = blockIdx.x * blockDim.x * 2 + threadIdx.x; i < n;
	     i += blockDim.x * 2 * gridDim.x) {
		sum += in[i];
		if (i + blockDim.x < n)
			sum += in[i + blockDim.x];
	}
	part[threadIdx.x] = sum;
	__syncthreads();
	for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
		if (threadIdx.x < s)
			part[threadIdx.x] += part[threadIdx.x + s];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		out[blockIdx.x] = part[0];
}

struct three {
	float *y;
	const float *x;
	int n;
};

__global__ void by_struct(struct three p)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < p.n)
		p.y[i] = p.x[i];
}

/* Each element belongs to a channel, a row and a column, found by dividing. */
__global__ void unfold(float *col, const float *im, int n, int h, int w, int size)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	int oh = h - size + 1, ow = w - size + 1;
	int x = i % ow, y = i / ow % oh, c = i / ow / oh;

	if (i >= n)
		return;
	for (int a = 0; a < size; a++)
		for (int b = 0; b < size; b++)
			col[(c * size * size + a * size + b) * oh * ow + y * ow + x] =
				im[(c * h + y + a) * w + x + b];
}

__global__ void backwards(int *out, const int *in, int n)
{
	int sum = 0;

	for (int i = n - 1 - threadIdx.x; i >= 0; i -= blockDim.x) {
		sum += in[i];
		out[i] = sum;
	}
}

__global__ void triangle(float *out, const float *in, int n)
{
	int row = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;

	if (row >= n)
		return;
	for (int i = 0; i <= row; i++)
		sum += in[row * n + i];
	out[row] = sum;
}

/* Each thread has a piece of its own. */
__global__ void pieces(int *out, const int *in, int each, int n)
{
	int t = blockIdx.x * blockDim.x + threadIdx.x;
	int sum = 0;

	for (int i = t * each; i < min((t + 1) * each, n); i++)
		sum += in[i];
	out[t] = sum;
}

__global__ void planes(float *out, const float *in, int nx, int ny, int nz)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x;
	int y = blockIdx.y * blockDim.y + threadIdx.y;
	float below = 0;

	if (x >= nx || y >= ny)
		return;
	for (int z = 0; z < nz; z++) {
		long at = ((long)z * ny + y) * nx + x;

		out[at] = in[at] + below;
		below = in[at];
	}
}

__global__ void fill(uint4 *p, unsigned v, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = make_uint4(v, v, v, v);
}

/* Rows of a key, up to where the thread's query stands: a token of attention. */
__global__ void attend(float *out, const float *q, const float *k, const float *v, int len,
		       int dim)
{
	const float *qh = q + blockIdx.x * dim, *kh = k + (long)blockIdx.x * len * dim;
	const float *vh = v + (long)blockIdx.x * len * dim;
	float acc = 0;

	for (int t = 0; t < len; t++) {
		float dot = 0;

		for (int d = 0; d < dim; d++)
			dot += qh[d] * kh[t * dim + d];
		acc += dot * vh[t * dim + threadIdx.x];
	}
	out[blockIdx.x * dim + threadIdx.x] = acc;
}

__global__ void histogram(unsigned *bins, const unsigned char *in, int n)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&bins[in[i]], 1u);
}

__device__ __noinline__ void put(float *p, int i)
{
	p[i] = (float)i;
}

__global__ void by_call(float *out, const float *in, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n && in[i] == 0)
		put(out, i);
}

/* Where an array of pointers says. */
__global__ void by_pointers(float **out, const float *in, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i / 32][i % 32] = in[i];
}
}
