/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A register differs between threads if anything that it is made of does, or if threads may have
 * parted where it is written. Both only grow, until nothing changes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/ptx_arena.h"
#include "ptx/rewrite/flow.h"

/* Rounds until nothing changes, and instructions that walks come by. */
#define ROUNDS_MAX 64
#define WORK_MAX   (32u << 20)

/* ---- where control goes ---- */

static bool ends(const struct ptx_module *m, const struct ptx_insn *in)
{
	if (in->guard >= 0)
		return false;
	if (in->op == PTX_CALL)
		return in->o[0].kind == PTX_O_FUNC && m->funcs[in->o[0].idx].noreturn;
	return in->op == PTX_RET || in->op == PTX_EXIT || in->op == PTX_TRAP;
}

void ptx_each_next(const struct ptx_module *m, const struct ptx_func *f, uint32_t i,
		   void (*fn)(void *arg, uint32_t next), void *arg)
{
	const struct ptx_insn *in = &f->insns[i];
	bool jumps = in->op == PTX_BRA || in->op == PTX_BRX_IDX;

	if (in->op == PTX_BRA)
		fn(arg, in->o[0].idx);
	if (in->op == PTX_BRX_IDX) {
		const struct ptx_table *t = &f->tables[in->o[1].idx];

		for (uint32_t k = 0; k < t->n; k++)
			fn(arg, t->target[k]);
	}
	if (jumps ? in->guard >= 0 : !ends(m, in))
		fn(arg, i + 1);
}

struct reach {
	uint8_t *mark;
	bool any;
};

static void see_mark(void *arg, uint32_t next)
{
	struct reach *r = arg;

	r->any |= r->mark[next];
}

/* Marks from where a marked instruction can be reached by none of stop; NULL: by any. */
static int reach(const struct ptx_module *m, const struct ptx_func *f,
		 const uint8_t *stop, uint8_t *mark)
{
	bool changed = true;

	for (unsigned round = 0; changed; round++) {
		if (round == ROUNDS_MAX)
			return -E2BIG;
		changed = false;
		for (uint32_t i = f->ninsns; i-- > 0;) {
			struct reach r = {.mark = mark};

			if (mark[i] || (stop && stop[i]))
				continue;
			ptx_each_next(m, f, i, see_mark, &r);
			mark[i] = r.any;
			changed |= r.any;
		}
	}
	return 0;
}

int ptx_reaching(const struct ptx_module *m, const struct ptx_func *f, uint8_t *mark)
{
	return reach(m, f, NULL, mark);
}

/* ---- threads of a warp ---- */

static const struct ptx_opnd *mask_of(const struct ptx_insn *in)
{
	return &in->o[in->op == PTX_BAR_WARP ? 0 : in->nopnds - 1];
}

bool ptx_is_of_whole_warp(const struct ptx_insn *in)
{
	const struct ptx_opnd *mask = mask_of(in);

	return mask->kind == PTX_O_IMM && (uint32_t)mask->imm == UINT32_MAX;
}

static bool writes(const struct ptx_insn *in, uint32_t reg)
{
	for (unsigned k = 0; k < in->nopnds; k++) {
		const struct ptx_opnd *o = &in->o[k];
		bool is = o->kind == PTX_O_REG && o->idx == reg;

		for (unsigned i = 0; o->kind == PTX_O_VEC && i < o->n; i++)
			is |= o->elem[i].kind == PTX_O_REG && o->elem[i].idx == reg;
		if (is && ptx_written(in) >> k & 1)
			return true;
	}
	return false;
}

bool ptx_is_of_those_there(const struct ptx_func *f, const struct ptx_insn *in)
{
	const struct ptx_opnd *mask = mask_of(in);
	bool any = false;

	if (mask->kind != PTX_O_REG)
		return false;
	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *from = &f->insns[i];

		if (!writes(from, mask->idx))
			continue;
		if (from->op != PTX_ACTIVEMASK && from->op != PTX_VOTE &&
		    from->op != PTX_MATCH)
			return false;
		any = true;
	}
	return any;
}

/* ---- what differs between threads ---- */

