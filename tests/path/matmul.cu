/* SPDX-License-Identifier: Apache-2.0 */
/* Tiled matrix multiplication through shared memory, sizes that do not divide the tile. */
#include "check.h"

template <int TILE>
__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
	__shared__ float sa[TILE][TILE], sb[TILE][TILE + 1];
	int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;

	for (int t = 0; t < k; t += TILE) {
		int ka = t + threadIdx.x, kb = t + threadIdx.y;

		sa[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0;
		sb[threadIdx.y][threadIdx.x] = col < n && kb < k ? b[kb * n + col] : 0;
		__syncthreads();
		for (int i = 0; i < TILE; i++)
			sum += sa[threadIdx.y][i] * sb[i][threadIdx.x];
		__syncthreads();
	}
	if (row < m && col < n)
		c[row * n + col] = sum;
}

template <int TILE> static void run(int m, int n, int k)
{
	rng r(m * 31 + n);
	std::vector<float> a(m * k), b(k * n), want(m * n);

	for (auto &x : a)
		x = r.f32();
	for (auto &x : b)
		x = r.f32();
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++) {
			double s = 0;
			for (int l = 0; l < k; l++)
				s += (double)a[i * k + l] * b[l * n + j];
			want[i * n + j] = (float)s;
		}
	dev_array<float> da(a), db(b), dc(m * n);
	dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), block(TILE, TILE);
	matmul<TILE><<<grid, block>>>(da.p, db.p, dc.p, m, n, k);
	CK(cudaDeviceSynchronize());
	double e = worst_error(dc.get(), want);
	if (!(e < 1e-5))
		fail("%dx%dx%d tile %d: error %g", m, n, k, TILE, e);
}

int main()
{
	check_name = "matmul";
	run<16>(64, 64, 64);
	run<16>(100, 37, 53);
	run<32>(160, 128, 96);
	run<8>(7, 9, 11);
	return pass();
}
