/* SPDX-License-Identifier: Apache-2.0 */
/* weft: needs=nvcc */
/*
 * The ten programs of PILOT's Table II, written anew, and its pageDoS (Listing 1), whose size is
 * a number of MiB. rounds.h has the words; `managed` is how the paper's programs get their
 * memory. Sizes are the table's, but for gaussian, of which a round does the first columns only.
 */
#include "rounds.h"

/* ---- backprop: a layer of 16 units over many inputs, forth and back */

static const int bp_units = 16;
static size_t bp_n;
static float *bp_in, *bp_weight, *bp_old, *bp_part, *bp_delta;

__global__ void layer_forward(const float *in, const float *weight, float *part)
{
	__shared__ float product[bp_units][bp_units];
	size_t i = blockIdx.x * (size_t)bp_units + threadIdx.y;

	product[threadIdx.y][threadIdx.x] = in[i] * weight[i * bp_units + threadIdx.x];
	for (int half = bp_units / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.y < half)
			product[threadIdx.y][threadIdx.x] +=
				product[threadIdx.y + half][threadIdx.x];
	}
	if (!threadIdx.y)
		part[blockIdx.x * (size_t)bp_units + threadIdx.x] = product[0][threadIdx.x];
}

__global__ void adjust_weights(const float *in, const float *delta, float *weight, float *old,
			       size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n * bp_units;
	     i += gridDim.x * (size_t)blockDim.x) {
		float step = 0.3f * delta[i % bp_units] * in[i / bp_units] + 0.3f * old[i];

		weight[i] += step;
		old[i] = step;
	}
}

static void bp_setup(enum size size)
{
	static const size_t n[] = {256, 65536, 1 << 20, 3400000 / 16 * 16};

	bp_n = n[size];
	bp_in = get_units(bp_n, 1);
	bp_weight = get_units(bp_n * bp_units, 2);
	bp_old = get_result<float>(bp_n * bp_units);
	bp_part = get<float>(bp_n);
	bp_delta = get_units(bp_units, 3);
}

static void bp_round(void)
{
	layer_forward<<<(unsigned)(bp_n / bp_units), dim3(bp_units, bp_units)>>>(bp_in, bp_weight,
										  bp_part);
	adjust_weights<<<blocks_of(bp_n), threads_each>>>(bp_in, bp_delta, bp_weight, bp_old,
							    bp_n);
}

/* ---- bfs: levels of a graph of six random edges from each node */

static const int bf_degree = 6;
static unsigned bf_n;
static unsigned *bf_edge;
static unsigned char *bf_front, *bf_next, *bf_seen;
static int *bf_cost, *bf_more;

__global__ void bfs_edges(unsigned *edge, unsigned n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < (size_t)n * bf_degree)
		edge[i] = mixed((unsigned)i) % n;
}

__global__ void bfs_expand(const unsigned *edge, unsigned char *front, unsigned char *next,
			   const unsigned char *seen, int *cost, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n || !front[i])
		return;
	front[i] = 0;
	for (int k = 0; k < bf_degree; k++) {
		unsigned to = edge[(size_t)i * bf_degree + k];

		if (!seen[to]) {
			cost[to] = cost[i] + 1;
			next[to] = 1;
		}
	}
}

__global__ void bfs_advance(unsigned char *front, unsigned char *next, unsigned char *seen,
			    int *more, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n || !next[i])
		return;
	front[i] = 1;
	seen[i] = 1;
	next[i] = 0;
	*more = 1;
}

static void bf_setup(enum size size)
{
	static const unsigned n[] = {1000, 1000000, 26000000, 134000000};

	bf_n = n[size];
	bf_edge = get<unsigned>((size_t)bf_n * bf_degree);
	bfs_edges<<<blocks_of((size_t)bf_n * bf_degree), threads_each>>>(bf_edge, bf_n);
	bf_front = get<unsigned char>(bf_n);
	bf_next = get<unsigned char>(bf_n);
	bf_seen = get<unsigned char>(bf_n);
	bf_cost = get_result<int>(bf_n);
	CHECK(cudaMallocHost(&bf_more, sizeof(*bf_more)));
}