struct parting {
	const struct ptx_module *m;
	const struct ptx_func *f;
	enum ptx_among among;
	uint8_t *columns;    /* by register: it is never anything but %tid.x */
	uint8_t *marks;      /* by instruction */
	uint8_t *differs;    /* by register */
	uint32_t *walked;    /* by instruction: the last walk that came by */
	struct ptx_vec todo; /* instructions of the walk in hand */
	uint32_t walk, stop; /* its number, and where it ends */
	uint64_t work;
	bool changed, nomem;
};

static bool sreg_differs(enum ptx_among among, enum ptx_sreg sr)
{
	switch (sr) {
	case PTX_SR_TID_Y:
	case PTX_SR_TID_Z:
		return among != PTX_OF_ROW;
	case PTX_SR_WARPID:
		return among == PTX_OF_BLOCK;
	case PTX_SR_NTID_X:
	case PTX_SR_NTID_Y:
	case PTX_SR_NTID_Z:
	case PTX_SR_CTAID_X:
	case PTX_SR_CTAID_Y:
	case PTX_SR_CTAID_Z:
	case PTX_SR_NCTAID_X:
	case PTX_SR_NCTAID_Y:
	case PTX_SR_NCTAID_Z:
	case PTX_SR_NWARPID:
	case PTX_SR_SMID:
	case PTX_SR_NSMID:
	case PTX_SR_GRIDID:
	case PTX_SR_DYNAMIC_SMEM_SIZE:
		return false;
	default:
		return true;
	}
}

static bool opnd_differs(const struct parting *p, const struct ptx_opnd *o)
{
	switch ((enum ptx_opnd_kind)o->kind) {
	case PTX_O_REG:
	case PTX_O_MEM:
		return p->differs[o->idx];
	case PTX_O_SREG:
		return sreg_differs(p->among, (enum ptx_sreg)o->idx);
	case PTX_O_VEC:
		for (unsigned i = 0; i < o->n; i++) {
			if (opnd_differs(p, &o->elem[i]))
				return true;
		}
		return false;
	default:
		return false;
	}
}

static bool sources_differ(const struct parting *p, const struct ptx_insn *in)
{
	for (unsigned k = 0; k < in->nopnds; k++) {
		if (!(ptx_written(in) >> k & 1) && opnd_differs(p, &in->o[k]))
			return true;
	}
	return false;
}

#define WARP_THREADS 32u

/* Whether a comparison with n is the same for all from a multiple of 32 to the next one. */
static bool is_edge(uint8_t cmp, uint32_t n)
{
	switch ((enum ptx_cmp)cmp) {
	case PTX_C_LT:
	case PTX_C_LO:
	case PTX_C_GE:
	case PTX_C_HS:
		return n % WARP_THREADS == 0;
	case PTX_C_LE:
	case PTX_C_LS:
	case PTX_C_GT:
	case PTX_C_HI:
		return n % WARP_THREADS == WARP_THREADS - 1;
	default:
		return false;
	}
}

/* Whether the column of a thread is only asked for as far as all of its warp have it in common: a
 * warp begins at a multiple of 32. */
static bool is_of_warp(const struct parting *p, const struct ptx_insn *in)
{
	const struct ptx_opnd *a = &in->o[1], *b = &in->o[2];

	if (in->op == PTX_SETP) {
		a = &in->o[2];
		b = &in->o[3];
		if (in->nopnds > 4 && opnd_differs(p, &in->o[4]))
			return false;
	}
	if (p->among != PTX_OF_ROW || in->nopnds < 3 || a->kind != PTX_O_REG ||
	    !p->columns[a->idx] || b->kind != PTX_O_IMM)
		return false;
	switch ((enum ptx_op)in->op) {
	case PTX_SHR:
		return b->imm >= 5 && b->imm < WARP_THREADS;
	case PTX_AND:
		return b->imm % WARP_THREADS == 0;
	case PTX_SETP:
		return b->imm <= INT32_MAX && is_edge(in->cmp, (uint32_t)b->imm);
	default:
		return false;
	}
}

