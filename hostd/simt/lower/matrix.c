/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering of matrix instructions. PTX fixes which lane holds which element for mma; for
 * wmma it does not, and elements are dealt out in order.
 *
 * With u elements in a register, g = lane / 4 and t = lane % 4, register k of A holds row
 * g + 8 (k % 2), columns 4 u (k / 2) + u t and up (matrices of 8 rows: row g, columns 4 u
 * k + u t); that of B holds column g, rows 4 u k + u t and up; C and D hold pairs: row
 * g + 8 (k / 2), columns 2 t and 2 t + 1.
 */
#include <errno.h>

#include "simt/lower/lower.h"
#include "simt/handlers/mma.h"

static int mma_type(unsigned t)
{
	switch (t) {
	case PTX_T_F16:
		return MMA_F16;
	case PTX_T_BF16:
		return MMA_BF16;
	case PTX_T_TF32:
		return MMA_TF32;
	case PTX_T_F32:
		return MMA_F32;
	case PTX_T_F64:
		return MMA_F64;
	case PTX_T_E4M3:
		return MMA_E4M3;
	case PTX_T_E5M2:
		return MMA_E5M2;
	case PTX_T_S32:
		return MMA_S32;
	case PTX_T_S8:
		return MMA_S8;
	case PTX_T_U8:
		return MMA_U8;
	case PTX_T_S4:
		return MMA_S4;
	case PTX_T_U4:
		return MMA_U4;
	case PTX_T_B1:
		return MMA_B1;
	default:
		return -1;
	}
}

struct pos_key {
	uint16_t height, width;
	uint8_t kind; /* enum ptx_frag, or 8 for wmma */
	uint8_t per_row, num_rows;
};

/* Tables are shared by all instructions of a shape. */
struct simt_pos {
	struct simt_pos *next;
	struct pos_key key;
	uint16_t pos[];
};

#define KIND_WMMA 8

static uint16_t place(const struct pos_key *q, unsigned e, unsigned lane)
{
	unsigned u = q->per_row, k = e / u, j = e % u, g = lane / 4, t = lane % 4;
	unsigned y, x;

	switch (q->kind) {
	case PTX_FRAG_A:
		y = q->height == 16 ? g + 8 * (k % 2) : g;
		x = 4 * u * (q->height == 16 ? k / 2 : k) + u * t + j;
		break;
	case PTX_FRAG_B:
		y = 4 * u * k + u * t + j;
		x = g;
		break;
	case KIND_WMMA: /* f16 has room for each element twice */
		return (uint16_t)((e * SIMT_WARP + lane) % (q->height * q->width));
	default:
		y = g + 8 * (e / 2);
		x = 2 * t + e % 2;
		break;
	}
	return (uint16_t)(y * q->width + x);
}

static const uint16_t *positions(struct lower *l, const struct pos_key *key)
{
	unsigned n = (unsigned)key->per_row * key->num_rows;
	struct simt_pos *p;

	for (p = l->prog->positions; p; p = p->next)
		if (!memcmp(&p->key, key, sizeof(*key)))
			return p->pos;
	p = simt_program_alloc(l->prog, sizeof(*p) + n * SIMT_WARP * sizeof(*p->pos));
	if (!p)
		return NULL;
	p->key = *key;
	for (unsigned e = 0; e < n; e++)
		for (unsigned i = 0; i < SIMT_WARP; i++)
			p->pos[e * SIMT_WARP + i] = place(key, e, i);
	p->next = l->prog->positions;
	l->prog->positions = p;
	return p->pos;
}

/* Describes the fragment in operand o: a matrix of height x width. */
static int make_frag(struct lower *l, const struct ptx_opnd *o, unsigned type,
		     unsigned kind, unsigned height, unsigned width, bool dest,
		     struct mma_frag *f)
{
	const struct ptx_opnd *e = o->kind == PTX_O_VEC ? o->elem : o;
	unsigned n = o->kind == PTX_O_VEC ? o->n : 1, reg;
	int t = mma_type(type);
	struct pos_key key;

