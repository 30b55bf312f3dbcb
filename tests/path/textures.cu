/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects against the CUDA programming guide's formulas, computed on
 * the CPU: dimensions, address modes, filters, normalized reads, layers, cubes, levels,
 * linear and pitched memory, gathers; surfaces and what happens at their edges.
 */
#include "check.h"

#include <cuda_fp16.h>

#define N 4096 /* samples of each kind */

/* ---- the reference ---- */

static long place(long i, long n, cudaTextureAddressMode mode, bool norm)
{
	if (i >= 0 && i < n)
		return i;
	if (!norm && (mode == cudaAddressModeWrap || mode == cudaAddressModeMirror))
		mode = cudaAddressModeClamp;
	if (mode == cudaAddressModeWrap)
		return (i % n + n) % n;
	if (mode == cudaAddressModeMirror) {
		long m = (i % (2 * n) + 2 * n) % (2 * n);

		return m < n ? m : 2 * n - 1 - m;
	}
	return mode == cudaAddressModeClamp ? (i < 0 ? 0 : n - 1) : -1;
}

struct image {
	long n[3];
	std::vector<float> v;
	float at(const long *i, int dims, cudaTextureAddressMode mode, bool norm) const
	{
		long at[3] = {0, 0, 0};

		for (int k = 0; k < dims; k++) {
			at[k] = place(i[k], n[k], mode, norm);
			if (at[k] < 0)
				return 0;
		}
		return v[(at[2] * n[1] + at[1]) * n[0] + at[0]];
	}
};

static float reference(const image &im, int dims, const float *c, cudaTextureAddressMode mode,
		       bool linear, bool norm)
{
	long base[3] = {0, 0, 0}, i[3] = {0, 0, 0};
	float alpha[3] = {0, 0, 0}, sum = 0;

	for (int k = 0; k < dims; k++) {
		float x = norm ? c[k] * im.n[k] : c[k];

		if (linear)
			x -= 0.5f;
		base[k] = (long)floorf(x);
		alpha[k] = linear ? roundf((x - floorf(x)) * 256) / 256 : 0;
	}
	for (int corner = 0; corner < 1 << dims; corner++) {
		float w = 1;

		for (int k = 0; k < dims; k++) {
			w *= corner >> k & 1 ? alpha[k] : 1 - alpha[k];
			i[k] = base[k] + (corner >> k & 1);
		}
		if (w > 0)
			sum += w * im.at(i, dims, mode, norm);
	}
	return sum;
}

/* True if rounding decides which texel is near: then nothing is compared. */
static bool doubtful(const image &im, int dims, const float *c, bool norm)
{
	for (int k = 0; k < dims; k++) {
		float x = norm ? c[k] * im.n[k] : c[k], f = x - floorf(x);

		if (f < 0.005f || f > 0.995f || fabsf(f - 0.5f) < 0.005f)
			return true;
	}
	return false;
}

/* ---- kernels ---- */

__global__ void sample(cudaTextureObject_t t, int dims, const float *c, float *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float x = c[3 * i], y = c[3 * i + 1], z = c[3 * i + 2];

	out[i] = dims == 1   ? tex1D<float>(t, x)
		 : dims == 2 ? tex2D<float>(t, x, y)
			     : tex3D<float>(t, x, y, z);
}

static cudaTextureDesc sampler(cudaTextureAddressMode mode, bool linear, bool norm,
			       int dims = 3)
{
	cudaTextureDesc d = {};

	/* An H200 filters a 1D texture as a row of a 2D one, where the second mode counts. */
	for (int k = 0; k < 3; k++)
		d.addressMode[k] = k < dims ? mode : cudaAddressModeClamp;
	d.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
	d.normalizedCoords = norm;
	return d;
}

static cudaTextureObject_t texture(cudaArray_t a, const cudaTextureDesc &d)
{
	cudaResourceDesc r = {};
	cudaTextureObject_t t;

	r.resType = cudaResourceTypeArray;
	r.res.array.array = a;
	CK(cudaCreateTextureObject(&t, &r, &d, nullptr));
	return t;
}

