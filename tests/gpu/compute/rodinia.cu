/* SPDX-License-Identifier: Apache-2.0 */
/* weft: needs=nvcc */
/*
 * The four programs of MSched's combination A, written anew: Rodinia's dwt2d, hotspot, cfd and nn.
 * rounds.h has the words; large is 8 GiB of device memory each, medium 512
 * MiB, small 12.
 */
#include "rounds.h"

/* ---- dwt2d: three levels of the 5/3 wavelets of an image, rows and then columns */

static const int dw_levels = 3;
static int dw_n;
static float *dw_in, *dw_half, *dw_out;

/* The high part of the i-th pair of n values `step` apart; beyond the ends as in a mirror. */
__device__ static float high_of(const float *p, size_t step, int n, int i)
{
	int right = 2 * i + 2 < n ? 2 * i + 2 : 2 * i;

	return p[(2 * i + 1) * step] - 0.5f * (p[2 * i * step] + p[right * step]);
}

__device__ static void lift(const float *in, float *out, size_t step, int n, int i)
{
	float high = high_of(in, step, n, i), before = i ? high_of(in, step, n, i - 1) : high;

	out[i * step] = in[2 * i * step] + 0.25f * (before + high);
	out[(n / 2 + i) * step] = high;
}

__global__ void dwt_rows(const float *in, float *out, int pitch, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	size_t row = (size_t)(blockIdx.y * blockDim.y + threadIdx.y) * pitch;

	if (i < n / 2)
		lift(in + row, out + row, 1, n, i);
}

__global__ void dwt_columns(const float *in, float *out, int pitch, int n)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x;

	if (x < n)
		lift(in + x, out + x, pitch, n, blockIdx.y * blockDim.y + threadIdx.y);
}

static void dw_setup(enum size size)
{
	static const int n[] = {64, 1024, 6656, 26624};
	size_t all;

	dw_n = n[size];
	all = (size_t)dw_n * dw_n;
	dw_in = get_units(all, 1);
	dw_half = get<float>(all);
	dw_out = get_result<float>(all);
}

static void dw_round(void)
{
	const float *in = dw_in;
	dim3 block(32, 8);

	for (int level = 0, n = dw_n; level < dw_levels; level++, n /= 2) {
		dwt_rows<<<dim3(blocks_of(n / 2, block.x), n / block.y), block>>>(in, dw_half,
										  dw_n, n);
		dwt_columns<<<dim3(blocks_of(n, block.x), n / 2 / block.y), block>>>(
			dw_half, dw_out, dw_n, n);
		in = dw_out;
	}
}

/* ---- hotspot: heat in a plate, where power is spent */

static const int ho_steps = 4;
static int ho_n;
static float *ho_in, *ho_out, *ho_power;

__global__ void hotspot(const float *in, const float *power, float *out, int n)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
	size_t at = (size_t)y * n + x;
	float here = in[at];
	float w = x ? in[at - 1] : here, e = x < n - 1 ? in[at + 1] : here;
	float s = y ? in[at - n] : here, t = y < n - 1 ? in[at + n] : here;

	out[at] = here + 0.1f * (w + e - 2 * here) + 0.1f * (s + t - 2 * here) +
		  0.001f * (80 - here) + 0.01f * power[at];
}

static void ho_setup(enum size size)
{
	static const int n[] = {64, 1024, 6656, 26624};
	size_t all;

	ho_n = n[size];
	all = (size_t)ho_n * ho_n;
	ho_in = get_units(all, 2, 320, 340);
	ho_power = get_units(all, 3);
	ho_out = get_result<float>(all);
}

static void ho_round(void)
{
	dim3 block(32, 8), grid(ho_n / block.x, ho_n / block.y);

	for (int i = 0; i < ho_steps; i += 2) {
		hotspot<<<grid, block>>>(ho_in, ho_power, ho_out, ho_n);
		hotspot<<<grid, block>>>(ho_out, ho_power, ho_in, ho_n);
	}
}

/* ---- cfd: a gas in cells with four neighbours each, three stages a step */

static const int cf_near = 4, cf_stages = 3;
static size_t cf_n;
static float *cf_now, *cf_old, *cf_flux, *cf_area, *cf_factor, *cf_normal;
static int *cf_cell;

struct gas {
	float density, energy, x, y, z;
};

/* The five values of a cell lie n apart, as Rodinia has them. */
__device__ static struct gas gas_at(const float *p, size_t n, size_t i)
{
	struct gas g = {p[i], p[i + 4 * n], p[i + n], p[i + 2 * n], p[i + 3 * n]};

	return g;
}

__device__ static float pressure_of(const struct gas *g)
{
	return 0.4f * (g->energy - 0.5f * (g->x * g->x + g->y * g->y + g->z * g->z) / g->density);
}

/* Three of the neighbours are near, the fourth anywhere. */
__global__ void cfd_mesh(int *cell, float *normal, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	const size_t by[] = {1, n - 1, 64, mixed((unsigned)i) % n};

	if (i >= n)
		return;
	for (int k = 0; k < cf_near; k++) {
		cell[i + k * n] = (int)((i + by[k]) % n);
		for (int d = 0; d < 3; d++)
			normal[i + (k * 3 + d) * n] =
				(k % 2 ? -1 : 1) * (0.5f + 0.1f * unit((unsigned)(i * 3 + d)));
	}
}

