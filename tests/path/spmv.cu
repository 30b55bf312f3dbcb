/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse matrix times vector: a row a warp, rows of very different lengths. */
#include "check.h"

__global__ void spmv(const int *row, const int *col, const double *val, const double *x,
		     double *y, int rows)
{
	int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
	double s = 0;

	if (r >= rows)
		return;
	for (int i = row[r] + lane; i < row[r + 1]; i += 32)
		s = fma(val[i], __ldg(&x[col[i]]), s);
	for (int d = 16; d; d /= 2)
		s += __shfl_down_sync(~0u, s, d);
	if (lane == 0)
		y[r] = s;
}

int main()
{
	check_name = "spmv";
	int rows = 700, cols = 900;
	rng r(21);
	std::vector<int> rp(1, 0), ci;
	std::vector<double> v, x(cols), want(rows);

	for (auto &e : x)
		e = r.f32();
	for (int i = 0; i < rows; i++) {
		int n = i % 50 == 0 ? 400 : r.u32() % 20;
		for (int k = 0; k < n; k++) {
			ci.push_back(r.u32() % cols);
			v.push_back(r.f32());
			want[i] += v.back() * x[ci.back()];
		}
		rp.push_back((int)ci.size());
	}
	dev_array<int> drp(rp), dci(ci);
	dev_array<double> dv(v), dx(x), dy(rows);
	spmv<<<(rows * 32 + 127) / 128, 128>>>(drp.p, dci.p, dv.p, dx.p, dy.p, rows);
	double e = worst_error(dy.get(), want);
	if (!(e < 1e-12))
		fail("error %g", e);
	return pass();
}