template <class T>
static cudaArray_t array3(long w, long h, long d, const std::vector<T> &v, unsigned flags)
{
	cudaChannelFormatDesc f = cudaCreateChannelDesc<T>();
	cudaArray_t a;
	cudaMemcpy3DParms p = {};
	size_t rows = h ? h : 1, slices = d ? d : 1;

	CK(cudaMalloc3DArray(&a, &f, make_cudaExtent(w, h, d), flags));
	p.srcPtr = make_cudaPitchedPtr((void *)v.data(), w * sizeof(T), w, rows);
	p.dstArray = a;
	p.extent = make_cudaExtent(w, rows, slices);
	p.kind = cudaMemcpyHostToDevice;
	CK(cudaMemcpy3D(&p));
	return a;
}

static void sampling(int dims)
{
	rng r(dims);
	image im = {{37, dims > 1 ? 19 : 1, dims > 2 ? 11 : 1}, {}};
	std::vector<float> coords(3 * N);

	im.v.resize(im.n[0] * im.n[1] * im.n[2]);
	for (auto &v : im.v)
		v = r.f32();
	cudaArray_t a = array3(im.n[0], dims > 1 ? im.n[1] : 0, dims > 2 ? im.n[2] : 0, im.v, 0);
	dev_array<float> c(3 * N), out(N);
	for (int variant = 0; variant < 16; variant++) {
		cudaTextureAddressMode mode = (cudaTextureAddressMode)(variant & 3);
		bool linear = variant & 4, norm = variant & 8;
		cudaTextureObject_t t = texture(a, sampler(mode, linear, norm, dims));

		for (int i = 0; i < 3 * N; i++)
			coords[i] = norm ? r.f32() * 2.2f : r.f32() * 60;
		CK(cudaMemcpy(c.p, coords.data(), 3 * N * sizeof(float), cudaMemcpyHostToDevice));
		sample<<<N / 128, 128>>>(t, dims, c.p, out.p);
		CK(cudaGetLastError());
		std::vector<float> got = out.get();
		for (int i = 0; i < N; i++) {
			float want = reference(im, dims, &coords[3 * i], mode, linear, norm);

			if (doubtful(im, dims, &coords[3 * i], norm))
				continue;
			if (!(fabsf(got[i] - want) <= (linear ? 0.012f : 0)))
				fail("%dD mode %d linear %d norm %d at %g,%g,%g: %g instead of %g",
				     dims, mode, linear, norm, coords[3 * i],
				     coords[3 * i + 1], coords[3 * i + 2], got[i], want);
		}
		CK(cudaDestroyTextureObject(t));
	}
	CK(cudaFreeArray(a));
}

/* ---- formats ---- */

__global__ void formats(cudaTextureObject_t bytes, cudaTextureObject_t norm,
			cudaTextureObject_t srgb, cudaTextureObject_t shorts,
			cudaTextureObject_t halves, float4 *f, uint4 *u, short2 *s)
{
	int i = threadIdx.x;

	uchar4 b = tex2D<uchar4>(bytes, i + 0.5f, 0.5f);
	u[i] = make_uint4(b.x, b.y, b.z, b.w);
	f[3 * i] = tex2D<float4>(norm, i + 0.5f, 0.5f);
	f[3 * i + 1] = tex2D<float4>(srgb, i + 0.5f, 0.5f);
	f[3 * i + 2] = tex2D<float4>(halves, i + 0.5f, 0.5f);
	s[i] = tex2D<short2>(shorts, i + 0.5f, 0.5f);
}

static float linear_of(int v)
{
	float f = v / 255.0f;

	return f <= 0.04045f ? f / 12.92f : powf((f + 0.055f) / 1.055f, 2.4f);
}