static void bf_round(void)
{
	CHECK(cudaMemsetAsync(bf_front, 0, bf_n));
	CHECK(cudaMemsetAsync(bf_next, 0, bf_n));
	CHECK(cudaMemsetAsync(bf_seen, 0, bf_n));
	CHECK(cudaMemsetAsync(bf_cost, 0, bf_n * sizeof(int)));
	CHECK(cudaMemsetAsync(bf_front, 1, 1));
	CHECK(cudaMemsetAsync(bf_seen, 1, 1));
	do {
		CHECK(cudaStreamSynchronize(0));
		*bf_more = 0;
		bfs_expand<<<blocks_of(bf_n), threads_each>>>(bf_edge, bf_front, bf_next, bf_seen,
							      bf_cost, bf_n);
		bfs_advance<<<blocks_of(bf_n), threads_each>>>(bf_front, bf_next, bf_seen, bf_more,
							       bf_n);
		CHECK(cudaStreamSynchronize(0));
	} while (*bf_more);
}

/* ---- hs3d: heat in a plate of 16 layers */

static const int hs_layers = 16, hs_steps = 10;
static int hs_n;
static float *hs_in, *hs_out, *hs_power;

__global__ void heat(const float *in, const float *power, float *out, int n)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
	size_t plane = (size_t)n * n, at = (size_t)y * n + x;
	int w = x > 0 ? -1 : 0, e = x < n - 1 ? 1 : 0, s = y > 0 ? -n : 0, t = y < n - 1 ? n : 0;
	float below = in[at], here = below, above;

	for (int z = 0; z < hs_layers; z++, at += plane) {
		above = z < hs_layers - 1 ? in[at + plane] : here;
		out[at] = 0.4f * here + 0.1f * (in[at + w] + in[at + e] + in[at + s] + in[at + t] +
						below + above) +
			  0.01f * power[at];
		below = here;
		here = above;
	}
}

static void hs_setup(enum size size)
{
	static const int n[] = {32, 512, 2048, 4096};
	size_t all;

	hs_n = n[size];
	all = (size_t)hs_n * hs_n * hs_layers;
	hs_in = get_units(all, 4, 300, 340);
	hs_power = get_units(all, 5);
	hs_out = get_result<float>(all);
}

static void hs_round(void)
{
	dim3 block(32, 8), grid(hs_n / block.x, hs_n / block.y);

	for (int i = 0; i < hs_steps; i += 2) {
		heat<<<grid, block>>>(hs_in, hs_power, hs_out, hs_n);
		heat<<<grid, block>>>(hs_out, hs_power, hs_in, hs_n);
	}
}

/* ---- partfilter: particles that follow something through ten frames of a film */

static const int pf_frames = 10, pf_particles = 16384, pf_points = 69;
static int pf_n;
static unsigned char *pf_film;
static float *pf_x, *pf_y, *pf_weight, *pf_sum, *pf_nx, *pf_ny;

__global__ void film(unsigned char *p, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = (unsigned char)mixed((unsigned)i);
}

__global__ void likelihood(const unsigned char *film, const float *px, const float *py,
			   float *weight, int n, int frame)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;

	if (i >= pf_particles)
		return;
	for (int k = 0; k < pf_points; k++) {
		int x = (int)(px[i] * n) + k % 9 - 4, y = (int)(py[i] * n) + k / 9 - 4;
		float v = film[((size_t)frame * n + (y + n) % n) * n + (x + n) % n];

		sum += ((v - 100) * (v - 100) - (v - 228) * (v - 228)) / 50;
	}
	weight[i] = expf(sum / pf_points / 500);
}

/* One block: sums of a part each, then of the parts. */
__global__ void sums(const float *weight, float *sum)
{
	__shared__ float part[threads_each];
	const int each = pf_particles / threads_each;
	float before = 0, all = 0;

	for (int i = 0; i < each; i++)
		before += weight[threadIdx.x * each + i];
	part[threadIdx.x] = before;
	__syncthreads();
	before = 0;
	for (int i = 0; i < threads_each; i++) {
		if (i == (int)threadIdx.x)
			before = all;
		all += part[i];
	}
	for (int i = 0; i < each; i++) {
		before += weight[threadIdx.x * each + i];
		sum[threadIdx.x * each + i] = before / all;
	}
}

