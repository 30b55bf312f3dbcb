/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of a program: the loop over functions and instructions. */
#include <errno.h>
#include <stdlib.h>

#include "simt/lower/lower.h"

#define MAX_FRAME (1u << 24)

/* ---- functions ---- */

static int lower_insn(struct lower *l, const struct ptx_insn *in)
{
	switch ((enum ptx_op)in->op) {
	case PTX_ADD:
	case PTX_ADDC:
	case PTX_SUB:
	case PTX_SUBC:
	case PTX_MUL:
	case PTX_MUL24:
	case PTX_MAD:
	case PTX_MADC:
	case PTX_MAD24:
	case PTX_FMA:
	case PTX_DIV:
	case PTX_REM:
	case PTX_ABS:
	case PTX_NEG:
	case PTX_MIN:
	case PTX_MAX:
	case PTX_SAD:
	case PTX_RCP:
	case PTX_SQRT:
	case PTX_RSQRT:
	case PTX_SIN:
	case PTX_COS:
	case PTX_LG2:
	case PTX_EX2:
	case PTX_TANH:
	case PTX_TESTP:
	case PTX_COPYSIGN:
		return lower_arith(l, in);
	case PTX_AND:
	case PTX_OR:
	case PTX_XOR:
	case PTX_NOT:
	case PTX_CNOT:
	case PTX_SHL:
	case PTX_SHR:
	case PTX_SHF:
	case PTX_LOP3:
	case PTX_PRMT:
	case PTX_POPC:
	case PTX_CLZ:
	case PTX_BFIND:
	case PTX_BREV:
	case PTX_BFE:
	case PTX_BFI:
	case PTX_SZEXT:
	case PTX_BMSK:
	case PTX_FNS:
	case PTX_DP4A:
	case PTX_DP2A:
	case PTX_VADD:
	case PTX_VSUB:
	case PTX_VABSDIFF:
	case PTX_VMIN:
	case PTX_VMAX:
	case PTX_VSHL:
	case PTX_VSHR:
	case PTX_VMAD:
	case PTX_VSET:
	case PTX_VABSDIFF4:
		return lower_bits(l, in);
	case PTX_SETP:
		return lower_setp(l, in);
	case PTX_SET:
	case PTX_SELP:
	case PTX_SLCT:
		return lower_set(l, in);
	case PTX_MOV:
		return lower_mov(l, in);
	case PTX_CVT:
	case PTX_CVTPACK:
		return lower_cvt(l, in);
	case PTX_CVTA:
	case PTX_ISSPACEP:
	case PTX_MAPA:
	case PTX_GETCTARANK:
		return lower_cvta(l, in);
	case PTX_LD:
	case PTX_LDU:
		return lower_load(l, in);
	case PTX_ST:
		return lower_store(l, in);
	case PTX_ATOM:
	case PTX_RED:
		return lower_atom(l, in);
	case PTX_PREFETCH:
	case PTX_PREFETCHU:
	case PTX_APPLYPRIORITY:
	case PTX_DISCARD:
	case PTX_CREATEPOLICY:
	case PTX_MEMBAR:
	case PTX_FENCE:
	case PTX_FENCE_PROXY:
	case PTX_FENCE_MBAR_INIT:
	case PTX_BRA:
	case PTX_BRX_IDX:
	case PTX_CALL:
	case PTX_RET:
	case PTX_EXIT:
	case PTX_TRAP:
	case PTX_BRKPT:
	case PTX_PMEVENT:
	case PTX_NANOSLEEP:
	case PTX_GRIDDEPCONTROL:
	case PTX_SETMAXNREG:
	case PTX_ALLOCA:
	case PTX_STACKSAVE:
	case PTX_STACKRESTORE:
		return lower_control(l, in);
	case PTX_BAR:
	case PTX_BAR_WARP:
	case PTX_BARRIER_CLUSTER:
	case PTX_SHFL:
	case PTX_VOTE:
	case PTX_MATCH:
	case PTX_ACTIVEMASK:
	case PTX_REDUX:
	case PTX_ELECT:
		return lower_warp(l, in);
	case PTX_WMMA_LOAD:
	case PTX_WMMA_STORE:
	case PTX_WMMA_MMA:
	case PTX_MMA:
	case PTX_LDMATRIX:
	case PTX_STMATRIX:
	case PTX_MOVMATRIX:
		return lower_matrix(l, in);
	case PTX_CP_ASYNC:
	case PTX_CP_ASYNC_COMMIT:
	case PTX_CP_ASYNC_WAIT_GROUP:
	case PTX_CP_ASYNC_WAIT_ALL:
	case PTX_CP_ASYNC_MBAR_ARRIVE:
	case PTX_CP_BULK:
	case PTX_CP_REDUCE_BULK:
	case PTX_CP_BULK_PREFETCH:
	case PTX_CP_BULK_COMMIT:
	case PTX_CP_BULK_WAIT:
	case PTX_MBAR_INIT:
	case PTX_MBAR_INVAL:
	case PTX_MBAR_EXPECT_TX:
	case PTX_MBAR_COMPLETE_TX:
	case PTX_MBAR_ARRIVE:
	case PTX_MBAR_ARRIVE_DROP:
	case PTX_MBAR_TEST_WAIT:
	case PTX_MBAR_TRY_WAIT:
	case PTX_MBAR_PENDING_COUNT:
		return lower_async(l, in);
	case PTX_TEX:
	case PTX_TEX_LEVEL:
	case PTX_TEX_GRAD:
	case PTX_TLD4:
	case PTX_SULD:
	case PTX_SUST:
	case PTX_TXQ:
	case PTX_SUQ:
		return lower_tex(l, in);
	case PTX_NUM_OPS:
		break;
	}
	return lower_refuse(l, "unknown instruction");
}