static void check_formats(void)
{
	std::vector<uchar4> b(64);
	std::vector<short2> s(64);
	std::vector<ushort4> h(64);
	rng r(9);
	cudaTextureDesc d = sampler(cudaAddressModeClamp, false, false), n = d, q;
	cudaChannelFormatDesc half_desc = cudaCreateChannelDescHalf4();
	cudaArray_t ab, as, ah;

	for (int i = 0; i < 64; i++) {
		unsigned v = r.u32();

		b[i] = make_uchar4(v, v >> 8, v >> 16, v >> 24);
		v = r.u32();
		s[i] = make_short2(v, v >> 16);
		h[i] = make_ushort4(__half_as_ushort(__float2half(r.f32())), 0x3c00, 0x0001, 0xc000);
	}
	ab = array3(64, 1, 0, b, 0);
	as = array3(64, 1, 0, s, 0);
	CK(cudaMallocArray(&ah, &half_desc, 64, 1));
	CK(cudaMemcpy2DToArray(ah, 0, 0, h.data(), 512, 512, 1, cudaMemcpyHostToDevice));
	n.readMode = cudaReadModeNormalizedFloat;
	q = n;
	q.sRGB = 1;
	cudaTextureObject_t t[] = {texture(ab, d), texture(ab, n), texture(ab, q),
				   texture(as, d), texture(ah, d)};
	dev_array<float4> f(3 * 64);
	dev_array<uint4> u(64);
	dev_array<short2> sh(64);
	formats<<<1, 64>>>(t[0], t[1], t[2], t[3], t[4], f.p, u.p, sh.p);
	CK(cudaDeviceSynchronize());
	auto gf = f.get();
	auto gu = u.get();
	auto gs = sh.get();
	for (int i = 0; i < 64; i++) {
		REQUIRE(gu[i].x == b[i].x && gu[i].y == b[i].y && gu[i].z == b[i].z &&
			gu[i].w == b[i].w);
		REQUIRE(gs[i].x == s[i].x && gs[i].y == s[i].y);
		REQUIRE(fabsf(gf[3 * i].x - b[i].x / 255.0f) < 1e-6f);
		REQUIRE(fabsf(gf[3 * i].w - b[i].w / 255.0f) < 1e-6f);
		/* an H200 has eight bits of it */
		REQUIRE(fabsf(gf[3 * i + 1].y - linear_of(b[i].y)) <=
			linear_of(b[i].y) / 200 + 1e-4f);
		REQUIRE(fabsf(gf[3 * i + 1].w - b[i].w / 255.0f) < 1e-6f);
		REQUIRE(gf[3 * i + 2].x == __half2float(__ushort_as_half(h[i].x)));
		REQUIRE(gf[3 * i + 2].y == 1 && gf[3 * i + 2].z == 0x1p-24f &&
			gf[3 * i + 2].w == -2);
	}
	for (auto o : t)
		CK(cudaDestroyTextureObject(o));
	CK(cudaFreeArray(ab));
	CK(cudaFreeArray(as));
	CK(cudaFreeArray(ah));
}

/* Channels that are not there are 0, and a border is a colour that a texel could have. */
__global__ void outside(cudaTextureObject_t t, float4 *out)
{
	out[0] = tex2D<float4>(t, 0.5f, 0.5f);
	out[1] = tex2D<float4>(t, -5.0f, 0.5f);
}