	if (t < 0)
		return lower_refuse(l, ptx_type_name(type));
	if (n > ARRAY_SIZE(f->row))
		return lower_refuse(l, "fragment");
	f->type = (uint8_t)t;
	f->bits = (uint8_t)(ptx_type_bits(type));
	reg = f->bits == 64 ? 64 : 32;
	f->num_rows = (uint8_t)n;
	f->per_row = (uint8_t)(reg / f->bits);
	f->height = (uint16_t)height;
	f->width = (uint16_t)width;
	memset(&key, 0, sizeof(key));
	key.height = f->height;
	key.width = f->width;
	key.kind = (uint8_t)kind;
	key.per_row = f->per_row;
	key.num_rows = f->num_rows;
	if (kind == KIND_WMMA ? n * f->per_row * SIMT_WARP % (height * width)
			      : n * f->per_row * SIMT_WARP != height * width)
		return lower_refuse(l, "fragment size");
	f->pos = positions(l, &key);
	if (!f->pos)
		return -ENOMEM;
	for (unsigned k = 0; k < n; k++)
		f->row[k] = dest ? lower_dst(l, &e[k], reg) : lower_src(l, &e[k], reg);
	return 0;
}

static const char *mma_handler(const struct simt_mma *q)
{
	if (q->a.type == MMA_F64)
		return "mma.f64";
	return q->d.type == MMA_S32 ? "mma.s32" : "mma.f32";
}

/* The handlers keep whole matrices on the stack. */
static bool fits(const struct simt_mma *q)
{
	unsigned a = (unsigned)q->m * q->k, b = (unsigned)q->k * q->n,
		 c = (unsigned)q->m * q->n;
	unsigned most = MAX(MAX(a, b), c);

	if (q->a.type == MMA_F64)
		return most <= 256;
	return most <= (q->d.type == MMA_S32 ? MMA_MAX_ELEMS : MMA_MAX_DIM * 32) &&
	       c <= MMA_MAX_DIM * MMA_MAX_DIM;
}

static int lower_mma(struct lower *l, const struct ptx_insn *in)
{
	bool wmma = in->op == PTX_WMMA_MMA;
	struct simt_mma *q = simt_program_alloc(l->prog, sizeof(*q));
	unsigned m, n, k;
	struct simt_op *op;
	size_t at;
	int r;

	if (!q)
		return -ENOMEM;
	ptx_shape_dims(in->shape, &m, &n, &k);
	if (!wmma && in->shape == PTX_SHAPE_M8N8K4 && in->type[1] == PTX_T_F16)
		return lower_refuse(l, "m8n8k4 of f16");
	q->m = (uint16_t)m;
	q->n = (uint16_t)n;
	q->k = (uint16_t)k;
	q->sat = in->flags & (PTX_F_SATFINITE | PTX_F_SAT);
	q->op = in->sub == PTX_MMA_XOR_POPC   ? MMA_XOR_POPC
		: in->sub == PTX_MMA_AND_POPC ? MMA_AND_POPC
					      : MMA_MULADD;
	r = make_frag(l, &in->o[1], in->type[1], wmma ? KIND_WMMA : PTX_FRAG_A, m, k,
		      false, &q->a);
	if (r == 0)
		r = make_frag(l, &in->o[2], in->type[2], wmma ? KIND_WMMA : PTX_FRAG_B, k,
			      n, false, &q->b);
	if (r == 0)
		r = make_frag(l, &in->o[3], in->type[3], wmma ? KIND_WMMA : PTX_FRAG_C, m,
			      n, false, &q->c);
	if (r == 0)
		r = make_frag(l, &in->o[0], in->type[0], wmma ? KIND_WMMA : PTX_FRAG_C, m,
			      n, true, &q->d);
	if (r == 0 && !fits(q))
		r = lower_refuse(l, "shape");
	if (r == 0)
		r = lower_guard_begin(l, true, &at);
	if (r < 0)
		return r;
	op = lower_emit(l, "%s", mma_handler(q));
	if (!op)
		return l->error;
	op->ext = (const int32_t *)(const void *)q;
	return lower_guard_end(l, true, at);
}

/* An operation of the whole warp on memory at addr; lower_guard_end() has to follow. */
static int emit_at(struct lower *l, const struct ptx_insn *in,
		   const struct ptx_opnd *addr, const char *name, size_t *ret_at,
		   struct simt_op **ret_op)
{
	struct lower_addr a;
	int r = lower_address(l, addr, in->space, 16, &a);

