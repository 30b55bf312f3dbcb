/* SPDX-License-Identifier: Apache-2.0 */
/* weft: needs=nvcc */
/*
 * The seven kernels of "Adaptive Simultaneous Multi-tenancy for GPUs" (its Table 3), written
 * anew: what each computes is theirs, sizes are such that one takes milliseconds on an H200.
 * rounds.h has the words.
 */
#include "rounds.h"

/* ---- binomialOptions: a block prices an option by a tree of so many steps */

static const int bo_threads = 128, bo_steps = 2048;
static int bo_options;
static float *bo_price, *bo_strike, *bo_value;

__global__ void binomial(const float *price, const float *strike, float *value)
{
	__shared__ float tree[bo_steps + 1];
	const float years = 1, rate = 0.06f, sigma = 0.1f, dt = years / bo_steps;
	const float up = expf(sigma * sqrtf(dt)), down = 1 / up, grow = expf(rate * dt);
	const float up_part = (grow - down) / (up - down) / grow, down_part = 1 / grow - up_part;
	float s = price[blockIdx.x], k = strike[blockIdx.x];

	for (int i = threadIdx.x; i <= bo_steps; i += bo_threads)
		tree[i] = fmaxf(s * expf(sigma * sqrtf(dt) * (2.0f * i - bo_steps)) - k, 0);
	for (int level = bo_steps; level > 0; level--) {
		for (int i = 0; i < level; i += bo_threads) {
			float a = 0, b = 0;
			int at = i + threadIdx.x;

			__syncthreads();
			if (at < level) {
				a = tree[at];
				b = tree[at + 1];
			}
			__syncthreads();
			if (at < level)
				tree[at] = down_part * a + up_part * b;
		}
	}
	if (!threadIdx.x)
		value[blockIdx.x] = tree[0];
}

static void bo_setup(enum size size)
{
	bo_options = size == TINY ? 2 : 4096 << (2 * (size - SMALL));
	bo_price = get_units(bo_options, 1, 5, 30);
	bo_strike = get_units(bo_options, 2, 1, 100);
	bo_value = get_result<float>(bo_options);
}

static void bo_round(void)
{
	binomial<<<bo_options, bo_threads>>>(bo_price, bo_strike, bo_value);
}

/* ---- FDTD3d: a stencil of radius 4 that goes along z with a tile of each plane */

static const int fd_radius = 4, fd_x = 32, fd_y = 16;
static int fd_n;
static float *fd_in, *fd_out;

__constant__ float fd_weight[fd_radius + 1] = {0.3f, 0.1f, 0.07f, 0.04f, 0.01f};

__global__ void fdtd3d(const float *in, float *out, int n)
{
	__shared__ float tile[fd_y + 2 * fd_radius][fd_x + 2 * fd_radius];
	int x = blockIdx.x * fd_x + threadIdx.x, y = blockIdx.y * fd_y + threadIdx.y;
	int wide = n + 2 * fd_radius;
	size_t plane = (size_t)wide * wide;
	const float *p = in + (size_t)(y + fd_radius) * wide + x + fd_radius;
	float behind[fd_radius], ahead[fd_radius], here;

	for (int i = 0; i < fd_radius; i++) {
		behind[i] = p[(fd_radius - 1 - i) * plane];
		ahead[i] = p[(fd_radius + 1 + i) * plane];
	}
	here = p[fd_radius * plane];
	for (int z = fd_radius; z < n + fd_radius; z++) {
		float sum;

		__syncthreads();
		for (int dy = threadIdx.y; dy < fd_y + 2 * fd_radius; dy += fd_y)
			for (int dx = threadIdx.x; dx < fd_x + 2 * fd_radius; dx += fd_x)
				tile[dy][dx] = in[z * plane +
						  (size_t)(blockIdx.y * fd_y + dy) * wide +
						  blockIdx.x * fd_x + dx];
		__syncthreads();
		sum = fd_weight[0] * here;
#pragma unroll
		for (int i = 1; i <= fd_radius; i++)
			sum += fd_weight[i] *
			       (behind[i - 1] + ahead[i - 1] +
				tile[threadIdx.y + fd_radius - i][threadIdx.x + fd_radius] +
				tile[threadIdx.y + fd_radius + i][threadIdx.x + fd_radius] +
				tile[threadIdx.y + fd_radius][threadIdx.x + fd_radius - i] +
				tile[threadIdx.y + fd_radius][threadIdx.x + fd_radius + i]);
		out[z * plane + (size_t)(y + fd_radius) * wide + x + fd_radius] = sum;
#pragma unroll
		for (int i = fd_radius - 1; i > 0; i--)
			behind[i] = behind[i - 1];
		behind[0] = here;
		here = ahead[0];
#pragma unroll
		for (int i = 0; i + 1 < fd_radius; i++)
			ahead[i] = ahead[i + 1];
		ahead[fd_radius - 1] =
			z + 1 + fd_radius < n + 2 * fd_radius ? p[(z + 1 + fd_radius) * plane] : 0;
	}
}