static void mark_joins(struct lower *l)
{
	for (uint32_t i = 0; i < l->func->ninsns; i++) {
		const struct ptx_insn *in = &l->func->insns[i];
		bool parts =
			(in->op == PTX_BRA && in->guard >= 0) || in->op == PTX_BRX_IDX;

		if (parts && in->reconv >= 0)
			l->join[in->reconv] = 1;
	}
}

static void apply_fixes(struct lower *l)
{
	simt_fn *brx = simt_handler_find("brx");

	for (size_t i = l->code->first_op; i < l->num_ops; i++) {
		struct simt_op *op = &l->ops[i];
		struct simt_brx *b = (struct simt_brx *)op->brx;

		if (op->fn != brx)
			continue;
		for (uint32_t k = 0; k < b->n; k++)
			b->target[k] =
				(void *)(uintptr_t)l->op_at[(uintptr_t)b->target[k]];
		if (b->reconv)
			b->reconv =
				(void *)((uintptr_t)l->op_at[(uintptr_t)b->reconv - 1] +
					 1);
	}
	for (size_t i = 0; i < l->num_fixes; i++) {
		struct lower_fix *f = &l->fixes[i];
		struct simt_op *op = &l->ops[f->op];

		/* as indexes for now: the array may still move */
		op->imm = l->op_at[f->insn];
		if (f->reconv != LOWER_NO_TARGET)
			op->d = (int32_t)(l->op_at[f->reconv] - f->op);
	}
	l->num_fixes = 0;
}

static int lower_body(struct lower *l)
{
	const struct ptx_func *f = l->func;
	int r;

	mark_joins(l);
	l->code->first_op = (uint32_t)l->num_ops;
	for (uint32_t i = 0; i < f->ninsns; i++) {
		size_t first = l->num_ops;

		l->insn = &f->insns[i];
		l->insn_at = i;
		l->op_at[i] = (uint32_t)l->num_ops;
		memset(l->temps_used, 0, sizeof(l->temps_used));
		if (l->join[i]) {
			struct simt_op *op = lower_emit(l, "join");

			if (!op)
				return l->error;
			op->guard = SIMT_NO_GUARD;
			first++;
		}
		r = lower_insn(l, l->insn);
		if (r < 0)
			return r;
		if (l->num_ops > first)
			l->ops[l->num_ops - 1].count = 1;
	}
	l->code->num_ops = (uint32_t)(l->num_ops - l->code->first_op);
	if (l->frame > (int32_t)MAX_FRAME) {
		l->insn = &f->insns[0];
		return lower_refuse(l, "too many registers");
	}
	l->code->frame_bytes = ALIGN_UP((uint32_t)l->frame, 64u);
	apply_fixes(l);
	return 0;
}

