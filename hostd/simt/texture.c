/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling, as the CUDA programming guide describes it: coordinates, address modes, and
 * linear weights of 8 fractional bits. Where it is silent (cube edges are not filtered
 * across faces, anisotropy does nothing) this is the simplest thing.
 */
#include <math.h>

#include "simt/mem.h"
#include "simt/handlers/sample.h"

#include "ptx/ptx_isa.h"

#define COORD_MAX 1073741824.0f /* beyond it nothing but an edge is met */

/* One sample in progress. */
struct sample {
	struct simt_warp *w;
	const struct simt_texture *t;
	const struct simt_tex_level *l;
	unsigned dims;
	uint32_t layer; /* of what has layers, or faces */
	uint64_t bad;   /* address that may not be read */
};

/* ---- texels ---- */

static float half_bits(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 1023;
	uint32_t bits;
	float f;

	if (exp == 31)
		bits = sign | 0x7f800000 | man << 13;
	else if (exp)
		bits = sign | (exp + 112) << 23 | man << 13;
	else {
		f = (float)man * 0x1p-24f;
		return sign ? -f : f;
	}
	memcpy(&f, &bits, sizeof(f));
	return f;
}

static bool reads_float(const struct simt_texture *t)
{
	return t->texel >= SIMT_TEXEL_FLOAT;
}

static float from_srgb(float v)
{
	return v <= 0.04045f ? v / 12.92f : powf((v + 0.055f) / 1.055f, 2.4f);
}

static uint32_t channel_raw(const struct simt_texture *t, const uint8_t *p)
{
	switch (t->channel_bytes) {
	case 1:
		return t->texel == SIMT_TEXEL_SINT || t->texel == SIMT_TEXEL_SNORM
			       ? (uint32_t)(int8_t)*p
			       : *p;
	case 2: {
		uint16_t v;

		memcpy(&v, p, sizeof(v));
		return t->texel == SIMT_TEXEL_SINT || t->texel == SIMT_TEXEL_SNORM
			       ? (uint32_t)(int16_t)v
			       : v;
	}
	default: {
		uint32_t v;

		memcpy(&v, p, sizeof(v));
		return v;
	}
	}
}

static float channel_float(const struct simt_texture *t, unsigned k, uint32_t raw)
{
	float max, f;

	switch (t->texel) {
	case SIMT_TEXEL_FLOAT:
		if (t->channel_bytes == 2)
			return half_bits((uint16_t)raw);
		memcpy(&f, &raw, sizeof(f));
		return f;
	case SIMT_TEXEL_UNORM:
		f = (float)raw / (t->channel_bytes == 1 ? 255.0f : 65535.0f);
		return t->srgb && k < 3 ? from_srgb(f) : f;
	default:
		max = t->channel_bytes == 1 ? 127.0f : 32767.0f;
		return fmaxf((float)(int32_t)raw / max, -1.0f);
	}
}

static uint32_t float_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

/* The texel at x, y, z of the level; channels that it has not are 0. */
static bool load(struct sample *s, uint32_t x, uint32_t y, uint32_t z, uint32_t ret[4])
{
	const struct simt_texture *t = s->t;
	unsigned size = t->channels * t->channel_bytes;
	uint64_t addr =
		s->l->addr + z * s->l->slice + y * s->l->pitch + (uint64_t)x * size;
	const uint8_t *p = simt_resolve(s->w, MEM_GLOBAL, addr, size, SIMT_PERM_READ, 0);

	if (!p) {
		s->bad = addr;
		return false;
	}
	memset(ret, 0, 4 * sizeof(*ret));
	for (unsigned k = 0; k < t->channels; k++) {
		ret[k] = channel_raw(t, p + k * t->channel_bytes);
		if (reads_float(t))
			ret[k] = float_bits(channel_float(t, k, ret[k]));
	}
	return true;
}

