/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy is its kernel's text with a loop around it. At the loop's head all threads of a block
 * meet; the first one takes a block of the grid and says in shared memory which. That needs no
 * register that is alive in the body: %ctaid is read from there, %nctaid from the parameters.
 *
 * Threads that end early go to the loop's head and wait, where those of the kernel are gone. The
 * difference is seen by barriers that the others come to afterwards, and by instructions for
 * whole warps; kernels in which that may be are left alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/rewrite/edit.h"
#include "ptx/rewrite/flow.h"
#include "ptx/rewrite/persist.h"
#include "ptx/rewrite/yield.h"

#define OURS        "weft_pt" /* begins every name of ours */
#define MIN_VERSION 60        /* barrier.sync */

struct pass {
	const char *text;
	struct ptx_module *m;
	/* By function: why a kernel that calls it is left alone; and that it has a barrier, or an
	 * instruction for a whole warp. */
	const char **bad;
	uint8_t *meets;
	bool copies;     /* some function copies asynchronously */
	bool yields;     /* copies are to have yield points */
	bool callees_meet; /* those of the kernel in hand */
	uint8_t *seen;     /* functions, of one walk: from the kernel in hand */
	uint32_t *stack; /* likewise */
};

/* ---- what cannot be ---- */

static bool is_grid_sreg(const struct ptx_opnd *o)
{
	return o->kind == PTX_O_SREG && o->idx >= PTX_SR_CTAID_X &&
	       o->idx <= PTX_SR_NCTAID_Z;
}

static const char *bad_sreg(const struct ptx_opnd *o)
{
	if (o->kind != PTX_O_SREG)
		return NULL;
	if (o->idx >= PTX_SR_CLUSTERID_X && o->idx <= PTX_SR_IS_EXPLICIT_CLUSTER)
		return "asks for its cluster";
	if (o->idx >= PTX_SR_ENVREG && o->idx <= PTX_SR_ENVREG2)
		return "waits for the whole grid";
	if (o->idx == PTX_SR_TOTAL_SMEM_SIZE || o->idx == PTX_SR_AGGR_SMEM_SIZE)
		return "asks for the size of its shared memory";
	return NULL;
}

/* Our own barrier is number 0, at which all threads of the block are to meet. */
static const char *bad_barrier(const struct ptx_insn *in)
{
	if (in->sub == PTX_BAR_ARRIVE)
		return "arrives at a barrier without waiting";
	if (in->o[1].kind != PTX_O_IMM)
		return "computes the numbers of its barriers";
	if (in->o[1].imm == 0 && in->o[2].kind != PTX_O_NONE)
		return "waits at barrier 0 for some threads only";
	return NULL;
}

static const char *bad_insn(const struct ptx_insn *in)
{
	switch ((enum ptx_op)in->op) {
	case PTX_BARRIER_CLUSTER:
	case PTX_MAPA:
	case PTX_GETCTARANK:
	case PTX_FENCE_MBAR_INIT:
		return "is made for clusters";
	case PTX_MBAR_INIT:
	case PTX_MBAR_INVAL:
	case PTX_MBAR_EXPECT_TX:
	case PTX_MBAR_COMPLETE_TX:
	case PTX_MBAR_ARRIVE:
	case PTX_MBAR_ARRIVE_DROP:
	case PTX_MBAR_TEST_WAIT:
	case PTX_MBAR_TRY_WAIT:
	case PTX_MBAR_PENDING_COUNT:
	case PTX_CP_ASYNC_MBAR_ARRIVE:
		return "has barriers in shared memory";
	case PTX_CP_BULK:
	case PTX_CP_REDUCE_BULK:
		return "copies in bulk";
	case PTX_GRIDDEPCONTROL:
		return "waits for another kernel";
	case PTX_SETMAXNREG:
		return "gives registers away";
	case PTX_ALLOCA:
	case PTX_STACKSAVE:
	case PTX_STACKRESTORE:
		return "makes room on its stack";
	case PTX_BAR:
		return bad_barrier(in);
	default:
		for (unsigned k = 0; k < in->nopnds; k++) {
			const char *why = bad_sreg(&in->o[k]);

			if (why)
				return why;
		}
		return NULL;
	}
}