static void check_border(void)
{
	std::vector<float2> pairs(8 * 8, make_float2(3, 4));
	std::vector<unsigned char> bytes(8 * 8, 51);
	cudaTextureDesc d = sampler(cudaAddressModeBorder, false, false), n;
	dev_array<float4> out(2);

	d.borderColor[0] = 0.25f;
	d.borderColor[1] = 0.5f;
	d.borderColor[2] = 0.75f;
	d.borderColor[3] = 2;
	n = d;
	n.readMode = cudaReadModeNormalizedFloat;
	cudaArray_t a = array3(8, 8, 0, pairs, 0), b = array3(8, 8, 0, bytes, 0);
	cudaTextureObject_t t = texture(a, d), u = texture(b, n);
	outside<<<1, 1>>>(t, out.p);
	auto got = out.get();
	REQUIRE(got[0].x == 3 && got[0].y == 4 && got[0].z == 0 && got[0].w == 0);
	REQUIRE(got[1].x == 0.25f && got[1].y == 0.5f && got[1].z == 0 && got[1].w == 0);
	outside<<<1, 1>>>(u, out.p);
	got = out.get();
	REQUIRE(got[0].x == 0.2f && got[0].y == 0 && got[0].w == 0);
	REQUIRE(fabsf(got[1].x - 64 / 255.0f) < 1e-6f && got[1].y == 0 && got[1].w == 0);
	outside<<<1, 1>>>(0, out.p);
	got = out.get();
	REQUIRE(got[0].x == 0 && got[1].w == 0);
	CK(cudaDestroyTextureObject(t));
	CK(cudaDestroyTextureObject(u));
	CK(cudaFreeArray(a));
	CK(cudaFreeArray(b));
}

/* ---- memory that is no array ---- */

__global__ void linear_memory(cudaTextureObject_t t, cudaTextureObject_t p, int *out, float *f)
{
	int i = threadIdx.x;

	out[i] = tex1Dfetch<int>(t, i - 8);
	f[i] = tex2D<float>(p, i % 8 + 0.5f, i / 8 + 0.5f);
}

static void check_memory(void)
{
	const size_t pitch = 512;
	dev_array<int> v(112), out(128);
	dev_array<char> p(pitch * 16);
	dev_array<float> f(128);
	std::vector<int> in(112);
	std::vector<float> rows(pitch / 4 * 16);
	cudaResourceDesc r = {}, q = {};
	cudaTextureDesc d = sampler(cudaAddressModeClamp, false, false);
	cudaTextureObject_t t, u;

	for (int i = 0; i < 112; i++)
		in[i] = i * i - 77;
	for (size_t i = 0; i < rows.size(); i++)
		rows[i] = i * 0.25f;
	CK(cudaMemcpy(v.p, in.data(), 112 * 4, cudaMemcpyHostToDevice));
	CK(cudaMemcpy(p.p, rows.data(), pitch * 16, cudaMemcpyHostToDevice));
	r.resType = cudaResourceTypeLinear;
	r.res.linear.devPtr = v.p;
	r.res.linear.desc = cudaCreateChannelDesc<int>();
	r.res.linear.sizeInBytes = 112 * 4;
	CK(cudaCreateTextureObject(&t, &r, &d, nullptr));
	q.resType = cudaResourceTypePitch2D;
	q.res.pitch2D.devPtr = p.p;
	q.res.pitch2D.desc = cudaCreateChannelDesc<float>();
	q.res.pitch2D.width = 8;
	q.res.pitch2D.height = 16;
	q.res.pitch2D.pitchInBytes = pitch;
	CK(cudaCreateTextureObject(&u, &q, &d, nullptr));
	linear_memory<<<1, 128>>>(t, u, out.p, f.p);
	CK(cudaDeviceSynchronize());
	auto go = out.get();
	auto gf = f.get();
	for (int i = 0; i < 128; i++) {
		REQUIRE(go[i] == (i < 8 || i >= 120 ? 0 : in[i - 8]));
		REQUIRE(gf[i] == rows[i / 8 * pitch / 4 + i % 8]);
	}
	CK(cudaDestroyTextureObject(t));
	CK(cudaDestroyTextureObject(u));
	r.res.linear.devPtr = v.p + 1;
	EXPECT(cudaCreateTextureObject(&t, &r, &d, nullptr), cudaErrorInvalidValue);
	q.res.pitch2D.pitchInBytes = 272;
	EXPECT(cudaCreateTextureObject(&t, &q, &d, nullptr), cudaErrorInvalidValue);
}