/* The colour as a texel could have it. */
static float border_float(const struct simt_texture *t, float v)
{
	float max = t->texel == SIMT_TEXEL_UNORM ? 1 : 0.5f;

	if (t->texel == SIMT_TEXEL_FLOAT)
		return v;
	max = t->channel_bytes == 1 ? 256 * max - 1 : 65536 * max - 1;
	v = fminf(fmaxf(v, t->texel == SIMT_TEXEL_UNORM ? 0 : -1), 1);
	return rintf(v * max) / max;
}

static uint32_t border_int(float v)
{
	return fabsf(v) < 0x1p31f ? (uint32_t)(int32_t)v : 0;
}

static void border(const struct sample *s, uint32_t ret[4])
{
	const struct simt_texture *t = s->t;

	memset(ret, 0, 4 * sizeof(*ret));
	for (unsigned k = 0; k < t->channels; k++)
		ret[k] = reads_float(t) ? float_bits(border_float(t, t->border[k]))
					: border_int(t->border[k]);
}

static uint32_t extent(const struct sample *s, unsigned axis)
{
	return axis == 0 ? s->l->width : axis == 1 ? s->l->height : s->l->depth;
}

/* Brings an index into [0, n) as the address mode says; false: it is the border's. */
static bool place(const struct sample *s, unsigned axis, int64_t *i)
{
	int64_t n = extent(s, axis), m;
	unsigned mode = s->t->address[axis];

	if (*i >= 0 && *i < n)
		return true;
	if (!s->t->normalized && (mode == SIMT_TEX_WRAP || mode == SIMT_TEX_MIRROR))
		mode = SIMT_TEX_CLAMP;
	switch ((enum simt_tex_address)mode) {
	case SIMT_TEX_WRAP:
		m = *i % n;
		*i = m < 0 ? m + n : m;
		return true;
	case SIMT_TEX_MIRROR:
		m = *i % (2 * n);
		if (m < 0)
			m += 2 * n;
		*i = m < n ? m : 2 * n - 1 - m;
		return true;
	case SIMT_TEX_CLAMP:
		*i = *i < 0 ? 0 : n - 1;
		return true;
	case SIMT_TEX_BORDER:
		break;
	}
	return false;
}

/* The texel with these indexes, whatever they are. */
static bool texel(struct sample *s, const int64_t index[3], uint32_t ret[4])
{
	int64_t i[3] = {index[0], index[1], index[2]};

	for (unsigned k = 0; k < s->dims; k++) {
		if (!place(s, k, &i[k])) {
			border(s, ret);
			return true;
		}
	}
	for (unsigned k = s->dims; k < 3; k++)
		i[k] = 0;
	if (s->dims < 3)
		i[2] = MIN(s->layer, s->l->depth - 1);
	return load(s, (uint32_t)i[0], (uint32_t)i[1], (uint32_t)i[2], ret);
}

/* ---- filters ---- */

static float texel_coord(const struct sample *s, unsigned axis, float c)
{
	if (s->t->normalized)
		c *= (float)extent(s, axis);
	if (!(fabsf(c) <= COORD_MAX)) /* NaN as well */
		c = c > 0 ? COORD_MAX : c < 0 ? -COORD_MAX : 0;
	return c;
}

static bool nearest(struct sample *s, const float *c, uint32_t ret[4])
{
	int64_t i[3] = {0};

	for (unsigned k = 0; k < s->dims; k++)
		i[k] = (int64_t)floorf(texel_coord(s, k, c[k]));
	return texel(s, i, ret);
}