/* Whether threads that a mask names are waited for. */
static bool has_mask(const struct ptx_insn *in)
{
	switch ((enum ptx_op)in->op) {
	case PTX_BAR_WARP:
	case PTX_SHFL:
	case PTX_VOTE:
	case PTX_MATCH:
	case PTX_REDUX:
	case PTX_ELECT:
		return true;
	default:
		return false;
	}
}

/* Whether others of the block or the warp are waited for. */
static bool meets(const struct pass *p, const struct ptx_insn *in)
{
	switch ((enum ptx_op)in->op) {
	case PTX_BAR:
	case PTX_WMMA_LOAD:
	case PTX_WMMA_STORE:
	case PTX_WMMA_MMA:
	case PTX_MMA:
	case PTX_LDMATRIX:
	case PTX_STMATRIX:
	case PTX_MOVMATRIX:
		return true;
	case PTX_CALL:
		return in->o[0].kind != PTX_O_FUNC || p->meets[in->o[0].idx];
	default:
		return has_mask(in);
	}
}

/* Whether all threads of the block are waited for. */
static bool is_for_all(const struct ptx_insn *in, bool callees_meet)
{
	if (in->op == PTX_CALL)
		return callees_meet;
	return in->op == PTX_BAR && in->o[2].kind == PTX_O_NONE;
}

/* Whether threads of a warp are waited for that may have ended. Where a matrix is multiplied none
 * has. */
static bool is_for_warp(const struct ptx_func *f, const struct ptx_insn *in)
{
	return has_mask(in) && !ptx_is_of_those_there(f, in);
}

static bool is_known(const char *name)
{
	static const char *const known[] = {"vprintf", "malloc", "free", "__assertfail"};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (!strcmp(name, known[i]))
			return true;
	}
	return false;
}

static const char *why_not(int r)
{
	return r == -ENOMEM ? "out of memory" : "too large";
}

/* Threads that pass a meeting of others by in a function may end behind it. */
static const char *bad_parting(const struct pass *p, const struct ptx_func *f)
{
	static const char why[] = "some threads may pass others by in a function";
	_cleanup_free_ uint8_t *in_block = NULL, *in_warp = NULL;
	bool any = false;
	int r;

	for (uint32_t i = 0; i < f->ninsns; i++)
		any |= is_for_all(&f->insns[i], false) || is_for_warp(f, &f->insns[i]);
	if (!any)
		return NULL;
	r = ptx_parting(p->m, f, PTX_OF_BLOCK, &in_block);
	if (r == 0)
		r = ptx_parting(p->m, f, PTX_OF_WARP, &in_warp);
	if (r < 0 || !in_block || !in_warp)
		return why_not(r);
	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];

		if ((in_block[i] & PTX_APART && is_for_all(in, false)) ||
		    (in_warp[i] & PTX_APART && is_for_warp(f, in)))
			return why;
	}
	return NULL;
}

/* By itself, without what it calls. */
static const char *bad_function(const struct pass *p, const struct ptx_func *f)
{
	if (!f->has_body)
		return f->alias >= 0 || is_known(f->name) ? NULL
							  : "calls the device's runtime";
	if (f->source->unknown)
		return f->source->unknown;
	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];
		const char *why = bad_insn(in);

		if (why)
			return why;
		if (f->is_entry)
			continue;
		if (in->op == PTX_EXIT)
			return "ends threads in a function";
		if (in->op == PTX_MOV && is_grid_sreg(&in->o[1]))
			return "asks for its block in a function";
	}
	return f->is_entry ? NULL : bad_parting(p, f);
}

static void push(struct pass *p, uint32_t func, uint32_t *n)
{
	if (!p->seen[func])
		p->stack[(*n)++] = func;
	p->seen[func] = 1;
}