__global__ void cfd_gas(float *now, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	now[i] = 1.4f + 0.1f * unit((unsigned)i);
	for (int k = 1; k < 4; k++)
		now[i + k * n] = 0.1f * unit((unsigned)i + k);
	now[i + 4 * n] = 2.5f;
}

__global__ void cfd_factor(const float *now, const float *area, float *factor, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	struct gas g = gas_at(now, n, i);
	float speed = sqrtf((g.x * g.x + g.y * g.y + g.z * g.z) / (g.density * g.density));

	factor[i] = 0.5f / (sqrtf(1 + area[i]) *
			    (speed + sqrtf(1.4f * fmaxf(pressure_of(&g), 0.01f) / g.density)));
}

__global__ void cfd_flux(const int *cell, const float *normal, const float *now, float *flux,
			 size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	float sum[5] = {0};

	if (i >= n)
		return;
	struct gas own = gas_at(now, n, i);
	float own_p = pressure_of(&own);

	for (int k = 0; k < cf_near; k++) {
		struct gas g = gas_at(now, n, cell[i + k * n]);
		float nx = normal[i + (k * 3 + 0) * n], ny = normal[i + (k * 3 + 1) * n];
		float nz = normal[i + (k * 3 + 2) * n], p = 0.5f * (pressure_of(&g) + own_p);
		float through = 0.5f * ((g.x + own.x) * nx + (g.y + own.y) * ny +
					(g.z + own.z) * nz);

		sum[0] += through + 0.2f * (g.density - own.density);
		sum[1] += p * nx + 0.2f * (g.x - own.x);
		sum[2] += p * ny + 0.2f * (g.y - own.y);
		sum[3] += p * nz + 0.2f * (g.z - own.z);
		sum[4] += through * p + 0.2f * (g.energy - own.energy);
	}
	for (int k = 0; k < 5; k++)
		flux[i + k * n] = sum[k];
}

__global__ void cfd_step(const float *old, const float *factor, const float *flux, float *now,
			 size_t n, float part)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	for (int k = 0; k < 5; k++)
		now[i + k * n] = old[i + k * n] + 0.001f * part * factor[i] * flux[i + k * n];
}

static void cf_setup(enum size size)
{
	static const size_t n[] = {2000, 95000, 4000000, 64000000};

	cf_n = n[size];
	cf_old = get<float>(5 * cf_n);
	cf_flux = get<float>(5 * cf_n);
	cf_area = get_units(cf_n, 4);
	cf_factor = get<float>(cf_n);
	cf_cell = get<int>(cf_near * cf_n);
	cf_normal = get<float>(3 * cf_near * cf_n);
	cf_now = get_result<float>(5 * cf_n);
	cfd_mesh<<<blocks_of(cf_n), threads_each>>>(cf_cell, cf_normal, cf_n);
	cfd_gas<<<blocks_of(cf_n), threads_each>>>(cf_now, cf_n);
}

static void cf_round(void)
{
	CHECK(cudaMemcpyAsync(cf_old, cf_now, 5 * cf_n * sizeof(float), cudaMemcpyDeviceToDevice));
	cfd_factor<<<blocks_of(cf_n), threads_each>>>(cf_old, cf_area, cf_factor, cf_n);
	for (int stage = 0; stage < cf_stages; stage++) {
		cfd_flux<<<blocks_of(cf_n), threads_each>>>(cf_cell, cf_normal, cf_now, cf_flux,
							    cf_n);
		cfd_step<<<blocks_of(cf_n), threads_each>>>(cf_old, cf_factor, cf_flux, cf_now,
							    cf_n, 1.0f / (cf_stages - stage));
	}
}

/* ---- nn: the nearest place of each block's */

static size_t nn_n;
static float2 *nn_place;
static float *nn_far, *nn_least;

__global__ void nearest(const float2 *place, float *far_, float *least, size_t n, float x, float y)
{
	__shared__ float of[threads_each];
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	float d = 1e9f;

	if (i < n) {
		d = sqrtf((place[i].x - x) * (place[i].x - x) +
			  (place[i].y - y) * (place[i].y - y));
		far_[i] = d;
	}
	of[threadIdx.x] = d;
	for (int half = threads_each / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			of[threadIdx.x] = fminf(of[threadIdx.x], of[threadIdx.x + half]);
	}
	if (!threadIdx.x)
		least[blockIdx.x] = of[0];
}

static void nn_setup(enum size size)
{
	static const size_t n[] = {4000, 1000000, 44000000, 704000000};

	nn_n = n[size];
	nn_place = (float2 *)get_units(2 * nn_n, 5, -90, 90);
	nn_least = get<float>(blocks_of(nn_n));
	nn_far = get_result<float>(nn_n);
}

static void nn_round(void)
{
	nearest<<<blocks_of(nn_n), threads_each>>>(nn_place, nn_far, nn_least, nn_n, 30, 50);
}

int main(int argc, char **argv)
{
	static const struct app apps[] = {{"dwt2d", dw_setup, dw_round},
					  {"hotspot", ho_setup, ho_round},
					  {"cfd", cf_setup, cf_round},
					  {"nn", nn_setup, nn_round}};

	return rounds_main(argc, argv, apps, sizeof(apps) / sizeof(*apps));
}