static bool linear(struct sample *s, const float *c, float sum[4])
{
	float alpha[3] = {0}, v;
	int64_t base[3] = {0}, i[3];
	uint32_t raw[4];

	for (unsigned k = 0; k < s->dims; k++) {
		float x = texel_coord(s, k, c[k]) - 0.5f, whole = floorf(x);

		base[k] = (int64_t)whole;
		alpha[k] = rintf((x - whole) * 256.0f) / 256.0f;
	}
	memset(sum, 0, 4 * sizeof(*sum));
	for (unsigned corner = 0; corner < 1u << s->dims; corner++) {
		float weight = 1;

		for (unsigned k = 0; k < s->dims; k++) {
			bool far = corner >> k & 1;

			weight *= far ? alpha[k] : 1 - alpha[k];
			i[k] = base[k] + far;
		}
		if (weight == 0)
			continue;
		if (!texel(s, i, raw))
			return false;
		for (unsigned k = 0; k < 4; k++) {
			memcpy(&v, &raw[k], sizeof(v));
			sum[k] += weight * v;
		}
	}
	return true;
}

/* One level, filtered if that is asked for and has a meaning. */
static bool level(struct sample *s, unsigned index, const float *c, uint32_t ret[4])
{
	float sum[4];

	s->l = &s->t->level[index];
	if (!s->t->linear || !reads_float(s->t))
		return nearest(s, c, ret);
	if (!linear(s, c, sum))
		return false;
	for (unsigned k = 0; k < 4; k++)
		ret[k] = float_bits(sum[k]);
	return true;
}

/* ---- levels of detail ---- */

static float length3(const struct simt_texture *t, unsigned dims, const float *d)
{
	const struct simt_tex_level *l = &t->level[0];
	float size[3] = {(float)l->width, (float)l->height, (float)l->depth}, sum = 0;

	for (unsigned k = 0; k < dims; k++) {
		float v = t->normalized ? d[k] * size[k] : d[k];

		sum += v * v;
	}
	return sqrtf(sum);
}

static float lod_of(const struct sample *s, enum simt_tex_lod kind, const float *a,
		    const float *b)
{
	const struct simt_texture *t = s->t;
	float lod = 0;

	if (kind == SIMT_LOD_LEVEL)
		lod = a[0];
	else if (kind == SIMT_LOD_GRAD)
		lod = log2f(fmaxf(length3(t, s->dims, a), length3(t, s->dims, b)));
	lod = fmaxf(fminf(lod + t->bias, t->max_lod), t->min_lod);
	lod = fmaxf(fminf(lod, (float)(t->num_levels - 1)), 0);
	return lod == lod ? lod : 0;
}

static bool levels(struct sample *s, float lod, const float *c, uint32_t ret[4])
{
	unsigned lower = (unsigned)lod;
	float part = rintf((lod - (float)lower) * 256.0f) / 256.0f, v[2];
	uint32_t far[4];

	if (!s->t->mip_linear || !reads_float(s->t))
		return level(s, (unsigned)(lod + 0.5f), c, ret);
	if (!level(s, lower, c, ret))
		return false;
	if (part == 0)
		return true;
	if (!level(s, lower + 1, c, far))
		return false;
	for (unsigned k = 0; k < 4; k++) {
		memcpy(&v[0], &ret[k], sizeof(v[0]));
		memcpy(&v[1], &far[k], sizeof(v[1]));
		ret[k] = float_bits((1 - part) * v[0] + part * v[1]);
	}
	return true;
}

/* ---- geometries ---- */

/*
 * The face that a direction points to, and where: the greatest component decides. faces
 * in the order +x -x +y -y +z -z. Returns the length of that component.
 */
static float cube_face(const float d[3], unsigned *ret_face, float ret_c[2])
{
	float x = fabsf(d[0]), y = fabsf(d[1]), z = fabsf(d[2]), ma, sc, tc;

	if (x >= y && x >= z) {
		*ret_face = d[0] < 0;
		ma = x;
		sc = d[0] < 0 ? d[2] : -d[2];
		tc = -d[1];
	} else if (y >= z) {
		*ret_face = 2 + (d[1] < 0);
		ma = y;
		sc = d[0];
		tc = d[1] < 0 ? -d[2] : d[2];
	} else {
		*ret_face = 4 + (d[2] < 0);
		ma = z;
		sc = d[2] < 0 ? -d[0] : d[0];
		tc = -d[1];
	}
	ret_c[0] = ma > 0 ? (sc / ma + 1) / 2 : 0.5f;
	ret_c[1] = ma > 0 ? (tc / ma + 1) / 2 : 0.5f;
	return ma;
}