/* A load of what no thread writes gives all that ask for one address the same. */
static bool load_differs(const struct parting *p, const struct ptx_insn *in)
{
	const struct ptx_opnd *from = &in->o[1];

	if (from->kind == PTX_O_KPARAM)
		return false;
	return in->space == PTX_S_CONST ? sources_differ(p, in) : true;
}

static bool result_differs(const struct parting *p, const struct ptx_insn *in)
{
	switch ((enum ptx_op)in->op) {
	case PTX_LD:
		return load_differs(p, in);
	case PTX_BAR: /* of the whole block, unless it says of how many threads */
		return in->o[2].kind != PTX_O_NONE;
	case PTX_VOTE: /* all that it is of have it */
	case PTX_REDUX:
		return p->among == PTX_OF_BLOCK || !ptx_is_of_whole_warp(in);
	case PTX_LDU:
	case PTX_ATOM:
	case PTX_CALL:
	case PTX_SHFL:
	case PTX_MATCH:
	case PTX_ACTIVEMASK:
	case PTX_ELECT:
	case PTX_WMMA_LOAD:
	case PTX_LDMATRIX:
	case PTX_MOVMATRIX:
	case PTX_TEX:
	case PTX_TEX_LEVEL:
	case PTX_TEX_GRAD:
	case PTX_TLD4:
	case PTX_SULD:
	case PTX_MBAR_ARRIVE:
	case PTX_MBAR_ARRIVE_DROP:
	case PTX_MBAR_TEST_WAIT:
	case PTX_MBAR_TRY_WAIT:
		return true;
	default:
		return sources_differ(p, in) && !is_of_warp(p, in);
	}
}

static void set_differs(struct parting *p, const struct ptx_opnd *o)
{
	if (o->kind == PTX_O_VEC) {
		for (unsigned i = 0; i < o->n; i++)
			set_differs(p, &o->elem[i]);
	} else if (o->kind == PTX_O_REG && !p->differs[o->idx]) {
		p->differs[o->idx] = 1;
		p->changed = true;
	}
}

static void walk_on(void *arg, uint32_t next)
{
	struct parting *p = arg;
	uint32_t *e;

	if (next == p->stop || p->walked[next] == p->walk)
		return;
	e = ptx_vec_push(&p->todo, sizeof(*e));
	if (!e) {
		p->nomem = true;
		return;
	}
	*e = next;
	p->walked[next] = p->walk;
	p->marks[next] |= PTX_APART;
}

/* Threads have parted from behind a branch to where they meet again. */
static void part(struct parting *p, uint32_t i)
{
	const struct ptx_insn *in = &p->f->insns[i];

	if (p->marks[i] & PTX_PARTS)
		return;
	p->marks[i] |= PTX_PARTS;
	p->changed = true;
	if (in->op != PTX_BRA && in->op != PTX_BRX_IDX)
		return;
	p->walk++;
	p->stop = in->reconv < 0 ? UINT32_MAX : (uint32_t)in->reconv;
	ptx_each_next(p->m, p->f, i, walk_on, p);
	while (p->todo.n && p->work < WORK_MAX) {
		uint32_t at = ((uint32_t *)p->todo.p)[--p->todo.n];

		p->work++;
		ptx_each_next(p->m, p->f, at, walk_on, p);
	}
}

static void look_at(struct parting *p, uint32_t i)
{
	const struct ptx_insn *in = &p->f->insns[i];
	bool guarded = in->guard >= 0 && p->differs[in->guard];
	bool by_index = in->op == PTX_BRX_IDX && sources_differ(p, in);
	bool goes = in->op == PTX_BRA || in->op == PTX_BRX_IDX || in->op == PTX_RET ||
		    in->op == PTX_EXIT;

	if (goes && (guarded || by_index))
		part(p, i);
	if (!guarded && !(p->marks[i] & PTX_APART) && !result_differs(p, in))
		return;
	for (unsigned k = 0; k < in->nopnds; k++) {
		if (ptx_written(in) >> k & 1)
			set_differs(p, &in->o[k]);
	}
}