/* The first reason among all functions that f reaches. *ret_meets: one of them but f meets. */
static const char *bad_callees(struct pass *p, uint32_t func, bool *ret_meets)
{
	const struct ptx_module *m = p->m;
	uint32_t n = 0;

	memset(p->seen, 0, m->nfuncs);
	push(p, func, &n);
	*ret_meets = false;
	while (n) {
		uint32_t at = p->stack[--n];
		const struct ptx_func *f = &m->funcs[at];

		if (p->bad[at])
			return p->bad[at];
		*ret_meets |= at != func && p->meets[at];
		for (uint32_t i = 0; i < f->ncallees; i++)
			push(p, f->callees[i], &n);
		for (uint32_t i = 0; f->has_indirect_call && i < m->nfuncs; i++) {
			if (m->funcs[i].addr_taken)
				push(p, i, &n);
		}
	}
	return NULL;
}

static const char ends_before[] = "threads may end before others meet";

/* Marks what all threads of a block are waited for by, or threads of a warp. Returns whether anything
 * is. */
static bool mark_meets(const struct pass *p, const struct ptx_func *f, bool callees_meet,
		       bool of_warp, uint8_t *mark)
{
	bool any = false;

	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];

		mark[i] = in->op == PTX_CALL ? callees_meet
			  : of_warp          ? is_for_warp(f, in)
					     : is_for_all(in, callees_meet);
		any |= mark[i];
	}
	return any;
}

/* Threads of a block that have ended would be waited for. */
static const char *bad_ends_in_block(const struct pass *p, const struct ptx_func *f,
				     bool callees_meet)
{
	_cleanup_free_ uint8_t *before = calloc(f->ninsns + 1, 1);
	_cleanup_free_ uint8_t *marks = NULL;
	int r;

	if (!before)
		return why_not(-ENOMEM);
	if (!mark_meets(p, f, callees_meet, false, before))
		return NULL;
	r = ptx_reaching(p->m, f, before);
	if (r == 0)
		r = ptx_parting(p->m, f, PTX_OF_BLOCK, &marks);
	if (r < 0 || !marks)
		return why_not(r);
	if (ptx_may_end_before(f, marks, before))
		return ends_before;
	for (uint32_t i = 0; i < f->ninsns; i++) {
		if (marks[i] & PTX_APART && is_for_all(&f->insns[i], callees_meet))
			return "some threads may pass a barrier by";
	}
	return NULL;
}

/* Threads of a warp that have ended would be; those of others are none of its business. */
static const char *bad_ends_in_warp(const struct pass *p, const struct ptx_func *f,
				    bool callees_meet, enum ptx_among among)
{
	_cleanup_free_ uint8_t *meets = calloc(f->ninsns + 1, 1);
	_cleanup_free_ uint8_t *before = calloc(f->ninsns + 1, 1);
	_cleanup_free_ uint8_t *marks = NULL;
	int r;

	if (!meets || !before)
		return why_not(-ENOMEM);
	if (!mark_meets(p, f, callees_meet, true, meets))
		return NULL;
	memcpy(before, meets, f->ninsns);
	r = ptx_reaching(p->m, f, before);
	if (r == 0)
		r = ptx_parting(p->m, f, among, &marks);
	if (r == 0 && ptx_may_end_before(f, marks, before))
		return ends_before;
	if (r == 0)
		r = ptx_may_pass_by(p->m, f, marks, meets);
	if (r < 0)
		return why_not(r);
	return r ? ends_before : NULL;
}

/* *ret_rows: that is so only where each warp has one row of the block. */
static const char *bad_ends(const struct pass *p, const struct ptx_func *f,
			    bool callees_meet, bool *ret_rows)
{
	const char *why = bad_ends_in_block(p, f, callees_meet);

	*ret_rows = false;
	if (why || !bad_ends_in_warp(p, f, callees_meet, PTX_OF_WARP))
		return why;
	*ret_rows = true;
	return bad_ends_in_warp(p, f, callees_meet, PTX_OF_ROW);
}

static bool has_own_variables(const struct ptx_module *m, uint32_t func)
{
	for (uint32_t i = 0; i < m->nvars; i++) {
		if (m->vars[i].func == (int32_t)func && m->vars[i].space != PTX_S_SHARED)
			return true;
	}
	return false;
}

