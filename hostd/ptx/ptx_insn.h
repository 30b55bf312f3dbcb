/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the parser: instructions and their operands (ptx_insn.c, ptx_opnd.c), and the
 * files that read those whose syntax is their own. */
#ifndef WEFT_PTX_INSN_H
#define WEFT_PTX_INSN_H

#include "ptx/ptx_int.h"

/* One instruction, from its guard or opcode to the ";". */
int ptx_insn(struct ptx_parser *p);
/* A new register of the current function. */
int ptx_new_reg(struct ptx_parser *p, enum ptx_type type, const struct ptx_sym *sym,
		uint32_t depth, uint32_t *ret_idx);
/* Appends an instruction with a copy of its operands; *ret_o (may be NULL) is the copy.
 */
int ptx_emit(struct ptx_parser *p, struct ptx_insn *in, const struct ptx_opnd *o,
	     struct ptx_opnd **ret_o);
/* Binds *at to a label, now or when its block ends. */
int ptx_label_ref(struct ptx_parser *p, struct ptx_sym *sym, uint32_t *at);

/* Looks a word up; a "%r12" of a range becomes a register on first use. Fails with
 * "Unknown symbol". */
int ptx_resolve(struct ptx_parser *p, struct ptx_sym *sym, struct ptx_bind **ret_bind);
/* "Arguments mismatch for instruction 'x'"; returns -EINVAL. */
int ptx_mismatch(struct ptx_parser *p, const struct ptx_insn *in);

/* Reads operands as a signature says, see ptx_opnd.c. */
int ptx_opnds(struct ptx_parser *p, struct ptx_insn *in, const char *sig,
	      struct ptx_opnd *o);
/* Single operands, for instructions with a syntax of their own. */
int ptx_opnd_src(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		 bool wider, struct ptx_opnd *o);
int ptx_opnd_dst(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		 bool wider, bool sink, struct ptx_opnd *o);
int ptx_opnd_pred(struct ptx_parser *p, struct ptx_insn *in, struct ptx_opnd *o);
int ptx_opnd_addr(struct ptx_parser *p, struct ptx_insn *in, enum ptx_space space,
		  struct ptx_opnd *o);
/* "{a, b}" of n elements; n = 0: as many as there are, up to 16. */
int ptx_opnd_vec(struct ptx_parser *p, struct ptx_insn *in, enum ptx_type type,
		 unsigned n, bool dst, bool wider, struct ptx_opnd *o);
/* A symbol's address, or false when the word is none. */
int ptx_opnd_symbol(struct ptx_parser *p, const struct ptx_bind *b, struct ptx_opnd *o);

/* Syntaxes of their own; each reads all operands and emits the instruction. */
int ptx_insn_mov(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_cvt(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_bra(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_brx(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_call(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_bar(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_atom(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_wmma(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_mma(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_cp_async(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_cp_bulk(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_policy(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_video(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_tex(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_surf(struct ptx_parser *p, struct ptx_insn *in);
int ptx_insn_query(struct ptx_parser *p, struct ptx_insn *in);

#endif
