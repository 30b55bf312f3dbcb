/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for one instruction that the table of forms cannot express. */
#include "ptx/ptx_form.h"

static bool is_float(enum ptx_type t)
{
	return t == PTX_T_F32 || t == PTX_T_F64 || t == PTX_T_F16 || t == PTX_T_F16X2 ||
	       t == PTX_T_BF16 || t == PTX_T_BF16X2;
}

static bool is_bits(enum ptx_type t)
{
	return t == PTX_T_B16 || t == PTX_T_B32 || t == PTX_T_B64;
}

static bool is_unsigned(enum ptx_type t)
{
	return t == PTX_T_U16 || t == PTX_T_U32 || t == PTX_T_U64;
}

static bool cmp_ok(const struct ptx_insn *in, enum ptx_type t)
{
	if (is_float(t))
		return true;
	if (is_bits(t))
		return in->cmp == PTX_C_EQ || in->cmp == PTX_C_NE;
	return in->cmp < PTX_C_LO || is_unsigned(t);
}

static bool redux_ok(const struct ptx_insn *in)
{
	bool logic = in->sub == PTX_ATOM_AND || in->sub == PTX_ATOM_OR ||
		     in->sub == PTX_ATOM_XOR;
	bool order = in->sub == PTX_ATOM_MIN || in->sub == PTX_ATOM_MAX;

	if (in->type[0] == PTX_T_B32)
		return logic;
	return order || (in->sub == PTX_ATOM_ADD && in->type[0] != PTX_T_F32);
}

bool ptx_space_ok(const struct ptx_insn *in)
{
	enum ptx_space s = in->space;
	bool shared = s == PTX_S_SHARED || s == PTX_S_SHARED_CLUSTER;

	switch (in->op) {
	case PTX_LD:
		return !(in->flags & PTX_F_NC) || s == PTX_S_GLOBAL || s == PTX_S_NONE;
	case PTX_LDU:
		return s == PTX_S_GLOBAL || s == PTX_S_NONE;
	case PTX_ST:
		return s != PTX_S_CONST;
	case PTX_ATOM:
	case PTX_RED:
		return s == PTX_S_NONE || s == PTX_S_GLOBAL || shared;
	case PTX_MBAR_INIT:
	case PTX_MBAR_INVAL:
	case PTX_MBAR_EXPECT_TX:
	case PTX_MBAR_COMPLETE_TX:
	case PTX_MBAR_ARRIVE:
	case PTX_MBAR_ARRIVE_DROP:
	case PTX_MBAR_TEST_WAIT:
	case PTX_MBAR_TRY_WAIT:
	case PTX_CP_ASYNC_MBAR_ARRIVE:
	case PTX_LDMATRIX:
	case PTX_STMATRIX:
	case PTX_MAPA:
	case PTX_GETCTARANK:
		return s == PTX_S_NONE || shared;
	case PTX_WMMA_LOAD:
	case PTX_WMMA_STORE:
		return s == PTX_S_NONE || s == PTX_S_GLOBAL || shared;
	case PTX_DISCARD:
	case PTX_APPLYPRIORITY:
	case PTX_CP_BULK_PREFETCH:
		return s == PTX_S_NONE || s == PTX_S_GLOBAL;
	default:
		return true;
	}
}

/* Width of a vector access: ISA 9.0 goes up to 32 bytes. */
static bool vec_ok(const struct ptx_insn *in)
{
	unsigned bits = ptx_type_bits(in->type[0]) * in->vec;

	if (in->op != PTX_LD && in->op != PTX_LDU && in->op != PTX_ST)
		return true;
	return in->vec == 1 || (bits <= 256 && in->type[0] != PTX_T_B128 &&
				(in->vec < 8 || ptx_type_bits(in->type[0]) == 32));
}

/* Memory orders that an access may have; a scope goes with an order that needs one. */
static bool order_ok(const struct ptx_insn *in)
{
	switch ((enum ptx_sem)in->sem) {
	case PTX_SEM_WEAK:
		return in->op == PTX_ATOM || in->op == PTX_RED || !in->scope;
	case PTX_SEM_VOLATILE:
		return !in->scope && (in->op == PTX_LD || in->op == PTX_ST);
	case PTX_SEM_RELAXED:
		break;
	case PTX_SEM_ACQUIRE:
		if (in->op == PTX_ST || in->op == PTX_RED)
			return false;
		break;
	case PTX_SEM_RELEASE:
		if (in->op == PTX_LD)
			return false;
		break;
	case PTX_SEM_ACQ_REL:
		return in->op == PTX_ATOM;
	case PTX_SEM_SC:
		return false;
	}
	return in->scope || in->op == PTX_ATOM || in->op == PTX_RED;
}