static void fd_setup(enum size size)
{
	size_t all;

	fd_n = size == TINY ? 32 : 192 << (size - SMALL);
	all = (size_t)(fd_n + 2 * fd_radius) * (fd_n + 2 * fd_radius) * (fd_n + 2 * fd_radius);
	fd_in = get_units(all, 3);
	fd_out = get_result<float>(all);
}

static void fd_round(void)
{
	fdtd3d<<<dim3(fd_n / fd_x, fd_n / fd_y), dim3(fd_x, fd_y)>>>(fd_in, fd_out, fd_n);
}

/* ---- lavaMD: particles in boxes feel those of the boxes around */

static const int lm_each = 100, lm_threads = 128;
static int lm_n;
static float4 *lm_at, *lm_force;

__global__ void lavamd(const float4 *at, float4 *force, int n)
{
	__shared__ float4 near[lm_each], own[lm_each];
	int bx = blockIdx.x % n, by = blockIdx.x / n % n, bz = blockIdx.x / n / n;
	float4 f = make_float4(0, 0, 0, 0);
	int t = threadIdx.x;

	if (t < lm_each)
		own[t] = at[(size_t)blockIdx.x * lm_each + t];
	for (int k = 0; k < 27; k++) {
		int x = bx + k % 3 - 1, y = by + k / 3 % 3 - 1, z = bz + k / 9 - 1;

		if (x < 0 || y < 0 || z < 0 || x >= n || y >= n || z >= n)
			continue;
		__syncthreads();
		if (t < lm_each)
			near[t] = at[((size_t)(z * n + y) * n + x) * lm_each + t];
		__syncthreads();
		if (t >= lm_each)
			continue;
		for (int j = 0; j < lm_each; j++) {
			float dx = own[t].x - near[j].x, dy = own[t].y - near[j].y,
			      dz = own[t].z - near[j].z;
			float v = expf(-0.5f * (dx * dx + dy * dy + dz * dz));

			f.x += near[j].w * v * dx;
			f.y += near[j].w * v * dy;
			f.z += near[j].w * v * dz;
			f.w += near[j].w * v;
		}
	}
	if (t < lm_each)
		force[(size_t)blockIdx.x * lm_each + t] = f;
}

static void lm_setup(enum size size)
{
	size_t all;

	lm_n = size == TINY ? 2 : size == SMALL ? 16 : size == MEDIUM ? 25 : 40;
	all = (size_t)lm_n * lm_n * lm_n * lm_each;
	lm_at = (float4 *)get_units(4 * all, 4);
	lm_force = get_result<float4>(all);
}

static void lm_round(void)
{
	lavamd<<<lm_n * lm_n * lm_n, lm_threads>>>(lm_at, lm_force, lm_n);
}