static const char *bad_kernel(struct pass *p, uint32_t func, bool *ret_rows)
{
	const struct ptx_func *f = &p->m->funcs[func];
	const char *why;

	if (f->reqnctapercluster[0] || f->explicitcluster || f->maxclusterrank)
		return "is made for clusters";
	if (ALIGN_UP(f->param_bytes, 8u) + sizeof(struct ptx_persist_args) >
	    PTX_PERSIST_PARAMS_MAX)
		return "has too many parameters";
	if (has_own_variables(p->m, func))
		return "has variables of its own";
	why = bad_callees(p, func, &p->callees_meet);
	return why ? why : bad_ends(p, f, p->callees_meet, ret_rows);
}

/* ---- the copy ---- */

static const char head[] = "\n"
			   "\t.reg .pred %weft_pt_p;\n"
			   "\t.reg .b32 %weft_pt_t, %weft_pt_a, %weft_pt_c;\n"
			   "\t.reg .b64 %weft_pt_d;\n"
			   "\t.shared .align 16 .b32 weft_pt_slot[8];\n";

/* Only the first thread goes by, with p not set. */
#define FIRST(label)                                                                     \
	"\tmov.u32 %weft_pt_t, %tid.x;\n"                                                \
	"\tmov.u32 %weft_pt_a, %tid.y;\n"                                                \
	"\tor.b32 %weft_pt_t, %weft_pt_t, %weft_pt_a;\n"                                 \
	"\tmov.u32 %weft_pt_a, %tid.z;\n"                                                \
	"\tor.b32 %weft_pt_t, %weft_pt_t, %weft_pt_a;\n"                                 \
	"\tsetp.ne.u32 %weft_pt_p, %weft_pt_t, 0;\n"                                     \
	"\t@%weft_pt_p " label ";\n"

/* The slot has the block, whether there is one, and how many this one has done. */
static const char begin[] =
	FIRST("bra weft_pt_begin") "\tmov.u32 %weft_pt_a, 0xffffffff;\n"
				   "\tst.shared.u32 [weft_pt_slot+16], %weft_pt_a;\n"
				   "weft_pt_begin:\n";

/* k: the yield point at which the thread has stopped; n: rounds until it looks whether it is to; f:
 * what it saw. */
static const char begin_yielding[] = "\t.reg .pred %weft_pt_q;\n"
				     "\t.reg .b32 %weft_pt_f, %weft_pt_k, %weft_pt_n;\n"
				     "\tmov.u32 %weft_pt_f, 0;\n"
				     "\tmov.u32 %weft_pt_k, 0;\n"
				     "\tmov.u32 %weft_pt_n, 1;\n"
				     "\tld.param.u32 %weft_pt_a, [weft_pt_args+40];\n"
				     "\tsetp.ne.u32 %weft_pt_p, %weft_pt_a, 0;\n"
				     "\t@%weft_pt_p bra weft_pt_restore;\n";

/* Asynchronous copies of the block before are over, as they are when a kernel ends. */
static const char wait_for_copies[] = "\tcp.async.wait_all;\n";

static const char meet[] = "\tbarrier.sync 0;\n";

/* All keep what they have if one of them has stopped. */
static const char meet_yielding[] = "\tsetp.ne.u32 %weft_pt_q, %weft_pt_k, 0;\n"
				    "\tbarrier.red.or.pred %weft_pt_p, 0, %weft_pt_q;\n"
				    "\t@%weft_pt_p bra weft_pt_save;\n";

