/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line for each set of types that an instruction has. The types of an instruction
 * choose the line; its modifiers must then be among those of the line. The signature
 * language is described in ptx_opnd.c.
 */
#include "ptx/ptx_form.h"

#define T(t) (1ull << PTX_T_##t)

#define I16  (T(U16) | T(S16))
#define I32  (T(U32) | T(S32))
#define I64  (T(U64) | T(S64))
#define INT  (I16 | I32 | I64)
#define BIT  (T(B16) | T(B32) | T(B64))
#define H    (T(F16) | T(F16X2))
#define BF   (T(BF16) | T(BF16X2))
#define X2   (T(U16X2) | T(S16X2))
#define I8   (T(B8) | T(U8) | T(S8))
#define FLT  (T(F32) | T(F64))
/* Types that ld and st move, and that selp picks. */
#define SEL       (BIT | INT | FLT)
#define DATA      (SEL | I8 | T(B128))

#define ARITH_F32 (M(RND) | M(FTZ) | M(SAT))
#define ARITH_H   (M(RN) | M(FTZ) | M(SAT))
#define MINMAX    (M(NAN) | M(XORSIGN) | M(ABS))
#define MEM       (M(SPACE) | M(SEM) | M(SCOPE) | M(IGNORE) | M(VEC))
#define CMP_INT   (M(CMPI) | M(CMPU))
#define CMP_FLT   (M(CMPI) | M(CMPF))

#define F(o, t, may_, must_, one_, s)                                                    \
	{                                                                                \
		.op = PTX_##o, .types = t, .may = may_, .must = must_, .one = one_,      \
		.sig = s                                                                 \
	}
#define P(o, t, may_, must_, one_, fn)                                                   \
	{                                                                                \
		.op = PTX_##o, .types = t, .may = may_, .must = must_, .one = one_,      \
		.parse = fn                                                              \
	}
#define T1(a)                                                                            \
	{                                                                                \
		a                                                                        \
	}
#define T2(a, b)                                                                         \
	{                                                                                \
		a, b                                                                     \
	}
#define T3(a, b, c)                                                                      \
	{                                                                                \
		a, b, c                                                                  \
	}
#define T0                                                                               \
	{                                                                                \
		0                                                                        \
	}

#define ADD_SUB(o)                                                                       \
	F(o, T1(I16 | X2), 0, 0, 0, "d0 s0 s0"),                                         \
		F(o, T1(T(U32) | I64), M(CC), 0, 0, "d0 s0 s0"),                         \
		F(o, T1(T(S32)), M(SAT) | M(CC), 0, 0, "d0 s0 s0"),                      \
		F(o, T1(T(F32)), ARITH_F32, 0, 0, "d0 s0 s0"),                           \
		F(o, T1(T(F64)), M(RND), 0, 0, "d0 s0 s0"),                              \
		F(o, T1(H), ARITH_H, 0, 0, "d0 s0 s0"),                                  \
		F(o, T1(BF), M(RN), 0, 0, "d0 s0 s0")
#define ABS_NEG(o)                                                                       \
	F(o, T1(T(S16) | T(S32) | T(S64) | T(F64) | BF), 0, 0, 0, "d0 s0"),              \
		F(o, T1(T(F32) | H), M(FTZ), 0, 0, "d0 s0")
#define MIN_MAX(o)                                                                       \
	F(o, T1(INT | X2), M(RELU), 0, 0, "d0 s0 s0 ?0"),                                \
		F(o, T1(T(F32)), M(FTZ) | MINMAX, 0, 0, "d0 s0 s0 ?0"),                  \
		F(o, T1(T(F64)), 0, 0, 0, "d0 s0 s0 --"),                                \
		F(o, T1(H), M(FTZ) | MINMAX, 0, 0, "d0 s0 s0 --"),                       \
		F(o, T1(BF), MINMAX, 0, 0, "d0 s0 s0 --")