bool ptx_mods_ok(const struct ptx_insn *in)
{
	bool s32 = in->type[0] == PTX_T_S32;

	if (!vec_ok(in))
		return false;
	switch (in->op) {
	case PTX_LD:
	case PTX_ST:
	case PTX_ATOM:
	case PTX_RED:
	case PTX_MBAR_EXPECT_TX:
	case PTX_MBAR_COMPLETE_TX:
	case PTX_MBAR_ARRIVE:
	case PTX_MBAR_ARRIVE_DROP:
	case PTX_MBAR_TEST_WAIT:
	case PTX_MBAR_TRY_WAIT:
		return order_ok(in);
	case PTX_ADD:
	case PTX_SUB:
		return !(in->flags & PTX_F_SAT && in->flags & PTX_F_CC);
	case PTX_MAD:
	case PTX_MAD24:
		if (is_float(in->type[0]))
			return true;
		if (in->flags & PTX_F_SAT && (!s32 || in->sub != PTX_MUL_HI))
			return false;
		return !(in->flags & PTX_F_CC && in->sub == PTX_MUL_WIDE);
	case PTX_MIN:
	case PTX_MAX:
		return !(in->flags & PTX_F_RELU) || s32 || in->type[0] == PTX_T_S16X2;
	case PTX_RCP:
		return in->type[0] != PTX_T_F64 ||
		       !(in->flags & PTX_F_APPROX) == !(in->flags & PTX_F_FTZ);
	case PTX_LOP3:
		return in->bop != PTX_B_XOR;
	case PTX_SET:
		return cmp_ok(in, in->type[1]);
	case PTX_SETP:
		return cmp_ok(in, in->type[0]);
	case PTX_VOTE:
		return (in->sub == PTX_VOTE_BALLOT) == (in->type[0] == PTX_T_B32);
	case PTX_REDUX:
		return redux_ok(in);
	case PTX_VABSDIFF4:
		return in->sub == PTX_ATOM_NONE || in->sub == PTX_ATOM_ADD;
	default:
		return true;
	}
}

bool ptx_opnds_ok(const struct ptx_insn *in, const struct ptx_opnd *o)
{
	switch (in->op) {
	case PTX_MIN:
	case PTX_MAX:
		if (o[3].kind != PTX_O_NONE)
			return in->type[0] == PTX_T_F32;
		return !(in->flags & PTX_F_ABS) == !(in->flags & PTX_F_XORSIGN);
	case PTX_LOP3:
		return !in->bop == (o[1].kind == PTX_O_NONE) &&
		       !in->bop == (o[6].kind == PTX_O_NONE) && o[5].imm < 256;
	case PTX_SET:
	case PTX_SETP:
		return !in->bop == (o[in->nopnds - 1].kind == PTX_O_NONE);
	case PTX_SHFL:
		return !(in->flags & PTX_F_SYNC) == (o[5].kind == PTX_O_NONE);
	case PTX_VOTE:
		return !(in->flags & PTX_F_SYNC) == (o[2].kind == PTX_O_NONE);
	case PTX_MATCH:
		return in->sub || o[1].kind == PTX_O_NONE;
	case PTX_ELECT:
		return o[1].kind == PTX_O_REG;
	case PTX_ST:
		return o[0].kind != PTX_O_KPARAM;
	case PTX_MBAR_ARRIVE:
	case PTX_MBAR_ARRIVE_DROP:
		return o[2].kind != PTX_O_NONE ||
		       !(in->flags & (PTX_F_EXPECT_TX | PTX_F_NOCOMPLETE));
	case PTX_MBAR_TEST_WAIT:
		return o[3].kind == PTX_O_NONE;
	default:
		return true;
	}
}

unsigned ptx_written(const struct ptx_insn *in)
{
	switch (in->op) {
	case PTX_SETP:
	case PTX_LOP3:
	case PTX_SHFL:
	case PTX_MATCH:
	case PTX_ELECT:
	case PTX_TEX:
	case PTX_TEX_LEVEL:
	case PTX_TEX_GRAD:
	case PTX_TLD4:
		return 3;
	case PTX_CALL:
		return 2;
	case PTX_ST:
	case PTX_PREFETCH:
	case PTX_PREFETCHU:
	case PTX_APPLYPRIORITY:
	case PTX_DISCARD:
	case PTX_RED:
	case PTX_MEMBAR:
	case PTX_FENCE:
	case PTX_FENCE_PROXY:
	case PTX_FENCE_MBAR_INIT:
	case PTX_BRA:
	case PTX_BRX_IDX:
	case PTX_RET:
	case PTX_EXIT:
	case PTX_TRAP:
	case PTX_BRKPT:
	case PTX_PMEVENT:
	case PTX_NANOSLEEP:
	case PTX_GRIDDEPCONTROL:
	case PTX_SETMAXNREG:
	case PTX_STACKRESTORE:
	case PTX_BAR_WARP:
	case PTX_BARRIER_CLUSTER:
	case PTX_WMMA_STORE:
	case PTX_STMATRIX:
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
	case PTX_SUST:
		return 0;
	default:
		return 1;
	}
}