/* ---- MD5Hash: each thread tries keys and looks for a digest (RFC 1321) */

static const int md_threads = 384;
static unsigned md_blocks, *md_found;

__device__ __forceinline__ unsigned rotated(unsigned x, int n)
{
	return x << n | x >> (32 - n);
}

__constant__ unsigned md_sine[64] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613,
	0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193,
	0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d,
	0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
	0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122,
	0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
	0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244,
	0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
	0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb,
	0xeb86d391};

__global__ void md5(unsigned *found, unsigned want)
{
	static const unsigned char turn[4][4] = {
		{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
	unsigned key = blockIdx.x * blockDim.x + threadIdx.x;

	for (int round = 0; round < 8; round++) {
		unsigned m[16] = {key, (unsigned)round, 0x80};
		unsigned a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;

		m[14] = 64;
#pragma unroll
		for (int i = 0; i < 64; i++) {
			unsigned f, k;

			if (i < 16)
				f = (b & c) | (~b & d), k = i;
			else if (i < 32)
				f = (d & b) | (~d & c), k = (5 * i + 1) % 16;
			else if (i < 48)
				f = b ^ c ^ d, k = (3 * i + 5) % 16;
			else
				f = c ^ (b | ~d), k = 7 * i % 16;
			f += a + md_sine[i] + m[k];
			a = d;
			d = c;
			c = b;
			b += rotated(f, turn[i / 16][i % 4]);
		}
		if (((a + 0x67452301) & 0x00ffffff) == want)
			atomicAdd(found, key ^ round);
	}
}

static void md_setup(enum size size)
{
	md_blocks = size == TINY ? 2 : 25432u << (2 * (size - SMALL));
	md_found = get_result<unsigned>(1);
}

static void md_round(void)
{
	md5<<<md_blocks, md_threads>>>(md_found, 0x00123456);
}

/* ---- nbody: all pairs, by tiles */

static const int nb_threads = 256;
static int nb_n;
static float4 *nb_at, *nb_next;

__global__ void nbody(const float4 *at, float4 *next, int n)
{
	__shared__ float4 tile[nb_threads];
	int i = blockIdx.x * nb_threads + threadIdx.x;
	float ax = 0, ay = 0, az = 0;
	float4 p = at[i];

	for (int k = 0; k < n; k += nb_threads) {
		tile[threadIdx.x] = at[k + threadIdx.x];
		__syncthreads();
#pragma unroll 8
		for (int j = 0; j < nb_threads; j++) {
			float dx = tile[j].x - p.x, dy = tile[j].y - p.y, dz = tile[j].z - p.z;
			float d = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f);

			d = tile[j].w * d * d * d;
			ax += d * dx;
			ay += d * dy;
			az += d * dz;
		}
		__syncthreads();
	}
	next[i] = make_float4(p.x + ax * 1e-6f, p.y + ay * 1e-6f, p.z + az * 1e-6f, p.w);
}

static void nb_setup(enum size size)
{
	nb_n = size == TINY ? 512 : 33792 << (size - SMALL); /* a block for each SM of 132 */
	nb_at = (float4 *)get_units(4 * (size_t)nb_n, 5);
	nb_next = get_result<float4>(nb_n);
}

static void nb_round(void)
{
	nbody<<<nb_n / nb_threads, nb_threads>>>(nb_at, nb_next, nb_n);
}

/* ---- particlefilter: each particle looks for its place in a sum that grows */

static const int pf_threads = 128;
static int pf_n;
static float *pf_x, *pf_u, *pf_sum, *pf_new;

__global__ void growing(float *sum, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		sum[i] = (i + 1.0f) / n;
}

__global__ void find_index(const float *x, const float *sum, const float *u, float *next, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, at = n - 1;

	if (i >= n)
		return;
	for (int k = 0; k < n; k++)
		if (sum[k] >= u[i]) {
			at = k;
			break;
		}
	next[i] = x[at];
}

static void pf_setup(enum size size)
{
	pf_n = size == TINY ? 256 : 65536 << (size - SMALL);
	pf_x = get_units(pf_n, 6);
	pf_u = get_units(pf_n, 7);
	pf_sum = get<float>(pf_n);
	growing<<<blocks_of(pf_n), threads_each>>>(pf_sum, pf_n);
	pf_new = get_result<float>(pf_n);
}

static void pf_round(void)
{
	find_index<<<blocks_of(pf_n, pf_threads), pf_threads>>>(pf_x, pf_sum, pf_u, pf_new, pf_n);
}

/* ---- tpacf: angles between all pairs of points of the sky, counted in bins */

static const int tp_threads = 256, tp_bins = 20;
static int tp_n;
static float *tp_x, *tp_y, *tp_z;
static unsigned *tp_count;

__constant__ float tp_edge[tp_bins + 1] = {
	1.0f,  0.99f, 0.97f, 0.94f, 0.9f, 0.85f, 0.79f, 0.72f,	0.64f,	0.55f, 0.45f,
	0.34f, 0.22f, 0.1f,  -.03f, -.16f, -.3f, -.45f, -.6f, -.8f, -1.0f};

__global__ void tpacf(const float *x, const float *y, const float *z, unsigned *count, int n)
{
	__shared__ unsigned bins[tp_threads / 32][tp_bins];
	__shared__ float ox[tp_threads], oy[tp_threads], oz[tp_threads];
	int i = blockIdx.x * tp_threads + threadIdx.x;
	float px = x[i], py = y[i], pz = z[i];

	for (int k = threadIdx.x; k < tp_threads / 32 * tp_bins; k += tp_threads)
		bins[k / tp_bins][k % tp_bins] = 0;
	for (int from = 0; from < n; from += tp_threads) {
		__syncthreads();
		ox[threadIdx.x] = x[from + threadIdx.x];
		oy[threadIdx.x] = y[from + threadIdx.x];
		oz[threadIdx.x] = z[from + threadIdx.x];
		__syncthreads();
		for (int j = 0; j < tp_threads; j++) {
			float dot = px * ox[j] + py * oy[j] + pz * oz[j];
			int low = 0, high = tp_bins;

			while (high > low + 1) {
				int middle = (low + high) / 2;

				if (dot >= tp_edge[middle])
					high = middle;
				else
					low = middle;
			}
			atomicAdd(&bins[threadIdx.x / 32][low], 1);
		}
	}
	__syncthreads();
	if (threadIdx.x < tp_bins) {
		unsigned all = 0;

		for (int w = 0; w < tp_threads / 32; w++)
			all += bins[w][threadIdx.x];
		atomicAdd(&count[threadIdx.x], all);
	}
}

static void tp_setup(enum size size)
{
	tp_n = size == TINY ? 512 : 33792 << (size - SMALL);
	tp_x = get_units(tp_n, 8, -0.57f, 0.57f);
	tp_y = get_units(tp_n, 9, -0.57f, 0.57f);
	tp_z = get_units(tp_n, 10, -0.57f, 0.57f);
	tp_count = get_result<unsigned>(tp_bins);
}

static void tp_round(void)
{
	tpacf<<<tp_n / tp_threads, tp_threads>>>(tp_x, tp_y, tp_z, tp_count, tp_n);
}

int main(int argc, char **argv)
{
	static const struct app apps[] = {
		{"binomialOptions", bo_setup, bo_round}, {"FDTD3d", fd_setup, fd_round},
		{"lavaMD", lm_setup, lm_round},		 {"MD5Hash", md_setup, md_round},
		{"nbody", nb_setup, nb_round},		 {"particlefilter", pf_setup, pf_round},
		{"tpacf", tp_setup, tp_round},
	};

	return rounds_main(argc, argv, apps, sizeof(apps) / sizeof(*apps));
}