/* ---- layers, cubes, gathers ---- */

__global__ void layers(cudaTextureObject_t l1, cudaTextureObject_t l2, cudaTextureObject_t cube,
		       const float *c, float *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float x = c[3 * i], y = c[3 * i + 1], z = c[3 * i + 2];

	out[3 * i] = tex1DLayered<float>(l1, fabsf(x) * 16, i % 5);
	out[3 * i + 1] = tex2DLayered<float>(l2, fabsf(x) * 16, fabsf(y) * 8, i % 5);
	out[3 * i + 2] = texCubemap<float>(cube, x, y, z);
}

static int face_of(const float *d, float *u, float *v)
{
	float x = fabsf(d[0]), y = fabsf(d[1]), z = fabsf(d[2]), ma, s, t;
	int face;

	if (x >= y && x >= z) {
		face = d[0] < 0;
		ma = x;
		s = d[0] < 0 ? d[2] : -d[2];
		t = -d[1];
	} else if (y >= z) {
		face = 2 + (d[1] < 0);
		ma = y;
		s = d[0];
		t = d[1] < 0 ? -d[2] : d[2];
	} else {
		face = 4 + (d[2] < 0);
		ma = z;
		s = d[2] < 0 ? -d[0] : d[0];
		t = -d[1];
	}
	*u = (s / ma + 1) / 2;
	*v = (t / ma + 1) / 2;
	return face;
}

static void check_layers(void)
{
	rng r(5);
	std::vector<float> one(16 * 5), two(16 * 8 * 5), cube(8 * 8 * 6), coords(3 * N);
	cudaTextureDesc d = sampler(cudaAddressModeClamp, false, false), n = d;

	n.normalizedCoords = 1;
	for (auto *v : {&one, &two, &cube, &coords})
		for (auto &x : *v)
			x = r.f32();
	cudaArray_t a1 = array3(16, 0, 5, one, cudaArrayLayered);
	cudaArray_t a2 = array3(16, 8, 5, two, cudaArrayLayered);
	cudaArray_t a3 = array3(8, 8, 6, cube, cudaArrayCubemap);
	cudaTextureObject_t t1 = texture(a1, d), t2 = texture(a2, d), t3 = texture(a3, n);
	dev_array<float> c(coords), out(3 * N);
	layers<<<N / 128, 128>>>(t1, t2, t3, c.p, out.p);
	CK(cudaDeviceSynchronize());
	auto got = out.get();
	for (int i = 0; i < N; i++) {
		const float *p = &coords[3 * i];
		float x = fabsf(p[0]) * 16, y = fabsf(p[1]) * 8, u, v;
		float fx = x - floorf(x), fy = y - floorf(y);

		if (fx < 0.99f && fx > 0.01f && fy < 0.99f && fy > 0.01f) {
			REQUIRE(got[3 * i] == one[i % 5 * 16 + (int)x]);
			REQUIRE(got[3 * i + 1] == two[(i % 5 * 8 + (int)y) * 16 + (int)x]);
		}
		int face = face_of(p, &u, &v);
		float fu = u * 8 - floorf(u * 8), fv = v * 8 - floorf(v * 8);

		if (fu < 0.02f || fu > 0.98f || fv < 0.02f || fv > 0.98f)
			continue;
		float want = cube[(face * 8 + (int)(v * 8)) * 8 + (int)(u * 8)];
		if (got[3 * i + 2] != want)
			fail("cube at %g,%g,%g: %g instead of %g", p[0], p[1], p[2],
			     got[3 * i + 2], want);
	}
	for (auto t : {t1, t2, t3})
		CK(cudaDestroyTextureObject(t));
	for (auto a : {a1, a2, a3})
		CK(cudaFreeArray(a));
}

__global__ void gather(cudaTextureObject_t t, float4 *out)
{
	int x = threadIdx.x, y = blockIdx.x;

	out[y * 8 + x] = tex2Dgather<float4>(t, x + 1.0f, y + 1.0f, 1);
}