static unsigned dims_of(unsigned geom)
{
	switch ((enum ptx_geom)geom) {
	case PTX_G_1D:
	case PTX_G_A1D:
		return 1;
	case PTX_G_3D:
		return 3;
	default:
		return 2;
	}
}

static bool sample_cube(struct sample *s, const struct simt_tex_at *at,
			enum simt_tex_lod kind, const float *a, const float *b,
			uint32_t ret[4])
{
	float c[2], ma, da[2] = {0}, db[2] = {0}, lod;
	struct simt_texture cube = *s->t;
	unsigned face;

	/* coordinates on a face are from 0 to 1, whatever the texture says */
	ma = cube_face(at->c, &face, c);
	cube.normalized = true;
	cube.address[0] = cube.address[1] = SIMT_TEX_CLAMP;
	s->t = &cube;
	s->layer = (at->geom == PTX_G_ACUBE ? at->layer * 6 : 0) + face;
	if (kind == SIMT_LOD_GRAD && ma > 0) {
		da[0] = sqrtf(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]) / (2 * ma);
		db[0] = sqrtf(b[0] * b[0] + b[1] * b[1] + b[2] * b[2]) / (2 * ma);
	} else if (kind == SIMT_LOD_LEVEL) {
		da[0] = a[0];
	}
	lod = lod_of(s, kind, da, db);
	return levels(s, lod, c, ret);
}

static bool fetch(struct sample *s, const struct simt_tex_at *at, uint32_t ret[4])
{
	int64_t i[3] = {at->index[0], at->index[1], at->index[2]};

	s->l = &s->t->level[0];
	for (unsigned k = 0; k < s->dims; k++) {
		if (i[k] < 0 || i[k] >= extent(s, k)) {
			memset(ret, 0, 4 * sizeof(*ret));
			return true;
		}
	}
	return texel(s, i, ret);
}

bool simt_tex_sample(struct simt_warp *w, const struct simt_texture *t,
		     const struct simt_tex_at *at, enum simt_tex_lod kind, const float *a,
		     const float *b, uint32_t ret[4], uint64_t *ret_addr)
{
	struct sample s = {.w = w, .t = t, .dims = dims_of(at->geom)};
	bool ok;

	if (at->geom == PTX_G_A1D || at->geom == PTX_G_A2D)
		s.layer = at->layer;
	if (at->fetch)
		ok = fetch(&s, at, ret);
	else if (at->geom >= PTX_G_CUBE)
		ok = sample_cube(&s, at, kind, a, b, ret);
	else
		ok = levels(&s, lod_of(&s, kind, a, b), at->c, ret);
	*ret_addr = s.bad;
	return ok;
}

bool simt_tex_gather(struct simt_warp *w, const struct simt_texture *t,
		     const struct simt_tex_at *at, unsigned component, uint32_t ret[4],
		     uint64_t *ret_addr)
{
	static const uint8_t corner[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
	struct sample s = {.w = w, .t = t, .l = &t->level[0], .dims = 2};
	int64_t base[2], i[3] = {0};
	uint32_t raw[4];

	if (at->geom == PTX_G_A2D)
		s.layer = at->layer;
	for (unsigned k = 0; k < 2; k++)
		base[k] = (int64_t)floorf(texel_coord(&s, k, at->c[k]) - 0.5f);
	for (unsigned n = 0; n < 4; n++) {
		i[0] = base[0] + corner[n][0];
		i[1] = base[1] + corner[n][1];
		if (!texel(&s, i, raw)) {
			*ret_addr = s.bad;
			return false;
		}
		ret[n] = raw[component & 3];
	}
	return true;
}
