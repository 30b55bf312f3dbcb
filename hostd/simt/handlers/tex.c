/* SPDX-License-Identifier: Apache-2.0 */
/* Textures and surfaces, a lane at a time. An object that does not exist is a fault. */
#include "simt/cta.h"
#include "simt/mem.h"
#include "simt/handlers/sample.h"
#include "simt/tex.h"

#include "ptx/ptx_isa.h"

static const struct simt_texture *object(struct simt_warp *w, const struct simt_op *op,
					 const uint8_t *r, int32_t row, unsigned lane)
{
	const struct simt_memory *mem = w->cta->launch->mem;
	u64 value = SRC(u64, row)[lane];
	const struct simt_texture *t = NULL;

	if (value < mem->num_textures)
		t = __atomic_load_n(&mem->textures[value], __ATOMIC_ACQUIRE);
	if (!t)
		simt_raise_mem(w, op, SIMT_FAULT_ADDRESS, lane, value, 0, false);
	return t;
}

static void read_at(const struct simt_warp *w, const struct simt_op *op, const uint8_t *r,
		    unsigned lane, struct simt_tex_at *ret)
{
	ret->geom = op->x;
	ret->layer = SRC(u32, op->ext[TEX_LAYER])[lane];
	for (unsigned k = 0; k < 3; k++) {
		ret->index[k] = SRC(s32, op->ext[TEX_C + k])[lane];
		ret->c[k] = SRC(f32, op->ext[TEX_C + k])[lane];
	}
}

/* op->n: component of a gather; 0x100: integer coordinates */
static SIMT_HANDLER(tex)
{
	uint32_t v[SIMT_WARP][4];

	FOR_LANES(m, k)
	{
		struct simt_tex_at at = {.fetch = op->n >> 8};
		const struct simt_texture *t;
		f32 a[3], b[3];
		u64 bad;
		bool ok;

		memset(v[k], 0, sizeof(v[k]));
		if (!SRC(u64, op->ext[TEX_OBJECT])[k])
			continue; /* as on an H200, nothing is there, and may be read */
		t = object(w, op, r, op->ext[TEX_OBJECT], k);
		if (!t)
			return NULL;
		read_at(w, op, r, k, &at);
		for (unsigned j = 0; j < 3; j++) {
			a[j] = SRC(f32, op->ext[TEX_A + j])[k];
			b[j] = SRC(f32, op->ext[TEX_B + j])[k];
		}
		if (op->y == TEX_GATHER)
			ok = simt_tex_gather(w, t, &at, op->n & 3, v[k], &bad);
		else
			ok = simt_tex_sample(w, t, &at, (enum simt_tex_lod)op->y, a, b,
					     v[k], &bad);
		if (!ok)
			return simt_raise_mem(w, op, SIMT_FAULT_ADDRESS, k, bad,
					      t->channels * t->channel_bytes, false);
	}
	for (unsigned j = 0; j < 4; j++) {
		if (op->ext[TEX_D + j] < 0)
			continue;
		FOR_LANES(m, k)
		DST(u32, op->ext[TEX_D + j])[k] = v[k][j];
	}
	if (op->ext[TEX_P] >= 0) /* nothing is sparse: all texels are there */
		*DST(uint32_t, op->ext[TEX_P]) |= m;
	return op + 1;
}

/* ---- surfaces ---- */

/* Where an element of n bytes is. 0: outside, and nothing is to be done. */
static u64 surface_at(struct simt_warp *w, const struct simt_op *op,
		      const struct simt_texture *t, const struct simt_tex_at *at,
		      unsigned bytes, unsigned lane, bool *ret_fault)
{
	const struct simt_tex_level *l = &t->level[0];
	s64 row = (s64)l->width * t->channels * t->channel_bytes;
	s64 c[3] = {at->index[0], 0, 0}, max[3];

	switch ((enum ptx_geom)op->x) {
	case PTX_G_3D:
		c[2] = at->index[2];
		c[1] = at->index[1];
		break;
	case PTX_G_A2D:
		c[2] = (s32)at->layer;
		c[1] = at->index[1];
		break;
	case PTX_G_A1D:
		c[2] = (s32)at->layer;
		break;
	case PTX_G_2D:
		c[1] = at->index[1];
		break;
	default:
		break;
	}
	if (c[0] & (bytes - 1)) { /* whatever the boundary mode */
		*ret_fault = true;
		simt_raise_mem(w, op, SIMT_FAULT_MISALIGNED, lane, (u64)c[0], bytes,
			       false);
		return 0;
	}
	max[0] = row - (s64)bytes;
	max[1] = (s64)l->height - 1;
	max[2] = (s64)l->depth - 1;
	for (unsigned k = 0; k < 3; k++) {
		if (c[k] >= 0 && c[k] <= max[k])
			continue;
		if (op->y == PTX_BOUND_TRAP || max[k] < 0) {
			*ret_fault = true;
			simt_raise_mem(w, op, SIMT_FAULT_ADDRESS, lane, (u64)c[k], bytes,
				       false);
			return 0;
		}
		if (op->y == PTX_BOUND_ZERO)
			return 0;
		c[k] = c[k] < 0 ? 0 : max[k];
	}
	return l->addr + (u64)c[2] * l->slice + (u64)c[1] * l->pitch + (u64)c[0];
}