static const char take[] = FIRST(
	"bra weft_pt_wait") "\tld.shared.u32 %weft_pt_a, [weft_pt_slot+16];\n"
			    "\tadd.u32 %weft_pt_a, %weft_pt_a, 1;\n"
			    "\tst.shared.u32 [weft_pt_slot+16], %weft_pt_a;\n"
			    "\tld.param.u64 %weft_pt_d, [weft_pt_args];\n"
			    "\tld.volatile.global.u32 %weft_pt_a, [%weft_pt_d+8];\n"
			    "\tnot.b32 %weft_pt_a, %weft_pt_a;\n"
			    "\tmov.u32 %weft_pt_c, %ctaid.x;\n"
			    "\tld.param.u32 %weft_pt_t, [weft_pt_args+28];\n"
			    "\tadd.u32 %weft_pt_c, %weft_pt_c, %weft_pt_t;\n"
			    "\tmov.u32 %weft_pt_t, 0xffffffff;\n"
			    "\tsetp.ge.u32 %weft_pt_p, %weft_pt_c, %weft_pt_a;\n"
			    "\t@%weft_pt_p bra weft_pt_taken;\n"
			    "\tatom.global.add.u32 %weft_pt_t, [%weft_pt_d], 1;\n"
			    "weft_pt_taken:\n"
			    "\tld.param.u32 %weft_pt_c, [weft_pt_args+20];\n"
			    "\tsetp.lt.u32 %weft_pt_p, %weft_pt_t, %weft_pt_c;\n"
			    "\tselp.u32 %weft_pt_a, 1, 0, %weft_pt_p;\n"
			    "\tst.shared.u32 [weft_pt_slot+12], %weft_pt_a;\n"
			    "\tld.param.u32 %weft_pt_c, [weft_pt_args+8];\n"
			    "\trem.u32 %weft_pt_a, %weft_pt_t, %weft_pt_c;\n"
			    "\tdiv.u32 %weft_pt_t, %weft_pt_t, %weft_pt_c;\n"
			    "\tst.shared.u32 [weft_pt_slot], %weft_pt_a;\n"
			    "\tld.param.u32 %weft_pt_c, [weft_pt_args+12];\n"
			    "\trem.u32 %weft_pt_a, %weft_pt_t, %weft_pt_c;\n"
			    "\tdiv.u32 %weft_pt_t, %weft_pt_t, %weft_pt_c;\n"
			    "\tst.shared.u32 [weft_pt_slot+4], %weft_pt_a;\n"
			    "\tst.shared.u32 [weft_pt_slot+8], %weft_pt_t;\n"
			    "weft_pt_wait:\n"
			    "\tbarrier.sync 0;\n"
			    "\tld.shared.u32 %weft_pt_a, [weft_pt_slot+12];\n"
			    "\tsetp.ne.u32 %weft_pt_p, %weft_pt_a, 0;\n"
			    "\tactivemask.b32 %weft_pt_t;\n"
			    "\tvote.sync.any.pred %weft_pt_p, %weft_pt_p, %weft_pt_t;\n"
			    "\t@%weft_pt_p bra weft_pt_run;\n";

/*
 * The last block to end puts the counter back, if a launch does its grid alone, unless the
 * grid has blocks left. Of others, each adds what it has done, behind all that it has written, and
 * whoever finds the grid done says so to the stream that waits.
 */
static const char end[] = "weft_pt_end:\n" FIRST(
	"ret") "\tld.param.u64 %weft_pt_d, [weft_pt_args];\n"
	       "\tld.param.u32 %weft_pt_c, [weft_pt_args+24];\n"
	       "\tsetp.ne.u32 %weft_pt_p, %weft_pt_c, 0;\n"
	       "\t@%weft_pt_p bra weft_pt_alone;\n"
	       "\tred.global.add.u32 [%weft_pt_d+4], 1;\n"
	       "\tld.shared.u32 %weft_pt_a, [weft_pt_slot+16];\n"
	       "\tsetp.eq.u32 %weft_pt_p, %weft_pt_a, 0;\n"
	       "\t@%weft_pt_p ret;\n"
	       "\tmembar.sys;\n"
	       "\tatom.global.add.u32 %weft_pt_t, [%weft_pt_d+16], %weft_pt_a;\n"
	       "\tadd.u32 %weft_pt_t, %weft_pt_t, %weft_pt_a;\n"
	       "\tld.param.u32 %weft_pt_c, [weft_pt_args+20];\n"
	       "\tsetp.ne.u32 %weft_pt_p, %weft_pt_t, %weft_pt_c;\n"
	       "\t@%weft_pt_p ret;\n"
	       "\tmembar.sys;\n"
	       "\tmov.u32 %weft_pt_a, 1;\n"
	       "\tst.volatile.global.u32 [%weft_pt_d+12], %weft_pt_a;\n"
	       "\tret;\n"
	       "weft_pt_alone:\n"
	       "\tatom.global.add.u32 %weft_pt_t, [%weft_pt_d+4], 1;\n"
	       "\tsub.u32 %weft_pt_c, %weft_pt_c, 1;\n"
	       "\tsetp.ne.u32 %weft_pt_p, %weft_pt_t, %weft_pt_c;\n"
	       "\t@%weft_pt_p ret;\n"
	       "\tst.volatile.global.u32 [%weft_pt_d+4], 0;\n"
	       "\tld.volatile.global.u32 %weft_pt_t, [%weft_pt_d];\n"
	       "\tld.param.u32 %weft_pt_c, [weft_pt_args+20];\n"
	       "\tsetp.lt.u32 %weft_pt_p, %weft_pt_t, %weft_pt_c;\n"
	       "\t@%weft_pt_p ret;\n"
	       "\tst.volatile.global.u32 [%weft_pt_d], 0;\n"
	       "\tld.volatile.global.u32 %weft_pt_t, [%weft_pt_d+12];\n"
	       "\tadd.u32 %weft_pt_t, %weft_pt_t, 1;\n"
	       "\tst.volatile.global.u32 [%weft_pt_d+12], %weft_pt_t;\n"
	       "\tret;\n"
	       "weft_pt_run:\n";

