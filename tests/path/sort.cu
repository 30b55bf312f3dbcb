/* SPDX-License-Identifier: Apache-2.0 */
/* Bitonic sort by hand, and the radix sort of the toolkit's own headers. */
#include "check.h"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

__global__ void bitonic(unsigned *d, int j, int k)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, p = i ^ j;

	if (p > i) {
		bool up = (i & k) == 0;
		unsigned a = d[i], b = d[p];
		if ((a > b) == up) {
			d[i] = b;
			d[p] = a;
		}
	}
}

int main()
{
	check_name = "sort";
	int n = 1 << 14;
	rng r(11);
	std::vector<unsigned> v(n);

	for (auto &x : v)
		x = r.u32();
	std::vector<unsigned> want(v);
	std::sort(want.begin(), want.end());

	dev_array<unsigned> d(v);
	for (int k = 2; k <= n; k *= 2)
		for (int j = k / 2; j; j /= 2)
			bitonic<<<n / 256, 256>>>(d.p, j, k);
	if (d.get() != want)
		fail("bitonic order");

	std::vector<int> val(n);
	for (int i = 0; i < n; i++)
		val[i] = i;
	dev_array<unsigned> kin(v), kout(n);
	dev_array<int> vin(val), vout(n);
	size_t bytes = 0;
	CK(cub::DeviceRadixSort::SortPairs(nullptr, bytes, kin.p, kout.p, vin.p, vout.p, n));
	dev_array<char> tmp(bytes);
	CK(cub::DeviceRadixSort::SortPairs(tmp.p, bytes, kin.p, kout.p, vin.p, vout.p, n));
	CK(cudaDeviceSynchronize());
	if (kout.get() != want)
		fail("radix order");
	auto hv = vout.get();
	for (int i = 0; i < n; i++)
		if (v[hv[i]] != want[i])
			fail("radix value at %d", i);
	return pass();
}