__global__ void resample(const float *sum, const float *px, const float *py, float *nx, float *ny)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, at = pf_particles - 1;

	if (i >= pf_particles)
		return;
	for (int k = 0; k < pf_particles; k++)
		if (sum[k] >= (i + 0.5f) / pf_particles) {
			at = k;
			break;
		}
	nx[i] = px[at] * 0.99f + 0.01f * unit(i);
	ny[i] = py[at] * 0.99f + 0.01f * unit(i + pf_particles);
}

static void pf_setup(enum size size)
{
	static const int n[] = {64, 1024, 4096, 10240};
	size_t all;

	pf_n = n[size];
	all = (size_t)pf_n * pf_n * pf_frames;
	pf_film = get<unsigned char>(all);
	film<<<blocks_of(all), threads_each>>>(pf_film, all);
	pf_x = get_units(pf_particles, 6);
	pf_y = get_units(pf_particles, 7);
	pf_weight = get<float>(pf_particles);
	pf_sum = get<float>(pf_particles);
	pf_ny = get<float>(pf_particles);
	pf_nx = get_result<float>(pf_particles);
}

static void pf_round(void)
{
	for (int f = 0; f < pf_frames; f++) {
		likelihood<<<blocks_of(pf_particles), threads_each>>>(pf_film, pf_x, pf_y,
								      pf_weight, pf_n, f);
		sums<<<1, threads_each>>>(pf_weight, pf_sum);
		resample<<<blocks_of(pf_particles), threads_each>>>(pf_sum, pf_x, pf_y, pf_nx,
								    pf_ny);
		std::swap(pf_x, pf_nx);
		std::swap(pf_y, pf_ny);
	}
}

/* ---- lavamd: particles in boxes feel those of the boxes around */

static const int lm_each = 100, lm_threads = 128;
static int lm_n;
static float4 *lm_at, *lm_force;

__global__ void lavamd(const float4 *at, float4 *force, int n)
{
	__shared__ float4 near[lm_each];
	int bx = blockIdx.x % n, by = blockIdx.x / n % n, bz = blockIdx.x / n / n;
	float4 own = at[(size_t)blockIdx.x * lm_each + threadIdx.x % lm_each];
	float4 f = make_float4(0, 0, 0, 0);

	for (int k = 0; k < 27; k++) {
		int x = bx + k % 3 - 1, y = by + k / 3 % 3 - 1, z = bz + k / 9 - 1;

		if (x < 0 || y < 0 || z < 0 || x >= n || y >= n || z >= n)
			continue;
		__syncthreads();
		if (threadIdx.x < lm_each)
			near[threadIdx.x] =
				at[((size_t)(z * n + y) * n + x) * lm_each + threadIdx.x];
		__syncthreads();
		for (int j = 0; j < lm_each; j++) {
			float dx = own.x - near[j].x, dy = own.y - near[j].y, dz = own.z - near[j].z;
			float v = expf(-0.5f * (dx * dx + dy * dy + dz * dz));

			f.x += near[j].w * v * dx;
			f.y += near[j].w * v * dy;
			f.z += near[j].w * v * dz;
			f.w += near[j].w * v;
		}
	}
	if (threadIdx.x < lm_each)
		force[(size_t)blockIdx.x * lm_each + threadIdx.x] = f;
}

static void lm_setup(enum size size)
{
	static const int n[] = {2, 10, 50, 100};
	size_t all;

	lm_n = n[size];
	all = (size_t)lm_n * lm_n * lm_n * lm_each;
	lm_at = (float4 *)get_units(4 * all, 8);
	lm_force = get_result<float4>(all);
}

static void lm_round(void)
{
	lavamd<<<lm_n * lm_n * lm_n, lm_threads>>>(lm_at, lm_force, lm_n);
}

/* ---- nn: how far each place is from one */

static size_t nn_n;
static float2 *nn_place;
static float *nn_far;

__global__ void distance_to(const float2 *place, float *far_, size_t n, float x, float y)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		far_[i] = sqrtf((place[i].x - x) * (place[i].x - x) +
				(place[i].y - y) * (place[i].y - y));
}

static void nn_setup(enum size size)
{
	static const size_t n[] = {4000, 4000000, 40000000, 400000000};

	nn_n = n[size];
	nn_place = (float2 *)get_units(2 * nn_n, 9, -90, 90);
	nn_far = get_result<float>(nn_n);
}