/* Where calls find the parameters and results of a function. */
static int place_params(struct lower *l, const struct ptx_param *p, uint32_t n,
			struct simt_arg **ret_args)
{
	struct simt_arg *a = simt_program_alloc(l->prog, (n + 1) * sizeof(*a));

	if (!a)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		a[i].bytes = p[i].size;
		if (p[i].reg >= 0) {
			unsigned bits = lower_reg_bits(l, (uint32_t)p[i].reg);

			a[i].row = (uint8_t)(bits / 8);
			a[i].place = l->row[p[i].reg];
		} else {
			a[i].place = (int32_t)p[i].offset;
		}
	}
	*ret_args = a;
	return 0;
}

static int lower_function(struct lower *l, uint32_t index)
{
	const struct ptx_func *f = &l->prog->ptx->funcs[index];
	struct simt_code *code = &l->prog->codes[index];
	int r;

	l->func = f;
	l->code = code;
	l->row = calloc(f->nregs + 1, sizeof(*l->row));
	l->join = calloc(f->ninsns + 1, 1);
	l->op_at = calloc(f->ninsns + 1, sizeof(*l->op_at));
	if (!l->row || !l->join || !l->op_at)
		return -ENOMEM;
	memset(l->temp, 0, sizeof(l->temp));
	code->cc = 0; /* the carry word comes first: no row is at 0 */
	l->frame = 64;
	l->pred_left = 0;
	r = lower_rows(l);
	if (r == 0) {
		r = lower_body(l);
	}
	if (r == 0)
		r = place_params(l, f->params, f->nparams, &code->params);
	if (r == 0)
		r = place_params(l, f->rets, f->nrets, &code->rets);
	return r;
}

static void function_done(struct lower *l)
{
	free(l->row);
	free(l->join);
	free(l->op_at);
	l->row = NULL;
	l->join = NULL;
	l->op_at = NULL;
}

/* Turns indexes into pointers, now that the ops have their place. */
static void resolve(struct lower *l)
{
	struct simt_program *p = l->prog;
	simt_fn *jump = simt_handler_find("jump"), *bra = simt_handler_find("bra");
	simt_fn *brx = simt_handler_find("brx");

	for (size_t i = 0; i < p->num_ops; i++) {
		struct simt_op *op = &p->ops[i];

		if (op->fn == jump || op->fn == bra) {
			op->target = p->ops + op->imm;
		} else if (op->fn == brx) {
			struct simt_brx *b = (struct simt_brx *)op->brx;

			for (uint32_t k = 0; k < b->n; k++)
				b->target[k] = p->ops + (uintptr_t)b->target[k];
			b->reconv = b->reconv ? p->ops + (uintptr_t)b->reconv - 1 : NULL;
		}
	}
	/* A module of nothing but declarations has no code to point into. */
	for (uint32_t i = 0; p->num_ops && i < p->ptx->nfuncs; i++)
		p->codes[i].entry = p->ops + p->codes[i].first_op;
}

static int take_konst(struct lower *l)
{
	struct simt_program *p = l->prog;
	size_t bytes = ALIGN_UP(l->konst_bytes + 1, (size_t)64);

	p->konst = aligned_alloc(64, bytes);
	if (!p->konst)
		return -ENOMEM;
	memset(p->konst, 0, bytes);
	if (l->konst_bytes)
		memcpy(p->konst, l->konst, l->konst_bytes);
	p->konst_bytes = l->konst_bytes;
	return 0;
}

int simt_program_lower(struct simt_program *p, struct ptx_log *log)
{
	struct lower l = {.prog = p, .log = log};
	int r = 0;

	for (size_t i = 0; i < p->num_vars; i++)
		p->var_addr[p->vars[i].ptx - p->ptx->vars] = p->vars[i].addr;
	for (uint32_t i = 0; i < p->ptx->nfuncs && r == 0; i++) {
		if (!p->ptx->funcs[i].has_body)
			continue;
		r = lower_function(&l, i);
		function_done(&l);
	}
	if (r == 0) {
		p->ops = l.ops;
		p->origin = l.origin;
		p->num_ops = l.num_ops;
		l.ops = NULL;
		l.origin = NULL;
		resolve(&l);
		r = take_konst(&l);
	}
	if (r == 0)
		r = simt_program_attrs(p);
	free(l.ops);
	free(l.origin);
	free(l.konst);
	free(l.konst_map);
	free(l.fixes);
	return r;
}
