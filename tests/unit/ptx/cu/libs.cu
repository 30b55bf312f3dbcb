/* SPDX-License-Identifier: Apache-2.0 */
// Sorts, scans and reductions by the parallel libraries of the toolkit.
#include <cub/cub.cuh>
#include <curand_kernel.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

void use_thrust(thrust::device_vector<int> &v, thrust::device_vector<double> &d)
{
	thrust::sort(v.begin(), v.end());
	thrust::inclusive_scan(d.begin(), d.end(), d.begin());
	v[0] = thrust::reduce(v.begin(), v.end());
	thrust::sort_by_key(d.begin(), d.end(), v.begin());
}

__global__ void block_ops(int *x)
{
	typedef cub::BlockScan<int, 128> scan;
	typedef cub::BlockReduce<int, 128> reduce;
	typedef cub::BlockRadixSort<int, 128, 4> sort;
	__shared__ union {
		scan::TempStorage s;
		reduce::TempStorage r;
		sort::TempStorage k;
	} t;
	int v[4];

	cub::LoadDirectBlocked(threadIdx.x, x, v);
	sort(t.k).Sort(v);
	__syncthreads();
	scan(t.s).InclusiveSum(v, v);
	__syncthreads();
	int sum = reduce(t.r).Sum(v);
	__syncthreads();
	cub::StoreDirectBlocked(threadIdx.x, x, v);
	if (threadIdx.x == 0)
		x[0] = sum;
}

__global__ void random(float *o, unsigned long long seed)
{
	curandState s;
	curandStatePhilox4_32_10_t p;

	curand_init(seed, threadIdx.x, 0, &s);
	curand_init(seed, threadIdx.x, 0, &p);
	o[threadIdx.x] = curand_uniform(&s) + curand_normal(&s) + curand_normal2_double(&p).x +
			 curand_poisson(&p, 3.5);
}