static void check_gather(void)
{
	std::vector<float2> v(10 * 10);
	dev_array<float4> out(64);

	for (int i = 0; i < 100; i++)
		v[i] = make_float2(-1, i);
	cudaArray_t a = array3(10, 10, 0, v, cudaArrayTextureGather);
	cudaTextureObject_t t = texture(a, sampler(cudaAddressModeClamp, false, false));
	gather<<<8, 8>>>(t, out.p);
	CK(cudaDeviceSynchronize());
	auto got = out.get();
	for (int y = 0; y < 8; y++) {
		for (int x = 0; x < 8; x++) {
			float4 g = got[y * 8 + x];

			REQUIRE(g.x == (y + 1) * 10 + x && g.y == (y + 1) * 10 + x + 1);
			REQUIRE(g.z == y * 10 + x + 1 && g.w == y * 10 + x);
		}
	}
	CK(cudaDestroyTextureObject(t));
	CK(cudaFreeArray(a));
}

/* ---- levels ---- */

__global__ void levels(cudaTextureObject_t point, cudaTextureObject_t line, float *out)
{
	int i = threadIdx.x;

	out[i] = tex2DLod<float>(point, 0.5f, 0.5f, i * 0.125f + 0.03f);
	out[32 + i] = tex2DLod<float>(line, 0.5f, 0.5f, i * 0.125f);
	out[64 + i] = tex2DGrad<float>(point, 0.5f, 0.5f,
				       make_float2(exp2f(i % 4 + 0.1f) / 32, 0),
				       make_float2(0, 0));
}

__global__ void ints(cudaTextureObject_t t, int *out)
{
	out[blockIdx.x * 8 + threadIdx.x] =
		tex2D<int>(t, threadIdx.x + 0.5f, blockIdx.x + 0.5f);
}

static void check_levels(void)
{
	cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
	cudaTextureDesc d = sampler(cudaAddressModeClamp, false, true), l;
	cudaResourceDesc r = {};
	cudaMipmappedArray_t m;
	cudaTextureObject_t t, u;
	dev_array<float> out(96);

	CK(cudaMallocMipmappedArray(&m, &f, make_cudaExtent(32, 32, 0), 4));
	for (unsigned i = 0; i < 4; i++) {
		std::vector<float> v(32 * 32, (float)(i * 10));
		size_t w = 32 >> i;
		cudaArray_t a;

		CK(cudaGetMipmappedArrayLevel(&a, m, i));
		CK(cudaMemcpy2DToArray(a, 0, 0, v.data(), w * 4, w * 4, w,
				       cudaMemcpyHostToDevice));
	}
	r.resType = cudaResourceTypeMipmappedArray;
	r.res.mipmap.mipmap = m;
	d.maxMipmapLevelClamp = 3;
	l = d;
	l.mipmapFilterMode = cudaFilterModeLinear;
	l.filterMode = cudaFilterModeLinear;
	CK(cudaCreateTextureObject(&t, &r, &d, nullptr));
	CK(cudaCreateTextureObject(&u, &r, &l, nullptr));
	levels<<<1, 32>>>(t, u, out.p);
	CK(cudaDeviceSynchronize());
	auto got = out.get();
	for (int i = 0; i < 32; i++) {
		float lod = fminf(i * 0.125f + 0.03f, 3), line = fminf(i * 0.125f, 3) * 10;

		if (got[i] != floorf(lod + 0.5f) * 10)
			fail("level %g: %g", lod, got[i]);
		if (fabsf(got[32 + i] - line) > 0.1f)
			fail("between levels %g: %g instead of %g", lod, got[32 + i], line);
		if (got[64 + i] != i % 4 * 10)
			fail("gradient %d: %g", i % 4, got[64 + i]);
	}
	CK(cudaDestroyTextureObject(t));
	CK(cudaDestroyTextureObject(u));
	CK(cudaFreeMipmappedArray(m));
}

