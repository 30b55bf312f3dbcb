/* SPDX-License-Identifier: Apache-2.0 */
/* Transposition through padded shared memory, and pitched copies in both directions. */
#include "check.h"

template <class V> __global__ void transpose(const V *in, size_t in_pitch, V *out, int w, int h)
{
	__shared__ V tile[32][33];
	int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;

	for (int j = 0; j < 32; j += 8)
		if (x < w && y + j < h)
			tile[threadIdx.y + j][threadIdx.x] =
				*((const V *)((const char *)in + (y + j) * in_pitch) + x);
	__syncthreads();
	x = blockIdx.y * 32 + threadIdx.x;
	y = blockIdx.x * 32 + threadIdx.y;
	for (int j = 0; j < 32; j += 8)
		if (x < h && y + j < w)
			out[(y + j) * h + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <class V> static void run(int w, int h)
{
	rng r(w);
	std::vector<V> a(w * h);
	V *d;
	size_t pitch;

	for (auto &x : a)
		x = (V)r.u32();
	CK(cudaMallocPitch(&d, &pitch, w * sizeof(V), h));
	REQUIRE(pitch >= w * sizeof(V) && pitch % 256 == 0);
	CK(cudaMemcpy2D(d, pitch, a.data(), w * sizeof(V), w * sizeof(V), h,
			cudaMemcpyHostToDevice));
	dev_array<V> out(w * h);
	transpose<V><<<dim3((w + 31) / 32, (h + 31) / 32), dim3(32, 8)>>>(d, pitch, out.p, w, h);
	auto got = out.get();
	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++)
			if (got[x * h + y] != a[y * w + x])
				fail("%zu-byte element (%d,%d)", sizeof(V), x, y);
	/* a window of the pitched array, back to the host and device to device */
	std::vector<V> part(10 * 7);
	CK(cudaMemcpy2D(part.data(), 10 * sizeof(V), (char *)d + 3 * pitch + 5 * sizeof(V), pitch,
			10 * sizeof(V), 7, cudaMemcpyDeviceToHost));
	dev_array<V> part2(10 * 7);
	CK(cudaMemcpy2D(part2.p, 10 * sizeof(V), (char *)d + 3 * pitch + 5 * sizeof(V), pitch,
			10 * sizeof(V), 7, cudaMemcpyDeviceToDevice));
	auto back = part2.get();
	for (int y = 0; y < 7; y++)
		for (int x = 0; x < 10; x++)
			if (part[y * 10 + x] != a[(y + 3) * w + x + 5] ||
			    back[y * 10 + x] != a[(y + 3) * w + x + 5])
				fail("pitched copy (%d,%d)", x, y);
	CK(cudaFree(d));
}

int main()
{
	check_name = "transpose";
	run<unsigned char>(100, 70);
	run<float>(257, 129);
	run<unsigned long long>(64, 96);
	return pass();
}