static int settle(struct parting *p)
{
	p->changed = true;
	for (unsigned round = 0; p->changed; round++) {
		if (round == ROUNDS_MAX || p->work >= WORK_MAX)
			return -E2BIG;
		p->changed = false;
		for (uint32_t i = 0; i < p->f->ninsns; i++)
			look_at(p, i);
		if (p->nomem)
			return -ENOMEM;
	}
	return 0;
}

static void not_a_column(struct parting *p, const struct ptx_opnd *o)
{
	if (o->kind == PTX_O_VEC) {
		for (unsigned i = 0; i < o->n; i++)
			not_a_column(p, &o->elem[i]);
	} else if (o->kind == PTX_O_REG && p->columns[o->idx]) {
		p->columns[o->idx] = 0;
		p->changed = true;
	}
}

/* Registers that are copies of %tid.x wherever they are written. */
static void find_columns(struct parting *p)
{
	memset(p->columns, 1, p->f->nregs);
	do {
		p->changed = false;
		for (uint32_t i = 0; i < p->f->ninsns; i++) {
			const struct ptx_insn *in = &p->f->insns[i];
			const struct ptx_opnd *from = &in->o[1];

			if (in->op == PTX_MOV && from->kind == PTX_O_SREG &&
			    from->idx == PTX_SR_TID_X)
				continue;
			if (in->op == PTX_MOV && from->kind == PTX_O_REG &&
			    p->columns[from->idx])
				continue;
			for (unsigned k = 0; k < in->nopnds; k++) {
				if (ptx_written(in) >> k & 1)
					not_a_column(p, &in->o[k]);
			}
		}
	} while (p->changed);
}

int ptx_parting(const struct ptx_module *m, const struct ptx_func *f,
		enum ptx_among among, uint8_t **ret_marks)
{
	_cleanup_free_ uint8_t *marks = calloc(f->ninsns + 1, 1);
	_cleanup_free_ uint8_t *differs = calloc(f->nregs + 1, 1);
	_cleanup_free_ uint8_t *columns = calloc(f->nregs + 1, 1);
	_cleanup_free_ uint32_t *walked = calloc(f->ninsns + 1, sizeof(uint32_t));
	struct parting p = {.m = m,
			    .f = f,
			    .among = among,
			    .columns = columns,
			    .marks = marks,
			    .differs = differs,
			    .walked = walked};
	int r;

	if (!marks || !differs || !columns || !walked)
		return -ENOMEM;
	find_columns(&p);
	r = settle(&p);
	ptx_vec_fini(&p.todo);
	if (r == 0)
		*ret_marks = steal(marks);
	return r;
}

bool ptx_may_end_before(const struct ptx_func *f, const uint8_t *marks,
			const uint8_t *before)
{
	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];
		bool ends = in->op == PTX_RET || in->op == PTX_EXIT || in->reconv < 0;

		if (marks[i] & PTX_PARTS && ends && before[i])
			return true;
	}
	return false;
}

int ptx_may_pass_by(const struct ptx_module *m, const struct ptx_func *f,
		    const uint8_t *marks, const uint8_t *meets)
{
	_cleanup_free_ uint8_t *past = calloc(f->ninsns + 1, 1);
	_cleanup_free_ uint8_t *apart = calloc(f->ninsns + 1, 1);
	_cleanup_free_ uint32_t *walked = calloc(f->ninsns + 1, sizeof(uint32_t));
	struct parting p = {.m = m, .f = f, .marks = apart, .walked = walked};
	int r;

	if (!past || !apart || !walked)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->ninsns; i++)
		past[i] = f->insns[i].op == PTX_RET || f->insns[i].op == PTX_EXIT;
	r = reach(m, f, meets, past);
	for (uint32_t i = 0; i < f->ninsns && r == 0; i++) {
		const struct ptx_insn *in = &f->insns[i];

		if (marks[i] & PTX_PARTS && in->reconv >= 0 && past[in->reconv])
			part(&p, i);
		if (p.nomem || p.work >= WORK_MAX)
			r = p.nomem ? -ENOMEM : -E2BIG;
	}
	ptx_vec_fini(&p.todo);
	for (uint32_t i = 0; i < f->ninsns && r == 0; i++)
		r = apart[i] & PTX_APART && meets[i];
	return r;
}