/* Floats read as integers, of two levels in the middle. */
static void check_view(void)
{
	cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
	cudaTextureDesc d = sampler(cudaAddressModeClamp, false, false);
	cudaResourceViewDesc v = {}, w;
	cudaResourceDesc r = {};
	cudaMipmappedArray_t m;
	cudaTextureObject_t t;
	dev_array<int> out(128);
	dev_array<float> unused(128);
	std::vector<float> in(32);
	cudaArray_t a;

	CK(cudaMallocMipmappedArray(&m, &f, make_cudaExtent(16, 8, 0), 3));
	for (int i = 0; i < 32; i++)
		in[i] = i * 0.37f - 5;
	CK(cudaGetMipmappedArrayLevel(&a, m, 1));
	CK(cudaMemcpy2DToArray(a, 0, 0, in.data(), 32, 32, 4, cudaMemcpyHostToDevice));
	r.resType = cudaResourceTypeArray; /* a level as an array of its own */
	r.res.array.array = a;
	v.format = cudaResViewFormatSignedInt1;
	v.width = 8;
	v.height = 4;
	CK(cudaCreateTextureObject(&t, &r, &d, &v));
	CK(cudaGetTextureObjectResourceViewDesc(&w, t));
	REQUIRE(w.format == cudaResViewFormatSignedInt1 && w.width == 8);
	ints<<<4, 8>>>(t, out.p);
	CK(cudaDeviceSynchronize());
	auto got = out.get();
	REQUIRE(memcmp(got.data(), in.data(), 32 * 4) == 0);
	CK(cudaDestroyTextureObject(t));
	v.format = cudaResViewFormatSignedShort1;
	EXPECT(cudaCreateTextureObject(&t, &r, &d, &v), cudaErrorInvalidValue);
	v.format = cudaResViewFormatSignedInt1;
	v.width = 16;
	EXPECT(cudaCreateTextureObject(&t, &r, &d, &v), cudaErrorInvalidValue);
	CK(cudaFreeMipmappedArray(m));
}

/* ---- surfaces ---- */

__global__ void surfaces(cudaSurfaceObject_t s2, cudaSurfaceObject_t s3, cudaSurfaceObject_t sl,
			 int *seen)
{
	int x = threadIdx.x, y = blockIdx.x;
	uchar4 v = surf2Dread<uchar4>(s2, x * 4, y);

	surf2Dwrite(make_uchar4(v.w, v.z, v.y, v.x), s2, x * 4, y);
	surf3Dwrite(x + 100 * y, s3, x * 4, y, 3);
	surf2DLayeredwrite((short)(x - y), sl, x * 2, y, 2);
	/* outside: nothing is written, zeroes are read, or the edge */
	surf3Dwrite(-1, s3, (x + 16) * 4, y, 3, cudaBoundaryModeZero);
	surf3Dwrite(-1, s3, x * 4, y, 5, cudaBoundaryModeZero);
	__syncthreads();
	seen[(y * 16 + x) * 2] = surf3Dread<int>(s3, (x + 16) * 4, y, 3, cudaBoundaryModeZero);
	seen[(y * 16 + x) * 2 + 1] =
		surf3Dread<int>(s3, (x + 16) * 4, y, 9, cudaBoundaryModeClamp);
}

static cudaSurfaceObject_t surface(cudaArray_t a)
{
	cudaResourceDesc r = {};
	cudaSurfaceObject_t s;

	r.resType = cudaResourceTypeArray;
	r.res.array.array = a;
	CK(cudaCreateSurfaceObject(&s, &r));
	return s;
}

