/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering: from PTX instructions to ops. Each lower_*() takes one instruction and emits
 * one op or several; all of them return 0, -EOPNOTSUPP (and have written to the log) or
 * -ENOMEM.
 */
#ifndef WEFT_SIMT_LOWER_H
#define WEFT_SIMT_LOWER_H

#include "simt/program.h"

#define LOWER_NO_TARGET UINT32_MAX
#define LOWER_TEMPS     16

/* An op whose target is known only as an instruction until the function is complete. */
struct lower_fix {
	uint32_t op;
	uint32_t insn;   /* target */
	uint32_t reconv; /* or LOWER_NO_TARGET */
};

struct lower {
	struct simt_program *prog;
	struct ptx_log *log;
	int error; /* why lower_emit() returned NULL */

	/* ops of all functions */
	struct simt_op *ops;
	uint32_t *origin;
	size_t num_ops, cap_ops;

	/* constant rows */
	uint8_t *konst;
	size_t konst_bytes, konst_cap;
	struct lower_konst *konst_map;
	size_t konst_num, konst_map_cap;

	/* the function at hand */
	const struct ptx_func *func;
	struct simt_code *code;
	const struct ptx_insn *insn;
	uint32_t insn_at;
	int32_t *row;    /* of each register */
	uint8_t *join;   /* by instruction: 1 if lanes meet there */
	uint32_t *op_at; /* by instruction: index of its first op */
	struct lower_fix *fixes;
	size_t num_fixes, cap_fixes;
	int32_t pred_next; /* words for predicates left in a line */
	uint32_t pred_left;
	int32_t frame;                /* bytes so far */
	int32_t temp[5][LOWER_TEMPS]; /* scratch rows by class, 0: not yet there */
	unsigned temps_used[5];       /* by the instruction at hand */
};

/* Says that the instruction at hand is not supported; returns -EOPNOTSUPP. */
int lower_refuse(struct lower *l, const char *why);

/* Says that nobody defines the function that is called; returns -ENOENT. */
int lower_unresolved(struct lower *l, const char *name);

/*
 * Appends an op with the handler called by the format, with the guard of the
 * instruction. NULL: there is no such handler (refused), or no memory. The pointer is
 * good until the next emit.
 */
struct simt_op *lower_emit(struct lower *l, const char *fmt, ...) _printf_(2, 3);

/* A row with the value in every lane. bits 16, 32, 64 or 128 (zero-extended). */
int32_t lower_konst(struct lower *l, unsigned bits, uint64_t value);

/* A scratch row, or predicate for bits 1, good during the instruction at hand. */
int32_t lower_temp(struct lower *l, unsigned bits);

/* Bits of the rows of a register, 1 for predicates. */
unsigned lower_reg_bits(const struct lower *l, uint32_t reg);

/* Row of a source operand; bits is the width of constants. May emit an op. */
int32_t lower_src(struct lower *l, const struct ptx_opnd *o, unsigned bits);
/* Row of a destination; a scratch row for a sink. */
int32_t lower_dst(struct lower *l, const struct ptx_opnd *o, unsigned bits);
/* Returns the row of a predicate that is a destination; -1 for a sink or NONE. */
int32_t lower_pred_dst(struct lower *l, const struct ptx_opnd *o);
/* Width of an operand's register, or bits if it is none. */
unsigned lower_width(const struct lower *l, const struct ptx_opnd *o, unsigned bits);

/*
 * Address operand o of an access in state space space: sets a, x, y and returns the
 * displacement in ret_disp. May emit an op before, so call it before lower_emit().
 */
struct lower_addr {
	int32_t a;
	uint8_t x, y;
	int64_t disp;
};
int lower_address(struct lower *l, const struct ptx_opnd *o, unsigned space,
		  unsigned bytes, struct lower_addr *ret_addr);

/* "u32", "s16", ...; bit types as unsigned. NULL for what is no integer. */
const char *lower_int_name(unsigned type);
bool lower_is_int(unsigned type);

/* Runs the guarded instruction at hand in a branch of its own, see ctrl.c. */
int lower_guard_begin(struct lower *l, bool rejoin, size_t *ret_at);
int lower_guard_end(struct lower *l, bool rejoin, size_t at);

int lower_arith(struct lower *l, const struct ptx_insn *in); /* arith.c */
int lower_bits(struct lower *l, const struct ptx_insn *in);  /* bits.c */
int lower_setp(struct lower *l, const struct ptx_insn *in);  /* set.c */
int lower_set(struct lower *l, const struct ptx_insn *in);
int lower_mov(struct lower *l, const struct ptx_insn *in); /* mov.c */
int lower_cvta(struct lower *l, const struct ptx_insn *in);
int lower_cvt(struct lower *l, const struct ptx_insn *in);  /* cvt.c */
int lower_load(struct lower *l, const struct ptx_insn *in); /* mem.c */
int lower_store(struct lower *l, const struct ptx_insn *in);
int lower_atom(struct lower *l, const struct ptx_insn *in);
int lower_control(struct lower *l, const struct ptx_insn *in); /* ctrl.c */
int lower_warp(struct lower *l, const struct ptx_insn *in);    /* warp.c */
int lower_matrix(struct lower *l, const struct ptx_insn *in);  /* matrix.c */
int lower_async(struct lower *l, const struct ptx_insn *in);   /* async.c */

int lower_tex(struct lower *l, const struct ptx_insn *in);     /* tex.c */

/* Assigns rows to the registers of l->func: l->row, and the frame grows. */
int lower_rows(struct lower *l);

#endif
