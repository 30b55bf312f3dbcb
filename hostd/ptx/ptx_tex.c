/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and surfaces, by object: the texture is a register. References, the
 * independent mode of samplers, offsets and depth comparison are not there.
 */
#include <errno.h>

#include "ptx/ptx_form.h"

#define MAX_COORDS 4

/* Coordinates of each geometry without the layer, and how many the text may pad to. */
static const struct {
	uint8_t dims, padded;
	bool layer;
} geoms[] = {
	[PTX_G_1D] = {1, 1, false},   [PTX_G_2D] = {2, 2, false},
	[PTX_G_3D] = {3, 4, false},   [PTX_G_A1D] = {1, 1, true},
	[PTX_G_A2D] = {2, 3, true},   [PTX_G_CUBE] = {3, 4, false},
	[PTX_G_ACUBE] = {3, 3, true},
};

static int unsupported(struct ptx_parser *p, const struct ptx_insn *in)
{
	int r = ptx_err(p, "Form of instruction '%s' not supported by this device",
			ptx_op_name(in->op));

	return r == -EINVAL ? -ENOTSUP : r;
}

/* {a, b}, or a alone; the first is of type head. At least min elements, at most max. */
static int vector(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type head,
		  enum ptx_type type, unsigned min, unsigned max, struct ptx_opnd *o)
{
	bool braces = ptx_eat(p, '{');
	struct ptx_opnd e[MAX_COORDS];
	unsigned n = 0;
	int r;

	do {
		if (n == MAX_COORDS)
			return ptx_mismatch(p, in);
		r = ptx_opnd_src(p, in, n ? type : head, false, &e[n]);
		if (r < 0)
			return r;
		n++;
	} while (braces && ptx_eat(p, ','));
	r = braces ? ptx_want(p, '}') : 0;
	if (r < 0)
		return r;
	if (n < min || n > max)
		return ptx_mismatch(p, in);
	*o = (struct ptx_opnd){.kind = PTX_O_VEC, .n = n};
	o->elem = ptx_memdup(p->arena, e, n * sizeof(e[0]));
	return o->elem ? 0 : -ENOMEM;
}

/* The object: a register; names are references. */
static int object(struct ptx_parser *p, struct ptx_insn *in, struct ptx_opnd *o)
{
	const struct ptx_tok *t = ptx_tok(p);

	if (t->kind == PTX_TOK_WORD && t->sym->bind &&
	    t->sym->bind->kind != PTX_BD_REG && t->sym->bind->kind != PTX_BD_RANGE)
		return unsupported(p, in);
	return ptx_opnd_src(p, in, PTX_T_B64, false, o);
}

/* [object, {coordinates}] */
static int place(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		 struct ptx_opnd *o)
{
	unsigned layer = geoms[in->mode].layer;
	int r = ptx_want(p, '[');

	if (r == 0)
		r = object(p, in, &o[0]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r < 0)
		return r;
	r = vector(p, in, layer ? PTX_T_B32 : type, type, geoms[in->mode].dims + layer,
		   geoms[in->mode].padded + layer, &o[1]);
	if (r == 0 && ptx_is(p, ',')) /* that was the sampler */
		return unsupported(p, in);
	return r < 0 ? r : ptx_want(p, ']');
}

static int gradient(struct ptx_parser *p, struct ptx_insn *in, struct ptx_opnd *o)
{
	unsigned dims = geoms[in->mode].dims;
	int r = ptx_want(p, ',');

	return r < 0 ? r
		     : vector(p, in, PTX_T_F32, PTX_T_F32, dims, dims == 3 ? 4 : dims, o);
}

/* {d}|p, [t, {c}] and what the level of detail comes from */
int ptx_insn_tex(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o[6] = {0};
	int r;

	if (in->vec != 4)
		return unsupported(p, in);
	r = ptx_opnd_vec(p, in, in->type[0], 4, true, false, &o[0]);
	if (r == 0 && ptx_eat(p, '|'))
		r = ptx_opnd_dst(p, in, PTX_T_PRED, false, true, &o[1]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = place(p, in, in->type[1], &o[2]);
	in->nopnds = 4;
	if (r == 0 && in->op == PTX_TEX_LEVEL) {
		r = ptx_want(p, ',');
		if (r == 0)
			r = ptx_opnd_src(p, in, PTX_T_F32, false, &o[4]);
		in->nopnds = 5;
	} else if (r == 0 && in->op == PTX_TEX_GRAD) {
		r = gradient(p, in, &o[4]);
		if (r == 0)
			r = gradient(p, in, &o[5]);
		in->nopnds = 6;
	}
	if (r == 0 && ptx_is(p, ','))
		return unsupported(p, in);
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}

/* suld: {d}, [s, {c}]; sust: [s, {c}], {a} */
int ptx_insn_surf(struct ptx_parser *p, struct ptx_insn *in)
{
	bool load = in->op == PTX_SULD;
	struct ptx_opnd o[3] = {0};
	int r;

	if (in->mode > PTX_G_A2D || in->vec > 4 ||
	    (in->sub != PTX_BOUND_CLAMP && in->sub != PTX_BOUND_ZERO &&
	     in->sub != PTX_BOUND_TRAP))
		return unsupported(p, in);
	in->nopnds = 3;
	if (!load) {
		r = place(p, in, PTX_T_B32, &o[0]);
		if (r == 0)
			r = ptx_want(p, ',');
		if (r == 0)
			r = ptx_opnd_vec(p, in, in->type[0], in->vec, false, true, &o[2]);
		return r < 0 ? r : ptx_emit(p, in, o, NULL);
	}
	r = ptx_opnd_vec(p, in, in->type[0], in->vec, true, true, &o[0]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = place(p, in, PTX_T_B32, &o[1]);
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}

/* d, [t] */
int ptx_insn_query(struct ptx_parser *p, struct ptx_insn *in)
{
	struct ptx_opnd o[2] = {0};
	int r = ptx_opnd_dst(p, in, PTX_T_B32, false, false, &o[0]);

	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = ptx_want(p, '[');
	if (r == 0)
		r = object(p, in, &o[1]);
	if (r == 0)
		r = ptx_want(p, ']');
	in->nopnds = 2;
	return r < 0 ? r : ptx_emit(p, in, o, NULL);
}