static void check_surfaces(void)
{
	std::vector<uchar4> in(16 * 8), back(16 * 8);
	std::vector<int> vol(16 * 8 * 4, 7), vback(16 * 8 * 4);
	std::vector<short> lay(16 * 8 * 3, 9), lback(16 * 8 * 3);
	dev_array<int> seen(16 * 8 * 2);

	for (int i = 0; i < 128; i++)
		in[i] = make_uchar4(i, i + 1, i + 2, i + 3);
	cudaArray_t a2 = array3(16, 8, 0, in, cudaArraySurfaceLoadStore);
	cudaArray_t a3 = array3(16, 8, 4, vol, cudaArraySurfaceLoadStore);
	cudaArray_t al = array3(16, 8, 3, lay, cudaArraySurfaceLoadStore | cudaArrayLayered);
	cudaSurfaceObject_t s[] = {surface(a2), surface(a3), surface(al)};
	surfaces<<<8, 16>>>(s[0], s[1], s[2], seen.p);
	CK(cudaDeviceSynchronize());
	CK(cudaMemcpy2DFromArray(back.data(), 64, a2, 0, 0, 64, 8, cudaMemcpyDeviceToHost));
	cudaMemcpy3DParms p = {};
	p.srcArray = a3;
	p.dstPtr = make_cudaPitchedPtr(vback.data(), 64, 16, 8);
	p.extent = make_cudaExtent(16, 8, 4);
	p.kind = cudaMemcpyDeviceToHost;
	CK(cudaMemcpy3D(&p));
	p.srcArray = al;
	p.dstPtr = make_cudaPitchedPtr(lback.data(), 32, 16, 8);
	p.extent = make_cudaExtent(16, 8, 3);
	CK(cudaMemcpy3D(&p));
	auto got = seen.get();
	for (int i = 0; i < 128; i++) {
		int x = i % 16, y = i / 16;

		REQUIRE(back[i].x == in[i].w && back[i].y == in[i].z && back[i].w == in[i].x);
		for (int z = 0; z < 4; z++)
			REQUIRE(vback[z * 128 + i] == (z == 3 ? x + 100 * y : 7));
		for (int z = 0; z < 3; z++)
			REQUIRE(lback[z * 128 + i] == (z == 2 ? x - y : 9));
		REQUIRE(got[2 * i] == 0 && got[2 * i + 1] == 15 + 100 * y);
	}
	for (auto o : s)
		CK(cudaDestroySurfaceObject(o));
	for (auto a : {a2, a3, al})
		CK(cudaFreeArray(a));
}

static void check_descriptions(void)
{
	std::vector<float> v(64 * 8);
	cudaArray_t a = array3(64, 8, 0, v, 0);
	cudaTextureDesc d = sampler(cudaAddressModeMirror, true, true), e;
	cudaResourceDesc r = {}, s;
	cudaTextureObject_t t = texture(a, d);
	cudaExtent size;
	cudaChannelFormatDesc f;
	unsigned flags;

	CK(cudaGetTextureObjectResourceDesc(&s, t));
	REQUIRE(s.resType == cudaResourceTypeArray && s.res.array.array == a);
	CK(cudaGetTextureObjectTextureDesc(&e, t));
	REQUIRE(e.addressMode[1] == cudaAddressModeMirror &&
		e.filterMode == cudaFilterModeLinear && e.normalizedCoords);
	CK(cudaArrayGetInfo(&f, &size, &flags, a));
	REQUIRE(size.width == 64 && size.height == 8 && size.depth == 0 && f.x == 32 && !f.y);
	CK(cudaDestroyTextureObject(t));
	EXPECT(cudaGetTextureObjectResourceDesc(&s, t), cudaErrorInvalidValue);
	cudaGetLastError();
	r.resType = cudaResourceTypeArray;
	EXPECT(cudaCreateTextureObject(&t, &r, &d, nullptr), cudaErrorInvalidResourceHandle);
	CK(cudaFreeArray(a));
}

int main(void)
{
	check_name = "textures";
	for (int dims = 1; dims <= 3; dims++)
		sampling(dims);
	check_formats();
	check_border();
	check_memory();
	check_layers();
	check_gather();
	check_levels();
	check_view();
	check_surfaces();
	check_descriptions();
	return pass();
}