static const char args[] = ".param .align 8 .b8 weft_pt_args[48]";

static struct ptx_span at(uint32_t offset)
{
	return (struct ptx_span){offset, offset};
}

/* Where a special register stands in an instruction, once; false: not as one word. */
static bool find_sreg(const char *text, const struct ptx_place *in, const char *name,
		      struct ptx_span *ret)
{
	size_t len = strlen(name);
	const char *s = memmem(text + in->op, in->text.end - in->op, name, len);
	const char *end_of_insn = text + in->text.end;

	if (!s || memmem(s + len, (size_t)(end_of_insn - s) - len, name, len))
		return false;
	ret->begin = (uint32_t)(s - text);
	ret->end = ret->begin + (uint32_t)len;
	return true;
}

/* Reads the grid's block in the place of the device's. Returns why that is not possible. */
static const char *edit_sreg(const struct pass *p, const struct ptx_func *f, uint32_t i,
			     struct ptx_edits *e)
{
	static const struct {
		const char *name, *load;
	} from[] = {
		{"%ctaid.x", "ld.shared.u32 %weft_pt_t, [weft_pt_slot]"},
		{"%ctaid.y", "ld.shared.u32 %weft_pt_t, [weft_pt_slot+4]"},
		{"%ctaid.z", "ld.shared.u32 %weft_pt_t, [weft_pt_slot+8]"},
		{"%nctaid.x", "ld.param.u32 %weft_pt_t, [weft_pt_args+8]"},
		{"%nctaid.y", "ld.param.u32 %weft_pt_t, [weft_pt_args+12]"},
		{"%nctaid.z", "ld.param.u32 %weft_pt_t, [weft_pt_args+16]"},
	};
	const struct ptx_place *place = &f->source->places[i];
	unsigned k = f->insns[i].o[1].idx - PTX_SR_CTAID_X;
	bool halved = i + 1 < f->ninsns && f->source->places[i + 1].op == place->op;
	struct ptx_span word;

	/* A mov that the parser has made two of reads half of it. */
	if ((halved && !strncmp(p->text + place->op, "mov", 3)) ||
	    !find_sreg(p->text, place, from[k].name, &word))
		return "asks for its block in an unusual way";
	ptx_edit(e, at(place->text.begin), "%s;\n\t", from[k].load);
	ptx_edit(e, word, "%s", "%weft_pt_t");
	return NULL;
}

static void edit_header(const struct ptx_source *s, bool any, struct ptx_edits *e)
{
	ptx_edit(e, at(s->name.begin), "%s", PTX_PERSIST_NAME);
	if (s->has_params)
		ptx_edit(e, at(s->params.end), "%s%s", any ? ", " : "", args);
	else
		ptx_edit(e, at(s->name.end), "(%s)", args);
}