#define LOGIC(o)    F(o, T1(BIT | T(PRED)), 0, 0, 0, "d0 s0 s0")
#define APPROX32(o) F(o, T1(T(F32)), M(FTZ), M(APPROX), 0, "d0 s0")
#define BULK        (M(SPACE) | M(SPACE2) | M(BULK) | M(IGNORE))
#define MBAR        (M(SEM) | M(SCOPE) | M(SPACE))
#define VTYPES      T3(I32, I32, I32)
#define VIDEO(o)    P(o, VTYPES, M(SAT) | M(ATOM), 0, 0, ptx_insn_video)

const struct ptx_form ptx_forms[] = {
	ADD_SUB(ADD),
	F(ADDC, T1(I32 | I64), M(CC), 0, 0, "d0 s0 s0"),
	ADD_SUB(SUB),
	F(SUBC, T1(I32 | I64), M(CC), 0, 0, "d0 s0 s0"),
	F(MUL, T1(I16 | I32), 0, 0, M(HL) | M(WIDE), "dw s0 s0"),
	F(MUL, T1(I64), 0, M(HL), 0, "d0 s0 s0"),
	F(MUL, T1(T(F32)), ARITH_F32, 0, 0, "d0 s0 s0"),
	F(MUL, T1(T(F64)), M(RND), 0, 0, "d0 s0 s0"),
	F(MUL, T1(H), ARITH_H, 0, 0, "d0 s0 s0"),
	F(MUL, T1(BF), M(RN), 0, 0, "d0 s0 s0"),
	F(MUL24, T1(I32), 0, M(HL), 0, "d0 s0 s0"),
	F(MAD, T1(I16), 0, 0, M(HL) | M(WIDE), "dw s0 s0 sw"),
	F(MAD, T1(I32), M(CC) | M(SAT), 0, M(HL) | M(WIDE), "dw s0 s0 sw"),
	F(MAD, T1(I64), M(CC), M(HL), 0, "d0 s0 s0 s0"),
	F(MAD, T1(T(F32)), ARITH_F32, 0, 0, "d0 s0 s0 s0"),
	F(MAD, T1(T(F64)), M(RND), 0, 0, "d0 s0 s0 s0"),
	F(MADC, T1(I32 | I64), M(CC), M(HL), 0, "d0 s0 s0 s0"),
	F(MAD24, T1(I32), M(SAT), M(HL), 0, "d0 s0 s0 s0"),
	F(FMA, T1(T(F32)), M(FTZ) | M(SAT), M(RND), 0, "d0 s0 s0 s0"),
	F(FMA, T1(T(F64)), 0, M(RND), 0, "d0 s0 s0 s0"),
	F(FMA, T1(H), M(FTZ) | M(SAT) | M(RELU) | M(OOB), M(RN), 0, "d0 s0 s0 s0"),
	F(FMA, T1(BF), M(RELU) | M(OOB), M(RN), 0, "d0 s0 s0 s0"),
	F(DIV, T1(INT), 0, 0, 0, "d0 s0 s0"),
	F(DIV, T1(T(F32)), M(FTZ), 0, M(RND) | M(APPROX) | M(FULL), "d0 s0 s0"),
	F(DIV, T1(T(F64)), 0, M(RND), 0, "d0 s0 s0"),
	F(REM, T1(INT), 0, 0, 0, "d0 s0 s0"),
	ABS_NEG(ABS),
	ABS_NEG(NEG),
	MIN_MAX(MIN),
	MIN_MAX(MAX),
	F(SAD, T1(INT), 0, 0, 0, "d0 s0 s0 s0"),
	F(RCP, T1(T(F32)), M(FTZ), 0, M(RND) | M(APPROX), "d0 s0"),
	F(RCP, T1(T(F64)), M(FTZ), 0, M(RND) | M(APPROX), "d0 s0"),
	F(SQRT, T1(T(F32)), M(FTZ), 0, M(RND) | M(APPROX), "d0 s0"),
	F(SQRT, T1(T(F64)), 0, M(RND), 0, "d0 s0"),
	F(RSQRT, T1(FLT), M(FTZ), M(APPROX), 0, "d0 s0"),
	APPROX32(SIN),
	APPROX32(COS),
	APPROX32(LG2),
	F(EX2, T1(T(F32) | BF), M(FTZ), M(APPROX), 0, "d0 s0"),
	F(EX2, T1(H), 0, M(APPROX), 0, "d0 s0"),
	F(TANH, T1(T(F32) | H | BF), 0, M(APPROX), 0, "d0 s0"),
	F(TESTP, T1(FLT), 0, M(TESTP), 0, "P- s0"),
	F(COPYSIGN, T1(FLT), 0, 0, 0, "d0 s0 s0"),

	LOGIC(AND),
	LOGIC(OR),
	LOGIC(XOR),
	F(NOT, T1(BIT | T(PRED)), 0, 0, 0, "d0 s0"),
	F(CNOT, T1(BIT), 0, 0, 0, "d0 s0"),
	F(SHL, T1(BIT), 0, 0, 0, "d0 s0 su"),
	F(SHR, T1(BIT | INT), 0, 0, 0, "d0 s0 su"),
	F(SHF, T1(T(B32)), 0, M(LR) | M(CW), 0, "du su su su"),
	F(LOP3, T1(T(B32)), M(BOOL), 0, 0, "e0 s0 s0 s0 i- ?q"),
	F(PRMT, T1(T(B32)), M(PRMT), 0, 0, "du su su su"),
	F(POPC, T1(T(B32) | T(B64)), 0, 0, 0, "du s0"),
	F(CLZ, T1(T(B32) | T(B64)), 0, 0, 0, "du s0"),
	F(BFIND, T1(I32 | I64), M(SHIFTAMT), 0, 0, "du s0"),
	F(BREV, T1(T(B32) | T(B64)), 0, 0, 0, "d0 s0"),
	F(BFE, T1(I32 | I64), 0, 0, 0, "d0 s0 su su"),
	F(BFI, T1(T(B32) | T(B64)), 0, 0, 0, "d0 s0 s0 su su"),
	F(SZEXT, T1(I32), 0, M(CW), 0, "d0 s0 su"),
	F(BMSK, T1(T(B32)), 0, M(CW), 0, "d0 s0 su"),
	F(FNS, T1(T(B32)), 0, 0, 0, "du su su su"),
	F(DP4A, T2(I32, I32), 0, 0, 0, "du su su su"),
	F(DP2A, T2(I32, I32), 0, M(HL), 0, "du su su su"),

	F(SET, T2(I32 | T(F32), INT | BIT), M(BOOL), 0, CMP_INT, "d0 s1 s1 ?q"),
	F(SET, T2(I32 | T(F32), T(F32)), M(BOOL) | M(FTZ), 0, CMP_FLT, "d0 s1 s1 ?q"),
	F(SET, T2(I32 | T(F32), T(F64)), M(BOOL), 0, CMP_FLT, "d0 s1 s1 ?q"),
	F(SET, T2(I16 | I32 | T(F16), T(F16)), M(BOOL) | M(FTZ), 0, CMP_FLT,
	  "d0 s1 s1 ?q"),
	F(SET, T2(I16 | I32 | T(BF16), T(BF16)), M(BOOL), 0, CMP_FLT, "d0 s1 s1 ?q"),
	F(SET, T2(I32 | T(F16X2), T(F16X2)), M(BOOL) | M(FTZ), 0, CMP_FLT, "d0 s1 s1 ?q"),
	F(SET, T2(I32 | T(BF16X2), T(BF16X2)), M(BOOL), 0, CMP_FLT, "d0 s1 s1 ?q"),
	F(SETP, T1(INT | BIT), M(BOOL), 0, CMP_INT, "R- s0 s0 ?q"),
	F(SETP, T1(T(F32) | H), M(BOOL) | M(FTZ), 0, CMP_FLT, "R- s0 s0 ?q"),
	F(SETP, T1(T(F64) | BF), M(BOOL), 0, CMP_FLT, "R- s0 s0 ?q"),
	F(SELP, T1(SEL), 0, 0, 0, "d0 s0 s0 q-"),
	F(SLCT, T2(SEL, T(S32)), 0, 0, 0, "d0 s0 s0 s1"),
	F(SLCT, T2(SEL, T(F32)), M(FTZ), 0, 0, "d0 s0 s0 s1"),

	P(MOV, T1(SEL | T(PRED) | T(B128)), 0, 0, 0, ptx_insn_mov),
	P(CVT, T2(~0ull, ~0ull),
	  M(RND) | M(RNI) | M(RNA) | M(FTZ) | M(SAT) | M(RELU) | M(SATFINITE), 0, 0,
	  ptx_insn_cvt),
	F(CVTPACK, T2(I16, T(S32)), 0, M(SAT), 0, "du su su --"),
	F(CVTPACK, T3(T(U8) | T(S8) | T(U4) | T(S4) | T(U2) | T(S2), T(S32), T(B32)), 0,
	  M(SAT), 0, "du su su su"),
	F(CVTA, T1(T(U32) | T(U64)), M(TO), M(SPACE), 0, "d0 a0"),
	F(ISSPACEP, T0, 0, M(SPACE), 0, "P- aa"),
	F(MAPA, T1(T(U32) | T(U64)), M(SPACE), 0, 0, "d0 a0 su"),
	F(GETCTARANK, T1(T(U32) | T(U64)), M(SPACE), 0, 0, "du a0"),

	F(LD, T1(DATA), MEM | M(NC), 0, 0, "v0 A- ?l"),
	F(LDU, T1(DATA), M(SPACE) | M(VEC), 0, 0, "v0 A-"),
	F(ST, T1(DATA), MEM, 0, 0, "A- V0 ?l"),
	F(PREFETCH, T0, M(SPACE) | M(IGNORE), 0, 0, "A-"),
	F(PREFETCHU, T0, 0, M(IGNORE), 0, "A-"),
	F(APPLYPRIORITY, T0, M(SPACE), M(IGNORE), 0, "A- i-"),
	F(DISCARD, T0, M(SPACE), M(IGNORE), 0, "A- i-"),
	P(CREATEPOLICY, T1(T(B64)), M(SPACE) | M(IGNORE), 0, 0, ptx_insn_policy),
	P(ATOM, T1(SEL | T(B128) | H | BF), MEM | M(NOFTZ), M(ATOM), 0, ptx_insn_atom),
	P(RED, T1(SEL | H | BF), MEM | M(NOFTZ), M(ATOM), 0, ptx_insn_atom),
	F(MEMBAR, T0, 0, 0, M(SCOPE) | M(LEVEL), ""),
	F(FENCE, T0, M(SEM) | M(WORD), M(SCOPE), 0, ""),
	F(FENCE_PROXY, T0, M(WORD) | M(SPACE) | M(SEM) | M(SCOPE), 0, 0, "?A ?i"),
	F(FENCE_MBAR_INIT, T0, 0, M(SEM) | M(SCOPE), 0, ""),

	P(BRA, T0, M(UNI), 0, 0, ptx_insn_bra),
	P(BRX_IDX, T0, M(UNI), 0, 0, ptx_insn_brx),
	P(CALL, T0, M(UNI), 0, 0, ptx_insn_call),
	F(RET, T0, M(UNI), 0, 0, ""),
	F(EXIT, T0, 0, 0, 0, ""),
	F(TRAP, T0, 0, 0, 0, ""),
	F(BRKPT, T0, 0, 0, 0, ""),
	F(PMEVENT, T0, M(WORD), 0, 0, "i-"),
	F(NANOSLEEP, T1(T(U32)), 0, 0, 0, "s0"),
	F(GRIDDEPCONTROL, T0, 0, M(WAIT), 0, ""),
	F(SETMAXNREG, T1(T(U32)), M(ALIGNED), M(SYNC) | M(WORD), 0, "i-"),
	F(ALLOCA, T1(T(U32) | T(U64)), 0, 0, 0, "d0 s0 ?i"),
	F(STACKSAVE, T1(T(U32) | T(U64)), 0, 0, 0, "d0"),
	F(STACKRESTORE, T1(T(U32) | T(U64)), 0, 0, 0, "s0"),

	P(BAR, T0, M(ALIGNED) | M(SCOPE), M(BAR), 0, ptx_insn_bar),
	P(BAR, T1(T(PRED) | T(U32)), M(ALIGNED) | M(SCOPE), M(BAR) | M(BARRED), 0,
	  ptx_insn_bar),
	F(BAR_WARP, T0, 0, 0, 0, "su"),
	F(BARRIER_CLUSTER, T0, M(SEM) | M(ALIGNED), M(WAIT), 0, ""),
	F(SHFL, T1(T(B32)), M(SYNC), M(SHFL), 0, "e0 s0 su su ?u"),
	F(VOTE, T1(T(PRED) | T(B32)), M(SYNC), M(VOTE), 0, "d0 q- ?u"),
	F(MATCH, T1(T(B32) | T(B64)), 0, M(SYNC) | M(ANYALL), 0, "eu s0 su"),
	F(ACTIVEMASK, T1(T(B32)), 0, 0, 0, "du"),
	F(REDUX, T1(T(B32) | I32), 0, M(SYNC) | M(ATOM), 0, "d0 s0 su"),
	F(REDUX, T1(T(F32)), M(ABS) | M(NAN), M(SYNC) | M(ATOM), 0, "d0 s0 su"),
	F(ELECT, T0, 0, M(SYNC), 0, "eu su"),

#define WMMA (M(ALIGNED) | M(SYNC) | M(SHAPE))
	P(WMMA_LOAD, T1(~0ull), M(SPACE), WMMA | M(FRAG) | M(LAYOUT), 0, ptx_insn_wmma),
	P(WMMA_STORE, T1(~0ull), M(SPACE), WMMA | M(FRAG) | M(LAYOUT), 0, ptx_insn_wmma),
	P(WMMA_MMA, T2(T(F16) | T(F32), T(F16) | T(F32)), M(SATFINITE), WMMA | M(LAYOUT),
	  0, ptx_insn_wmma),
	{.op = PTX_WMMA_MMA,
	 .types = {~0ull, ~0ull, ~0ull, ~0ull},
	 .may = M(SATFINITE) | M(RND) | M(MMAOP) | M(WORD),
	 .must = WMMA | M(LAYOUT),
	 .parse = ptx_insn_wmma},
	{.op = PTX_MMA,
	 .types = {~0ull, ~0ull, ~0ull, ~0ull},
	 .may = M(SATFINITE) | M(RND) | M(MMAOP) | M(WORD),
	 .must = WMMA | M(LAYOUT),
	 .parse = ptx_insn_mma},
	F(LDMATRIX, T1(T(B16)), M(TRANS) | M(SPACE), WMMA | M(NUM), 0, "vb A-"),
	F(STMATRIX, T1(T(B16)), M(TRANS) | M(SPACE), WMMA | M(NUM), 0, "A- Vb"),
	F(MOVMATRIX, T1(T(B16)), 0, WMMA | M(TRANS), 0, "du su"),

	P(CP_ASYNC, T0, 0, M(SPACE) | M(SPACE2) | M(IGNORE), 0, ptx_insn_cp_async),
	F(CP_ASYNC_COMMIT, T0, 0, 0, 0, ""),
	F(CP_ASYNC_WAIT_GROUP, T0, 0, 0, 0, "i-"),
	F(CP_ASYNC_WAIT_ALL, T0, 0, 0, 0, ""),
	F(CP_ASYNC_MBAR_ARRIVE, T1(T(B64)), M(SPACE) | M(NOINC), 0, 0, "A-"),
	P(CP_BULK, T0, M(MULTICAST) | BULK, M(SPACE) | M(SPACE2) | M(BULK), 0,
	  ptx_insn_cp_bulk),
	P(CP_REDUCE_BULK, T1(INT | BIT | FLT | T(F16) | T(BF16)), BULK | M(NOFTZ),
	  M(SPACE) | M(SPACE2) | M(BULK) | M(ATOM), 0, ptx_insn_cp_bulk),
	F(CP_BULK_PREFETCH, T0, M(IGNORE), M(SPACE), 0, "A- su ?l"),
	F(CP_BULK_COMMIT, T0, 0, 0, 0, ""),
	F(CP_BULK_WAIT, T0, M(READ), 0, 0, "i-"),
	F(MBAR_INIT, T1(T(B64)), M(SPACE), 0, 0, "A- su"),
	F(MBAR_INVAL, T1(T(B64)), M(SPACE), 0, 0, "A-"),
	F(MBAR_EXPECT_TX, T1(T(B64)), MBAR, 0, 0, "A- su"),
	F(MBAR_COMPLETE_TX, T1(T(B64)), MBAR, 0, 0, "A- su"),
	F(MBAR_ARRIVE, T1(T(B64)), MBAR | M(NOCOMPLETE) | M(EXPECT_TX), 0, 0, "D0 A- ?u"),
	F(MBAR_ARRIVE_DROP, T1(T(B64)), MBAR | M(NOCOMPLETE) | M(EXPECT_TX), 0, 0,
	  "D0 A- ?u"),
	F(MBAR_TEST_WAIT, T1(T(B64)), MBAR | M(PARITY), 0, 0, "P- A- sy ?u"),
	F(MBAR_TRY_WAIT, T1(T(B64)), MBAR | M(PARITY), 0, 0, "P- A- sy ?u"),
	F(MBAR_PENDING_COUNT, T1(T(B64)), 0, 0, 0, "du s0"),

#define TEXEL (T(U32) | T(S32) | T(F32))
#define SURF  (T(B8) | T(B16) | T(B32) | T(B64))
	P(TEX, T2(TEXEL, T(S32) | T(F32)), 0, M(VEC) | M(GEOM), 0, ptx_insn_tex),
	P(TEX_LEVEL, T2(TEXEL, T(F32)), 0, M(VEC) | M(GEOM), 0, ptx_insn_tex),
	P(TEX_GRAD, T2(TEXEL, T(F32)), 0, M(VEC) | M(GEOM), 0, ptx_insn_tex),
	P(TLD4, T2(TEXEL, T(F32)), 0, M(VEC) | M(GEOM), 0, ptx_insn_tex),
	P(TXQ, T1(T(B32)), 0, 0, 0, ptx_insn_query),
	P(SULD, T1(SURF), M(VEC) | M(IGNORE), M(GEOM) | M(CW), 0, ptx_insn_surf),
	P(SUST, T1(SURF), M(VEC) | M(IGNORE), M(GEOM) | M(CW), 0, ptx_insn_surf),
	P(SUQ, T1(T(B32)), 0, 0, 0, ptx_insn_query),

	VIDEO(VADD),
	VIDEO(VSUB),
	VIDEO(VABSDIFF),
	VIDEO(VMIN),
	VIDEO(VMAX),
	P(VSHL, VTYPES, M(SAT) | M(ATOM), M(CW), 0, ptx_insn_video),
	P(VSHR, VTYPES, M(SAT) | M(ATOM), M(CW), 0, ptx_insn_video),
	P(VMAD, VTYPES, M(SAT) | M(PO) | M(SHR), 0, 0, ptx_insn_video),
	P(VSET, T2(I32, I32), M(ATOM), M(CMPI), 0, ptx_insn_video),
	F(VABSDIFF4, T3(T(U32), T(U32), T(U32)), M(ATOM), 0, 0, "du su su su"),
};
const size_t ptx_num_forms = ARRAY_SIZE(ptx_forms);
