/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of textures and surfaces; op->x is the geometry, ext as tex.h says. */
#include <errno.h>

#include "simt/lower/lower.h"
#include "simt/tex.h"

static bool has_layer(unsigned geom)
{
	return geom == PTX_G_A1D || geom == PTX_G_A2D || geom == PTX_G_ACUBE;
}

/* At most three rows; what a vector is padded with is left out. */
static void coord_rows(struct lower *l, const struct ptx_opnd *v, unsigned from,
		       int32_t *rows)
{
	for (unsigned k = 0; k < 3; k++)
		rows[k] = from + k < v->n ? lower_src(l, &v->elem[from + k], 32)
					  : lower_konst(l, 32, 0);
}

static int32_t *ext_new(struct lower *l, const struct ptx_opnd *object,
			const struct ptx_opnd *coords, unsigned geom)
{
	int32_t *ext = simt_program_alloc(l->prog, TEX_NUM_EXT * sizeof(*ext));

	if (!ext)
		return NULL;
	for (unsigned k = 0; k < TEX_NUM_EXT; k++)
		ext[k] = lower_konst(l, 64, 0);
	ext[TEX_P] = -1;
	ext[TEX_OBJECT] = lower_src(l, object, 64);
	if (has_layer(geom))
		ext[TEX_LAYER] = lower_src(l, &coords->elem[0], 32);
	coord_rows(l, coords, has_layer(geom), &ext[TEX_C]);
	return ext;
}

static int emit(struct lower *l, const char *name, const struct ptx_insn *in,
		const int32_t *ext, unsigned y, uint32_t n)
{
	struct simt_op *op = lower_emit(l, "%s", name);

	if (!op)
		return l->error;
	op->x = in->mode;
	op->y = (uint8_t)y;
	op->n = n;
	op->ext = ext;
	return 0;
}

static void dst_rows(struct lower *l, const struct ptx_opnd *v, int32_t *rows)
{
	for (unsigned k = 0; k < 4; k++)
		rows[k] = k < v->n && v->elem[k].kind == PTX_O_REG
				  ? l->row[v->elem[k].idx]
				  : -1;
}

static int lower_sample(struct lower *l, const struct ptx_insn *in)
{
	bool is_int = in->type[1] == PTX_T_S32;
	int32_t *ext = ext_new(l, &in->o[2], &in->o[3], in->mode);
	unsigned kind = TEX_BASE;

	if (!ext)
		return -ENOMEM;
	dst_rows(l, &in->o[0], &ext[TEX_D]);
	ext[TEX_P] = lower_pred_dst(l, &in->o[1]);
	if (in->op == PTX_TEX_LEVEL) {
		kind = TEX_AT_LEVEL;
		ext[TEX_A] = lower_src(l, &in->o[4], 32);
	} else if (in->op == PTX_TEX_GRAD) {
		kind = TEX_BY_GRAD;
		coord_rows(l, &in->o[4], 0, &ext[TEX_A]);
		coord_rows(l, &in->o[5], 0, &ext[TEX_B]);
	} else if (in->op == PTX_TLD4) {
		kind = TEX_GATHER;
	}
	return emit(l, "tex", in, ext, kind, in->sub | (is_int ? 0x100u : 0));
}

/* n: bytes of an element, how many, bytes of their registers, what is done outside */
static int lower_surface(struct lower *l, const struct ptx_insn *in)
{
	bool load = in->op == PTX_SULD;
	const struct ptx_opnd *place = &in->o[load ? 1 : 0], *v = &in->o[load ? 0 : 2];
	unsigned bits = ptx_type_bits(in->type[0]), reg = bits < 16 ? 16 : bits;
	int32_t *ext = ext_new(l, &place[0], &place[1], in->mode);

	if (!ext)
		return -ENOMEM;
	for (unsigned k = 0; k < v->n; k++)
		if (v->elem[k].kind == PTX_O_REG)
			reg = lower_reg_bits(l, v->elem[k].idx);
	if (load)
		dst_rows(l, v, &ext[TEX_D]);
	else
		for (unsigned k = 0; k < v->n; k++)
			ext[TEX_D + k] = lower_src(l, &v->elem[k], reg);
	return emit(l, load ? "suld" : "sust", in, ext, in->sub,
		    bits / 8 | (uint32_t)v->n << 8 | reg / 8 << 16);
}

static int lower_query(struct lower *l, const struct ptx_insn *in)
{
	int32_t d = lower_dst(l, &in->o[0], 32), a = lower_src(l, &in->o[1], 64);
	struct simt_op *op = lower_emit(l, "txq");

	if (!op)
		return l->error;
	op->d = d;
	op->a = a;
	op->n = in->sub;
	return 0;
}

int lower_tex(struct lower *l, const struct ptx_insn *in)
{
	switch (in->op) {
	case PTX_SULD:
	case PTX_SUST:
		return lower_surface(l, in);
	case PTX_TXQ:
	case PTX_SUQ:
		return lower_query(l, in);
	default:
		return lower_sample(l, in);
	}
}