/* Edits all that differs from the kernel's own body. Returns why that is not possible. */
static const char *edit_code(const struct pass *p, const struct ptx_func *f,
			     const struct ptx_yield *y, struct ptx_edits *e)
{
	const struct ptx_source *s = f->source;
	const char *why;

	ptx_yield_edit(y, p->text, f, e); /* in front of whatever else is put there */
	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];
		const struct ptx_place *place = &s->places[i];

		if ((in->op == PTX_RET || in->op == PTX_EXIT) && place->text.end)
			ptx_edit(e, (struct ptx_span){place->op, place->text.end},
				 "bra weft_pt_next;");
		if (in->op != PTX_MOV || !is_grid_sreg(&in->o[1]))
			continue;
		why = edit_sreg(p, f, i, e);
		if (why)
			return why;
	}
	return NULL;
}

static const char *edit_body(const struct pass *p, const struct ptx_func *f,
			     const struct ptx_yield *y, struct ptx_edits *e)
{
	ptx_edit(e, at(f->source->body.begin), "%s%s%sweft_pt_next:\n%s%s%s%s", head,
		 begin, y->n ? begin_yielding : "", p->copies ? wait_for_copies : "",
		 y->n ? meet_yielding : meet, take, end);
	return edit_code(p, f, y, e);
}

/* The body for blocks that go on. */
static int write_second(const struct pass *p, uint32_t func, const struct ptx_yield *y,
			FILE *out)
{
	_cleanup_(ptx_edits_fini) struct ptx_edits e = {0};
	const struct ptx_func *f = &p->m->funcs[func];
	_cleanup_free_ char *restore = NULL;
	FILE *to;
	size_t len;

	to = open_memstream(&restore, &len);
	if (!to)
		return -ENOMEM;
	ptx_yield_restore(y, p->m, func, p->seen, to);
	if (fclose(to))
		return -ENOMEM;
	ptx_yield_edit_shared(y, &e);
	ptx_edit(&e, at(f->source->places[0].text.begin), "%s", restore);
	(void)edit_code(p, f, y, &e); /* possible, as it was in the first one */
	return ptx_edits_write(&e, p->text, f->source->body, out);
}

/* Code that comes behind the kernel's own. */
static int write_end(const struct pass *p, uint32_t func, const struct ptx_yield *y,
		     FILE *out)
{
	int r = 0;

	fputs("\tbra weft_pt_next;\n", out);
	if (!y->n)
		return 0;
	ptx_yield_declare(y, out);
	ptx_yield_keep(y, p->m, func, p->seen, out);
	fputs("weft_pt_restore:\n{\n", out);
	r = write_second(p, func, y, out);
	fputs("\tbra weft_pt_next;\n", out);
	ptx_yield_keep(y, p->m, func, p->seen, out);
	fputs("}\n", out);
	return r;
}

static int edit_end(const struct pass *p, uint32_t func, const struct ptx_yield *y,
		    struct ptx_edits *e)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int r;

	if (!out)
		return -ENOMEM;
	r = write_end(p, func, y, out);
	if (fclose(out) && r == 0)
		r = -ENOMEM;
	if (r == 0)
		ptx_edit(e, at(p->m->funcs[func].source->body.end), "%s", text);
	return r;
}

static int plan_yields(const struct pass *p, uint32_t func, struct ptx_yield *ret,
		       struct ptx_persist_kernel *k)
{
	*ret = (struct ptx_yield){0};
	if (!p->yields)
		return 0;
	k->why_no_yield = NULL;
	return ptx_yield_plan(p->m, p->text, func, p->meets[func] || p->callees_meet,
			      ret);
}

/* k->why: there is no copy. Returns 0 or -ENOMEM. */
static int copy_kernel(const struct pass *p, uint32_t func, FILE *out,
		       struct ptx_persist_kernel *k)
{
	_cleanup_(ptx_edits_fini) struct ptx_edits e = {0};
	_cleanup_(ptx_yield_fini) struct ptx_yield y;
	const struct ptx_func *f = &p->m->funcs[func];
	int r = plan_yields(p, func, &y, k);

	if (r < 0)
		return r;
	edit_header(f->source, f->nparams, &e);
	k->why = edit_body(p, f, &y, &e);
	if (k->why)
		return 0;
	k->yields = y.n;
	k->why_no_yield = y.why;
	if (y.n)
		fprintf(out, "\n.visible .global .align 4 .b8 %s%s[%u];\n",
			PTX_PERSIST_STATE, f->name, ptx_yield_thread_bytes(&y));
	if (k->rows)
		fprintf(out, "\n.visible .global .align 1 .b8 %s%s[1];\n",
			PTX_PERSIST_ROWS, f->name);
	fputc('\n', out);
	r = edit_end(p, func, &y, &e);
	if (r == 0)
		r = ptx_edits_write(&e, p->text, f->source->text, out);
	fputc('\n', out);
	return r;
}