static void nn_round(void)
{
	distance_to<<<blocks_of(nn_n), threads_each>>>(nn_place, nn_far, nn_n, 30, 50);
}

/* ---- gaussian: columns of an elimination */

static const int ge_columns = 32;
static int ge_n;
static float *ge_a, *ge_m, *ge_b;

__global__ void multipliers(const float *a, float *m, int n, int k)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x + k + 1;

	if (i < n)
		m[(size_t)i * n + k] = a[(size_t)i * n + k] / a[(size_t)k * n + k];
}

__global__ void eliminate(float *a, const float *m, float *b, int n, int k)
{
	int j = blockIdx.x * blockDim.x + threadIdx.x + k;
	int i = blockIdx.y * blockDim.y + threadIdx.y + k + 1;

	if (i >= n || j >= n)
		return;
	a[(size_t)i * n + j] -= m[(size_t)i * n + k] * a[(size_t)k * n + j];
	if (j == k)
		b[i] -= m[(size_t)i * n + k] * b[k];
}

__global__ void diagonal(float *a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		a[(size_t)i * n + i] += n;
}

static void ge_setup(enum size size)
{
	static const int n[] = {64, 4096, 8192, 12288};
	size_t all;

	ge_n = n[size];
	all = (size_t)ge_n * ge_n;
	ge_m = get<float>(all);
	ge_b = get_units(ge_n, 11);
	ge_a = get_units(all, 10);
	diagonal<<<blocks_of(ge_n), threads_each>>>(ge_a, ge_n);
	result = ge_a;
	result_bytes = all * sizeof(*ge_a);
}

static void ge_round(void)
{
	for (int k = 0; k < ge_columns; k++) {
		unsigned left = ge_n - k;

		multipliers<<<blocks_of(left), threads_each>>>(ge_a, ge_m, ge_n, k);
		eliminate<<<dim3(blocks_of(left, 16), blocks_of(left, 16)), dim3(16, 16)>>>(
			ge_a, ge_m, ge_b, ge_n, k);
	}
}

/* ---- corr: correlation of columns */

static int co_n;
static float *co_data, *co_mean, *co_deviation, *co_corr;

__global__ void means(const float *data, float *mean, int n)
{
	int j = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;

	if (j >= n)
		return;
	for (int i = 0; i < n; i++)
		sum += data[(size_t)i * n + j];
	mean[j] = sum / n;
}

__global__ void deviations(const float *data, const float *mean, float *deviation, int n)
{
	int j = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;

	if (j >= n)
		return;
	for (int i = 0; i < n; i++) {
		float d = data[(size_t)i * n + j] - mean[j];

		sum += d * d;
	}
	deviation[j] = fmaxf(sqrtf(sum / n), 0.005f);
}

__global__ void centre(float *centred, const float *data, const float *mean,
		       const float *deviation, int n)
{
	int j = blockIdx.x * blockDim.x + threadIdx.x;
	int i = blockIdx.y * blockDim.y + threadIdx.y;

	if (i < n && j < n)
		centred[(size_t)i * n + j] = (data[(size_t)i * n + j] - mean[j]) /
					     (sqrtf((float)n) * deviation[j]);
}

__global__ void correlate(const float *centred, float *corr, int n)
{
	int j = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y;
	float sum = 0;

	if (j >= n)
		return;
	for (int i = 0; i < n; i++)
		sum += centred[(size_t)i * n + k] * centred[(size_t)i * n + j];
	corr[(size_t)k * n + j] = sum;
}

static float *co_centred;

static void co_setup(enum size size)
{
	static const int n[] = {64, 2048, 4096, 8192};
	size_t all;

	co_n = n[size];
	all = (size_t)co_n * co_n;
	co_data = get_units(all, 12);
	co_centred = get<float>(all);
	co_mean = get<float>(co_n);
	co_deviation = get<float>(co_n);
	co_corr = get_result<float>(all);
}

static void co_round(void)
{
	dim3 block(32, 8);

	means<<<blocks_of(co_n), threads_each>>>(co_data, co_mean, co_n);
	deviations<<<blocks_of(co_n), threads_each>>>(co_data, co_mean, co_deviation, co_n);
	centre<<<dim3(blocks_of(co_n, block.x), blocks_of(co_n, block.y)), block>>>(
		co_centred, co_data, co_mean, co_deviation, co_n);
	correlate<<<dim3(blocks_of(co_n), co_n), threads_each>>>(co_centred, co_corr, co_n);
}

