/* SPDX-License-Identifier: Apache-2.0 */
/* Monte Carlo in f64: an option's price, with the CPU replaying the same random numbers. */
#include "check.h"

__host__ __device__ static double next(uint64_t *s)
{
	*s = *s * 6364136223846793005ull + 1442695040888963407ull;
	return ((double)(uint32_t)(*s >> 32) + 0.5) / 4294967296.0;
}

__host__ __device__ static double payoff(uint64_t seed, int paths)
{
	uint64_t s = seed * 0x9e3779b97f4a7c15ull + 12345;
	double sum = 0;

	for (int i = 0; i < paths; i++) {
		double u = next(&s), v = next(&s);
		double z = sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
		double p = 100.0 * exp((0.05 - 0.02) + 0.2 * z);
		sum += p > 100.0 ? p - 100.0 : 0.0;
	}
	return sum / paths;
}

__global__ void price(double *out, int paths)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = payoff(i, paths);
}

int main()
{
	check_name = "monte_carlo";
	int n = 1024, paths = 64;
	dev_array<double> d(n);

	price<<<n / 128, 128>>>(d.p, paths);
	auto got = d.get();
	double total = 0;
	for (int i = 0; i < n; i++) {
		double want = payoff(i, paths);
		if (!(fabs(got[i] - want) < 1e-9))
			fail("path set %d: %.15g, not %.15g", i, got[i], want);
		total += got[i];
	}
	/* Black-Scholes with these numbers is 10.4506 */
	double price = total / n * exp(-0.05);
	if (!(fabs(price - 10.4506) < 0.25))
		fail("price %.4f", price);
	return pass();
}