	if (r == 0)
		r = lower_guard_begin(l, true, ret_at);
	if (r < 0)
		return r;
	if (a.disp != (int32_t)a.disp)
		return lower_refuse(l, "displacement");
	*ret_op = lower_emit(l, "%s", name);
	if (!*ret_op)
		return l->error;
	(*ret_op)->a = a.a;
	(*ret_op)->x = a.x;
	(*ret_op)->y = a.y & ~8u;
	(*ret_op)->e = (int32_t)a.disp;
	return 0;
}

static int lower_wmma(struct lower *l, const struct ptx_insn *in)
{
	bool load = in->op == PTX_WMMA_LOAD;
	const struct ptx_opnd *frag = &in->o[load ? 0 : 1], *addr = &in->o[load ? 1 : 0];
	unsigned kind = load ? in->sub : PTX_FRAG_D, m, n, k, h, w;
	struct simt_wmma *q = simt_program_alloc(l->prog, sizeof(*q));
	struct simt_op *op;
	size_t at;
	int r;

	if (!q)
		return -ENOMEM;
	ptx_shape_dims(in->shape, &m, &n, &k);
	h = kind == PTX_FRAG_B ? k : m;
	w = kind == PTX_FRAG_A ? k : n;
	r = make_frag(l, frag, in->type[0], KIND_WMMA, h, w, load, &q->f);
	if (r < 0)
		return r;
	q->col = in->layout[0] == PTX_L_COL;
	if (in->nopnds > 2 && in->o[2].kind != PTX_O_NONE)
		q->stride = lower_src(l, &in->o[2], 32);
	else
		q->stride = lower_konst(l, 32, q->col ? h : w);
	r = emit_at(l, in, addr, load ? "wmma.load" : "wmma.store", &at, &op);
	if (r < 0)
		return r;
	op->ext = (const int32_t *)(const void *)q;
	return lower_guard_end(l, true, at);
}

static int lower_ldmatrix(struct lower *l, const struct ptx_insn *in)
{
	bool load = in->op == PTX_LDMATRIX;
	const struct ptx_opnd *v = &in->o[load ? 0 : 1], *addr = &in->o[load ? 1 : 0];
	const struct ptx_opnd *e = v->kind == PTX_O_VEC ? v->elem : v;
	unsigned n = v->kind == PTX_O_VEC ? v->n : 1;
	int32_t *rows = simt_program_alloc(l->prog, 4 * sizeof(*rows));
	struct simt_op *op;
	size_t at;
	int r;

	if (!rows)
		return -ENOMEM;
	if (in->type[0] != PTX_T_B16 || (n != 1 && n != 2 && n != 4))
		return lower_refuse(l, "shape");
	for (unsigned k = 0; k < n; k++)
		rows[k] = load ? lower_dst(l, &e[k], 32) : lower_src(l, &e[k], 32);
	r = emit_at(l, in, addr, load ? "ldmatrix" : "stmatrix", &at, &op);
	if (r < 0)
		return r;
	op->n = n;
	op->c = in->flags & PTX_F_TRANS ? 1 : 0;
	op->ext = rows;
	return lower_guard_end(l, true, at);
}

static int lower_movmatrix(struct lower *l, const struct ptx_insn *in)
{
	int32_t a = lower_src(l, &in->o[1], 32), d = lower_dst(l, &in->o[0], 32);
	struct simt_op *op;
	size_t at;
	int r = lower_guard_begin(l, true, &at);

	if (r < 0)
		return r;
	op = lower_emit(l, "movmatrix");
	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	return lower_guard_end(l, true, at);
}

int lower_matrix(struct lower *l, const struct ptx_insn *in)
{
	switch (in->op) {
	case PTX_WMMA_LOAD:
	case PTX_WMMA_STORE:
		return lower_wmma(l, in);
	case PTX_LDMATRIX:
	case PTX_STMATRIX:
		return lower_ldmatrix(l, in);
	case PTX_MOVMATRIX:
		return lower_movmatrix(l, in);
	default:
		return lower_mma(l, in);
	}
}