/* The memory of a lane's element: NULL with *ret_fault, or NULL: outside. */
static void *surface_place(struct simt_warp *w, const struct simt_op *op,
			   const uint8_t *r, unsigned lane, unsigned perm,
			   bool *ret_fault)
{
	unsigned bytes = (op->n & 255) * (op->n >> 8 & 255);
	const struct simt_texture *t = object(w, op, r, op->ext[TEX_OBJECT], lane);
	struct simt_tex_at at = {0};
	void *p;
	u64 addr;

	*ret_fault = !t;
	if (!t)
		return NULL;
	read_at(w, op, r, lane, &at);
	addr = surface_at(w, op, t, &at, bytes, lane, ret_fault);
	if (!addr)
		return NULL;
	p = simt_resolve(w, MEM_GLOBAL, addr, bytes, perm, lane);
	if (!p) {
		*ret_fault = true;
		simt_raise_mem(w, op, SIMT_FAULT_ADDRESS, lane, addr, bytes,
			       perm == SIMT_PERM_WRITE);
	}
	return p;
}

static void put_reg(uint8_t *r, int32_t row, unsigned reg, unsigned lane, u64 v)
{
	if (reg == 2)
		DST(u16, row)[lane] = (u16)v;
	else if (reg == 4)
		DST(u32, row)[lane] = (u32)v;
	else
		DST(u64, row)[lane] = v;
}

static u64 get_reg(const struct simt_warp *w, const uint8_t *r, int32_t row, unsigned reg,
		   unsigned lane)
{
	if (reg == 2)
		return SRC(u16, row)[lane];
	if (reg == 4)
		return SRC(u32, row)[lane];
	return SRC(u64, row)[lane];
}

static SIMT_HANDLER(suld)
{
	unsigned size = op->n & 255, n = op->n >> 8 & 255, reg = op->n >> 16;
	u64 v[SIMT_WARP][4] = {{0}};
	bool fault;

	FOR_LANES(m, k)
	{
		const uint8_t *p = surface_place(w, op, r, k, SIMT_PERM_READ, &fault);

		if (fault)
			return NULL;
		for (unsigned j = 0; p && j < n; j++)
			memcpy(&v[k][j], p + (size_t)j * size, size);
	}
	for (unsigned j = 0; j < n; j++) {
		if (op->ext[TEX_D + j] < 0)
			continue;
		FOR_LANES(m, k)
		put_reg(r, op->ext[TEX_D + j], reg, k, v[k][j]);
	}
	return op + 1;
}

static SIMT_HANDLER(sust)
{
	unsigned size = op->n & 255, n = op->n >> 8 & 255, reg = op->n >> 16;
	bool fault;

	FOR_LANES(m, k)
	{
		uint8_t *p = surface_place(w, op, r, k, SIMT_PERM_WRITE, &fault);

		if (fault)
			return NULL;
		for (unsigned j = 0; p && j < n; j++) {
			u64 v = get_reg(w, r, op->ext[TEX_D + j], reg, k);

			memcpy(p + (size_t)j * size, &v, size);
		}
	}
	return op + 1;
}

static SIMT_HANDLER(txq)
{
	FOR_LANES(m, k)
	{
		const struct simt_texture *t = object(w, op, r, op->a, k);

		if (!t)
			return NULL;
		DST(u32, op->d)
		[k] = op->n == PTX_Q_WIDTH    ? t->level[0].width
		      : op->n == PTX_Q_HEIGHT ? t->level[0].height
					      : t->level[0].depth;
	}
	return op + 1;
}

const struct simt_handler simt_h_tex[] = {
	{"tex", tex}, {"suld", suld}, {"sust", sust}, {"txq", txq}, {NULL, NULL}};
