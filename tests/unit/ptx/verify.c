/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "verify.h"

#define CHECK(cond)                                                                      \
	do {                                                                             \
		if (!(cond))                                                             \
			return #cond;                                                    \
	} while (0)

static const char *verify_opnd(const struct ptx_module *m, const struct ptx_func *f,
			       const struct ptx_insn *in, const struct ptx_opnd *o,
			       bool inside)
{
	const char *e;

	switch ((enum ptx_opnd_kind)o->kind) {
	case PTX_O_NONE:
	case PTX_O_SINK:
	case PTX_O_IMM:
		break;
	case PTX_O_REG:
	case PTX_O_MEM:
		CHECK(o->idx < f->nregs);
		if (o->kind == PTX_O_MEM)
			CHECK(f->regs[o->idx].bits == 32 || f->regs[o->idx].bits == 64);
		break;
	case PTX_O_VEC:
		CHECK(!inside);
		CHECK(o->n == 0 || o->elem);
		for (unsigned i = 0; i < o->n; i++) {
			e = verify_opnd(m, f, in, &o->elem[i], true);
			if (e)
				return e;
		}
		break;
	case PTX_O_SREG:
		CHECK(in->op == PTX_MOV && o == &in->o[1] && o->idx < PTX_NUM_SREGS);
		CHECK(in->o[0].kind == PTX_O_REG);
		CHECK(f->regs[in->o[0].idx].bits == ptx_type_bits(ptx_sreg_type(o->idx)));
		break;
	case PTX_O_VAR:
		CHECK(o->idx < m->nvars);
		break;
	case PTX_O_LOCAL:
		break;
	case PTX_O_PARAM:
		if (inside)
			CHECK(in->op == PTX_CALL && o->off >= 0 &&
			      (uint64_t)o->off + o->idx <= f->area_bytes);
		break;
	case PTX_O_KPARAM:
		CHECK(f->is_entry);
		break;
	case PTX_O_FUNC:
		CHECK(o->idx < m->nfuncs && m->funcs[o->idx].alias < 0);
		break;
	case PTX_O_LABEL:
		CHECK(o->idx < f->ninsns);
		break;
	case PTX_O_TABLE:
		CHECK(o->idx < f->ntables);
		break;
	case PTX_O_PROTO:
		CHECK(o->idx < f->nprotos);
		break;
	default:
		return "kind of operand";
	}
	return NULL;
}

static const char *verify_args(const struct ptx_func *f, const struct ptx_opnd *v,
			       const struct ptx_param *formals, uint32_t n, bool ret)
{
	CHECK(v->kind == PTX_O_VEC && v->n == n);
	for (uint32_t i = 0; i < n; i++) {
		const struct ptx_opnd *o = &v->elem[i];

		switch (o->kind) {
		case PTX_O_REG:
			CHECK((f->regs[o->idx].bits + 7u) / 8 == formals[i].size);
			break;
		case PTX_O_PARAM:
			CHECK(o->idx == formals[i].size);
			break;
		case PTX_O_IMM:
			CHECK(!ret);
			break;
		case PTX_O_SINK:
			CHECK(ret);
			break;
		default:
			return "kind of argument";
		}
	}
	return NULL;
}

static const char *verify_call(const struct ptx_module *m, const struct ptx_func *f,
			       const struct ptx_insn *in)
{
	const struct ptx_func *callee;
	const struct ptx_proto *p;
	const char *e;

	if (in->o[0].kind == PTX_O_FUNC) {
		callee = &m->funcs[in->o[0].idx];
		CHECK(!callee->is_entry && callee->called);
		e = verify_args(f, &in->o[1], callee->rets, callee->nrets, true);
		return e ? e
			 : verify_args(f, &in->o[2], callee->params, callee->nparams,
				       false);
	}
	CHECK(in->o[0].kind == PTX_O_REG && in->o[3].kind == PTX_O_PROTO);
	CHECK(f->has_indirect_call);
	p = &f->protos[in->o[3].idx];
	e = verify_args(f, &in->o[1], p->rets, p->nrets, true);
	return e ? e : verify_args(f, &in->o[2], p->params, p->nparams, false);
}

static const char *verify_insn(const struct ptx_module *m, const struct ptx_func *f,
			       const struct ptx_insn *in)
{
	const char *e;

	CHECK(in->op < PTX_NUM_OPS && in->nopnds <= PTX_MAX_OPNDS && in->vec);
	CHECK(in->guard >= -1 && in->guard < (int64_t)f->nregs);
	CHECK(in->guard < 0 || f->regs[in->guard].type == PTX_T_PRED);
	CHECK(in->space < PTX_NUM_SPACES && in->shape < PTX_NUM_SHAPES);
	CHECK(in->reconv >= -1 && in->reconv < (int64_t)f->ninsns);
	for (int i = 0; i < 4; i++)
		CHECK(in->type[i] < PTX_NUM_TYPES);
	for (unsigned i = 0; i < in->nopnds; i++) {
		e = verify_opnd(m, f, in, &in->o[i], false);
		if (e)
			return e;
	}
	switch (in->op) {
	case PTX_CALL:
		return verify_call(m, f, in);
	case PTX_LD:
		CHECK(in->vec == 1 ||
		      (in->o[0].kind == PTX_O_VEC && in->o[0].n == in->vec));
		break;
	case PTX_ST:
		CHECK(in->vec == 1 ||
		      (in->o[1].kind == PTX_O_VEC && in->o[1].n == in->vec));
		break;
	case PTX_ADD:
		CHECK(in->o[0].kind == PTX_O_REG);
		CHECK(f->regs[in->o[0].idx].bits == ptx_type_bits(in->type[0]));
		break;
	case PTX_SETP:
		CHECK(in->cmp && (in->o[0].kind == PTX_O_SINK ||
				  f->regs[in->o[0].idx].type == PTX_T_PRED));
		break;
	default:
		break;
	}
	return NULL;
}