/* ---- gesummv: y = a A x + b B x, a row for each thread */

static int gs_n;
static float *gs_a, *gs_b, *gs_x, *gs_y;

__global__ void rows(const float *a, const float *b, const float *x, float *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float p = 0, q = 0;

	if (i >= n)
		return;
	for (int j = 0; j < n; j++) {
		p += a[(size_t)i * n + j] * x[j];
		q += b[(size_t)i * n + j] * x[j];
	}
	y[i] = 1.5f * p + 0.5f * q;
}

static void gs_setup(enum size size)
{
	static const int n[] = {64, 4096, 8192, 16384};
	size_t all;

	gs_n = n[size];
	all = (size_t)gs_n * gs_n;
	gs_a = get_units(all, 13);
	gs_b = get_units(all, 14);
	gs_x = get_units(gs_n, 15);
	gs_y = get_result<float>(gs_n);
}

static void gs_round(void)
{
	rows<<<blocks_of(gs_n), threads_each>>>(gs_a, gs_b, gs_x, gs_y, gs_n);
}

/* ---- 2dconvol: three by three */

static int cv_n;
static float *cv_in, *cv_out;

__global__ void convolve(const float *in, float *out, int n)
{
	int j = blockIdx.x * blockDim.x + threadIdx.x;
	int i = blockIdx.y * blockDim.y + threadIdx.y;
	const float w[3][3] = {{0.2f, 0.5f, -0.8f}, {-0.3f, 0.6f, -0.9f}, {0.4f, 0.7f, 0.1f}};
	float sum = 0;

	if (i < 1 || j < 1 || i >= n - 1 || j >= n - 1)
		return;
	for (int y = 0; y < 3; y++)
		for (int x = 0; x < 3; x++)
			sum += w[y][x] * in[(size_t)(i + y - 1) * n + j + x - 1];
	out[(size_t)i * n + j] = sum;
}

static void cv_setup(enum size size)
{
	static const int n[] = {64, 252, 8192, 18432};
	size_t all;

	cv_n = n[size];
	all = (size_t)cv_n * cv_n;
	cv_in = get_units(all, 16);
	cv_out = get_result<float>(all);
}

static void cv_round(void)
{
	dim3 block(32, 8);

	convolve<<<dim3(blocks_of(cv_n, block.x), blocks_of(cv_n, block.y)), block>>>(cv_in, cv_out,
										      cv_n);
}

/* ---- pageDoS: a word of each page, and again */

static const int dos_page = 4096;
static size_t dos_pages;
static float *dos_at;

__global__ void page_dos(float *at, size_t pages)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < pages;
	     i += gridDim.x * (size_t)blockDim.x)
		at[i * (dos_page / sizeof(float))] += 1;
}

static void dos_setup(enum size)
{
	dos_at = get<float>(dos_pages * (dos_page / sizeof(float)));
	CHECK(cudaMemset(dos_at, 0, dos_pages * dos_page));
	result = dos_at;
	result_bytes = dos_pages * dos_page;
}

static void dos_round(void)
{
	page_dos<<<256, threads_each>>>(dos_at, dos_pages);
}

int main(int argc, char **argv)
{
	static const struct app apps[] = {
		{"backprop", bp_setup, bp_round}, {"bfs", bf_setup, bf_round},
		{"hs3d", hs_setup, hs_round},	  {"partfilter", pf_setup, pf_round},
		{"lavamd", lm_setup, lm_round},	  {"nn", nn_setup, nn_round},
		{"gaussian", ge_setup, ge_round}, {"corr", co_setup, co_round},
		{"gesummv", gs_setup, gs_round},  {"2dconvol", cv_setup, cv_round},
		{"pageDoS", dos_setup, dos_round},
	};
	char tiny[] = "tiny";

	if (argc > 3 && !strcmp(argv[1], "pageDoS")) {
		dos_pages = strtoull(argv[2], NULL, 10) * (1 << 20) / dos_page;
		argv[2] = tiny;
	}
	return rounds_main(argc, argv, apps, sizeof(apps) / sizeof(*apps));
}