/* ---- all of a text ---- */

static int init(struct pass *p)
{
	uint32_t n = p->m->nfuncs + 1;

	p->bad = calloc(n, sizeof(*p->bad));
	p->meets = calloc(n, 1);
	p->seen = calloc(n, 1);
	p->stack = calloc(n, sizeof(*p->stack));
	if (!p->bad || !p->meets || !p->seen || !p->stack)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->m->nfuncs; i++) {
		const struct ptx_func *f = &p->m->funcs[i];

		p->bad[i] = bad_function(p, f);
		for (uint32_t k = 0; k < f->ninsns; k++) {
			const struct ptx_insn *in = &f->insns[k];

			p->meets[i] |= in->op != PTX_CALL && meets(p, in);
			p->copies |= in->op == PTX_CP_ASYNC;
		}
	}
	return 0;
}

static void fini(struct pass *p)
{
	free(p->bad);
	free(p->meets);
	free(p->seen);
	free(p->stack);
}

/* Nothing of a text can be copied that has names like ours, or is for a debugger, which has other
 * sections name its labels. */
static const char *bad_text(const struct pass *p, size_t len)
{
	if (p->m->version < MIN_VERSION)
		return "is PTX older than 6.0";
	if (memmem(p->text, len, OURS, strlen(OURS)))
		return "has names that are ours";
	return memmem(p->text, len, "$L__func_begin", 14) ? "is made for a debugger"
							  : NULL;
}

static int copy_all(struct pass *p, size_t len, FILE *out, struct ptx_persist *ret)
{
	const char *bad = bad_text(p, len);
	int r = 0;

	fwrite(p->text, 1, len, out);
	fprintf(out, "\n.visible .global .align 64 .b8 %s[%zu];\n", PTX_PERSIST_CONTROL,
		PTX_PERSIST_SLOTS * sizeof(struct ptx_persist_control));
	for (uint32_t i = 0; i < p->m->nfuncs && r == 0; i++) {
		const struct ptx_func *f = &p->m->funcs[i];
		struct ptx_persist_kernel *k = &ret->kernels[ret->n];

		if (!f->is_entry || !f->has_body)
			continue;
		k->name = f->name;
		k->why = bad ? bad : bad_kernel(p, i, &k->rows);
		if (!k->why)
			r = copy_kernel(p, i, out, k);
		ret->n++;
		ret->n_copies += !k->why;
	}
	return r;
}

static int persist(struct pass *p, size_t len, struct ptx_persist *ret)
{
	FILE *out;
	int r;

	ret->kernels = calloc(p->m->nfuncs + 1, sizeof(*ret->kernels));
	if (!ret->kernels)
		return -ENOMEM;
	out = open_memstream(&ret->text, &ret->len);
	if (!out)
		return -ENOMEM;
	r = init(p);
	if (r == 0)
		r = copy_all(p, len, out, ret);
	fini(p);
	if (fclose(out) && r == 0)
		r = -ENOMEM;
	return r;
}

int ptx_persist(const char *text, size_t len, bool yields, struct ptx_log *log,
		struct ptx_persist *ret)
{
	struct pass p = {.text = text, .yields = yields};
	int r = ptx_parse_source(text, len, log, &p.m);

	*ret = (struct ptx_persist){.module = p.m};
	if (r < 0) {
		ret->module = NULL;
		return r;
	}
	r = persist(&p, strnlen(text, len), ret);
	if (r < 0) {
		ptx_persist_fini(ret);
	} else if (!ret->n_copies) {
		free(steal(ret->text));
		ret->len = 0;
	}
	return r;
}

void ptx_persist_fini(struct ptx_persist *p)
{
	free(p->text);
	free(p->kernels);
	ptx_module_free(p->module);
	*p = (struct ptx_persist){0};
}