static bool ends(const struct ptx_insn *in)
{
	return in->guard < 0 &&
	       (in->op == PTX_RET || in->op == PTX_EXIT || in->op == PTX_TRAP ||
		in->op == PTX_BRA || in->op == PTX_BRX_IDX);
}

static const char *verify_params(const struct ptx_func *f, const struct ptx_param *p,
				 uint32_t n, uint32_t first, uint32_t limit)
{
	for (uint32_t i = 0; i < n; i++) {
		CHECK(p[i].reg >= -1 && p[i].reg < (int64_t)MAX(f->nregs, 1u));
		if (p[i].reg >= 0)
			continue;
		CHECK(p[i].align && !(p[i].align & (p[i].align - 1)));
		CHECK(p[i].offset % p[i].align == 0);
		CHECK(p[i].offset >= first);
		if (f->has_body)
			CHECK((uint64_t)p[i].offset + p[i].size <= limit);
	}
	return NULL;
}

static const char *verify_func(const struct ptx_module *m, const struct ptx_func *f)
{
	const char *e;

	CHECK(f->name && f->alias >= -1 && f->alias < (int64_t)m->nfuncs);
	if (!f->has_body)
		return NULL;
	CHECK(f->ninsns && ends(&f->insns[f->ninsns - 1]));
	if (f->is_entry)
		CHECK(f->param_bytes <= PTX_MAX_PARAM_BYTES && !f->nrets);
	e = verify_params(f, f->params, f->nparams, 0, f->param_bytes);
	if (!e)
		e = verify_params(f, f->rets, f->nrets, f->param_bytes, f->area_bytes);
	for (uint32_t i = 0; !e && i < f->nregs; i++)
		CHECK(f->regs[i].bits == ptx_type_bits(f->regs[i].type));
	for (uint32_t i = 0; !e && i < f->ninsns; i++)
		e = verify_insn(m, f, &f->insns[i]);
	for (uint32_t i = 0; !e && i < f->ntables; i++) {
		for (uint32_t k = 0; k < f->tables[i].n; k++)
			CHECK(f->tables[i].target[k] < f->ninsns);
	}
	for (uint32_t i = 0; !e && i < f->ncallees; i++)
		CHECK(f->callees[i] < m->nfuncs);
	return e;
}

static const char *verify_var(const struct ptx_module *m, const struct ptx_var *v)
{
	CHECK(v->name && v->align && !(v->align & (v->align - 1)));
	CHECK(v->space == PTX_S_GLOBAL || v->space == PTX_S_CONST ||
	      v->space == PTX_S_SHARED);
	CHECK(v->init_bytes <= v->size && v->func < (int64_t)m->nfuncs);
	for (uint32_t i = 0; i < v->nrelocs; i++) {
		const struct ptx_reloc *r = &v->relocs[i];

		CHECK(r->target < (r->is_func ? m->nfuncs : m->nvars));
		CHECK(r->size && r->size <= 8 && r->off + r->size <= v->init_bytes);
		CHECK(r->shift < 64);
	}
	return NULL;
}

/* Shared variables that one kernel reaches directly do not overlap and are covered. */
static const char *verify_shared(const struct ptx_module *m, const struct ptx_func *f)
{
	uint64_t dyn = f->dyn_shared_off;

	CHECK(dyn >= f->static_shared_bytes);
	for (uint32_t i = 0; f->is_entry && i < f->ninsns; i++) {
		for (unsigned k = 0; k < f->insns[i].nopnds; k++) {
			const struct ptx_opnd *o = &f->insns[i].o[k];
			const struct ptx_var *v;

			if (o->kind != PTX_O_VAR)
				continue;
			v = &m->vars[o->idx];
			if (v->space == PTX_S_SHARED && !v->dynamic)
				CHECK(v->shared_off % v->align == 0 &&
				      v->shared_off + v->size <= f->static_shared_bytes);
			else if (v->space == PTX_S_SHARED)
				CHECK(f->uses_dyn_shared && dyn % v->align == 0);
		}
	}
	return NULL;
}

const char *ptx_verify(const struct ptx_module *m)
{
	const char *e = NULL;

	CHECK(m->address_bits == 64 && m->version);
	for (uint32_t i = 0; !e && i < m->nfuncs; i++) {
		e = verify_func(m, &m->funcs[i]);
		if (!e && m->funcs[i].has_body)
			e = verify_shared(m, &m->funcs[i]);
	}
	for (uint32_t i = 0; !e && i < m->nvars; i++)
		e = verify_var(m, &m->vars[i]);
	return e;
}
