/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary of PTX as numbers: opcodes with the order of their operands, types,
 * and every modifier that changes what an instruction does. Nothing here allocates.
 *
 * Operand order is the order of the PTX text. Where the text may leave one out, or
 * writes two as "d|p", the place still exists and holds PTX_O_NONE, so that an operand
 * is always found at the same index. Each line of PTX_OPS says the order: capital
 * letters in comments below mean
 *   d destination, p predicate destination, a b c sources, A address, [x] may be NONE,
 *   {} PTX_O_VEC.
 */
#ifndef WEFT_PTX_ISA_H
#define WEFT_PTX_ISA_H

/* X(enumerator, mnemonic as PTX writes it) */
#define PTX_OPS(X)                                                                       \
	/* integer and float arithmetic; type[0] unless said otherwise */                \
	X(ADD, "add")   /* d a b; rnd sat ftz; CC = writes carry */                      \
	X(ADDC, "addc") /* d a b; reads carry */                                         \
	X(SUB, "sub")   /* d a b */                                                      \
	X(SUBC, "subc") /* d a b */                                                      \
	X(MUL, "mul")   /* d a b; sub = enum ptx_mulmode for integers */                 \
	X(MUL24, "mul24")                                                                \
	X(MAD, "mad") /* d a b c; sub = enum ptx_mulmode for integers */                 \
	X(MADC, "madc")                                                                  \
	X(MAD24, "mad24")                                                                \
	X(FMA, "fma")   /* d a b c */                                                    \
	X(DIV, "div")   /* d a b; rnd or APPROX or FULL */                               \
	X(REM, "rem")   /* d a b */                                                      \
	X(ABS, "abs")   /* d a */                                                        \
	X(NEG, "neg")   /* d a */                                                        \
	X(MIN, "min")   /* d a b [c]; NAN XORSIGN ABS RELU */                            \
	X(MAX, "max")   /* d a b [c] */                                                  \
	X(SAD, "sad")   /* d a b c */                                                    \
	X(RCP, "rcp")   /* d a */                                                        \
	X(SQRT, "sqrt") /* d a */                                                        \
	X(RSQRT, "rsqrt")                                                                \
	X(SIN, "sin")                                                                    \
	X(COS, "cos")                                                                    \
	X(LG2, "lg2")                                                                    \
	X(EX2, "ex2")                                                                    \
	X(TANH, "tanh")                                                                  \
	X(TESTP, "testp")       /* p a; sub = enum ptx_testp */                          \
	X(COPYSIGN, "copysign") /* d a b (sign of a, magnitude of b) */                  \
	/* bits */                                                                       \
	X(AND, "and")                                                                    \
	X(OR, "or")                                                                      \
	X(XOR, "xor")                                                                    \
	X(NOT, "not")                                                                    \
	X(CNOT, "cnot")                                                                  \
	X(SHL, "shl") /* d a b (b is 32 bits wide) */                                    \
	X(SHR, "shr")                                                                    \
	X(SHF, "shf")     /* d a b c; sub = enum ptx_shf */                              \
	X(LOP3, "lop3")   /* d [p] a b c immLut [q]; bop OR/AND when p is there */       \
	X(PRMT, "prmt")   /* d a b c; sub = enum ptx_prmt */                             \
	X(POPC, "popc")   /* d a (d is u32) */                                           \
	X(CLZ, "clz")     /* d a (d is u32) */                                           \
	X(BFIND, "bfind") /* d a (d is u32); SHIFTAMT */                                 \
	X(BREV, "brev")   /* d a */                                                      \
	X(BFE, "bfe")     /* d a b c (b, c are u32) */                                   \
	X(BFI, "bfi")     /* f a b c d (c, d are u32) */                                 \
	X(SZEXT, "szext") /* d a b; sub = 0 clamp, 1 wrap */                             \
	X(BMSK, "bmsk")   /* d a b; sub = 0 clamp, 1 wrap */                             \
	X(FNS, "fns")     /* d mask base offset */                                       \
	X(DP4A, "dp4a")   /* d a b c; type[0] a, type[1] b */                            \
	X(DP2A, "dp2a")   /* d a b c; sub = PTX_MUL_LO or PTX_MUL_HI */                  \
	/* comparison and selection */                                                   \
	X(SET, "set")   /* d a b [c]; type[0] d, type[1] a; cmp; bop with c */           \
	X(SETP, "setp") /* p [q] a b [c]; type[0]; cmp; bop with c */                    \
	X(SELP, "selp") /* d a b c (c predicate) */                                      \
	X(SLCT, "slct") /* d a b c; type[0] d, type[1] c (s32 or f32) */                 \
	/* moves and conversions */                                                      \
	X(MOV, "mov")           /* d a; either may be a PTX_O_VEC (pack, unpack) */      \
	X(CVT, "cvt")           /* d a [b]; type[0] d, type[1] a; b for packed d */      \
	X(CVTPACK, "cvt.pack")  /* d a b [c]; type[0] d, type[1] a b, type[2] c */       \
	X(CVTA, "cvta")         /* d a; space; TO = generic to space */                  \
	X(ISSPACEP, "isspacep") /* p a; space */                                         \
	X(MAPA, "mapa")         /* d a b; space NONE or SHARED_CLUSTER */                \
	X(GETCTARANK, "getctarank")                                                      \
	/* memory */                                                                     \
	X(LD, "ld")   /* d|{d} A [policy]; vec space sem scope; NC for ld.global.nc */   \
	X(LDU, "ldu") /* d|{d} A */                                                      \
	X(ST, "st")   /* A a|{a} [policy] */                                             \
	X(PREFETCH, "prefetch") /* A */                                                  \
	X(PREFETCHU, "prefetchu")                                                        \
	X(APPLYPRIORITY, "applypriority") /* A size */                                   \
	X(DISCARD, "discard")             /* A size */                                   \
	X(CREATEPOLICY, "createpolicy")   /* d ...; a hint, d may be any value */        \
	X(ATOM, "atom")     /* d|{d} A b|{b} [c] [policy]; sub = enum ptx_atom */        \
	X(RED, "red")       /* A b|{b} [policy]; sub = enum ptx_atom */                  \
	X(MEMBAR, "membar") /* scope */                                                  \
	X(FENCE, "fence")   /* sem scope */                                              \
	X(FENCE_PROXY, "fence.proxy")                                                    \
	X(FENCE_MBAR_INIT, "fence.mbarrier_init")                                        \
	/* control */                                                                    \
	X(BRA, "bra")         /* label; UNI */                                           \
	X(BRX_IDX, "brx.idx") /* a table */                                              \
	X(CALL, "call")       /* target {rets} {args} [proto]; UNI */                    \
	X(RET, "ret")                                                                    \
	X(EXIT, "exit")                                                                  \
	X(TRAP, "trap")                                                                  \
	X(BRKPT, "brkpt")                                                                \
	X(PMEVENT, "pmevent")               /* a */                                      \
	X(NANOSLEEP, "nanosleep")           /* a */                                      \
	X(GRIDDEPCONTROL, "griddepcontrol") /* sub = 0 launch_dependents, 1 wait */      \
	X(SETMAXNREG, "setmaxnreg")         /* a; no effect */                           \
	X(ALLOCA, "alloca")                 /* d size [align]; type[0] u32 or u64 */     \
	X(STACKSAVE, "stacksave")           /* d */                                      \
	X(STACKRESTORE, "stackrestore")     /* a */                                      \
	/* threads of a warp, a block, a cluster */                                      \
	X(BAR, "bar") /* [d] a [b] [c]; sub = enum ptx_bar; d for red only; b thread     \
		       * count, c predicate of red; ALIGNED */                           \
	X(BAR_WARP, "bar.warp.sync")          /* mask */                                 \
	X(BARRIER_CLUSTER, "barrier.cluster") /* sub = 0 arrive, 1 wait; sem; ALIGNED */ \
	X(SHFL, "shfl")   /* d [p] a b c [mask]; sub = enum ptx_shfl */                  \
	X(VOTE, "vote")   /* d a [mask]; sub = enum ptx_vote; d predicate or b32 */      \
	X(MATCH, "match") /* d [p] a mask; sub = 0 any, 1 all */                         \
	X(ACTIVEMASK, "activemask") /* d */                                              \
	X(REDUX, "redux")           /* d a mask; sub = enum ptx_atom; NAN ABS */         \
	X(ELECT, "elect")           /* d|_ p mask */                                     \
	/* matrices */                                                                   \
	X(WMMA_LOAD, "wmma.load")   /* {d} A [stride]; sub = enum ptx_frag; shape,       \
				     * layout[0], type[0] */                             \
	X(WMMA_STORE, "wmma.store") /* A {d} [stride] */                                 \
	X(WMMA_MMA, "wmma.mma")     /* {d} {a} {b} {c}; layout[0] a, layout[1] b;        \
				     * type[0..3] d a b c */                             \
	X(MMA, "mma") /* {d} {a} {b} {c}; type[0..3] d a b c; sub = ptx_mmaop */         \
	X(LDMATRIX, "ldmatrix")   /* {d} A; vec = .x1 .x2 .x4, TRANS; type[0] */         \
	X(STMATRIX, "stmatrix")   /* A {a}; vec, TRANS */                                \
	X(MOVMATRIX, "movmatrix") /* d a */                                              \
	/* asynchronous copies */                                                        \
	X(CP_ASYNC, "cp.async") /* A(shared) A(global) size [srcsize|ignore] [policy] */ \
	X(CP_ASYNC_COMMIT, "cp.async.commit_group")                                      \
	X(CP_ASYNC_WAIT_GROUP, "cp.async.wait_group") /* n */                            \
	X(CP_ASYNC_WAIT_ALL, "cp.async.wait_all")                                        \
	X(CP_ASYNC_MBAR_ARRIVE, "cp.async.mbarrier.arrive") /* A; NOINC */               \
	X(CP_BULK, "cp.async.bulk") /* A(dst) A(src) size [A mbar] [mask|policy]         \
				     * [policy]; space dst, space2 src; MULTICAST */     \
	X(CP_REDUCE_BULK, "cp.reduce.async.bulk")     /* A A size [A mbar] [policy];     \
						       * sub = ptx_atom; type[0] */      \
	X(CP_BULK_PREFETCH, "cp.async.bulk.prefetch") /* A size [policy] */              \
	X(CP_BULK_COMMIT, "cp.async.bulk.commit_group")                                  \
	X(CP_BULK_WAIT, "cp.async.bulk.wait_group") /* n; READ */                        \
	X(MBAR_INIT, "mbarrier.init")               /* A count */                        \
	X(MBAR_INVAL, "mbarrier.inval")             /* A */                              \
	X(MBAR_EXPECT_TX, "mbarrier.expect_tx")     /* A count */                        \
	X(MBAR_COMPLETE_TX, "mbarrier.complete_tx") /* A count */                        \
	X(MBAR_ARRIVE, "mbarrier.arrive") /* d|_ A [count]; NOCOMPLETE EXPECT_TX */      \
	X(MBAR_ARRIVE_DROP, "mbarrier.arrive_drop")                                      \
	X(MBAR_TEST_WAIT, "mbarrier.test_wait") /* p A state|parity [hint]; PARITY */    \
	X(MBAR_TRY_WAIT, "mbarrier.try_wait")                                            \
	X(MBAR_PENDING_COUNT, "mbarrier.pending_count") /* d state */                    \
	/* textures and surfaces: by object; mode = enum ptx_geom. T is the object */    \
	X(TEX, "tex")             /* {d} [p] T {c}; type[0] d, type[1] c */              \
	X(TEX_LEVEL, "tex.level") /* {d} [p] T {c} lod */                                \
	X(TEX_GRAD, "tex.grad")   /* {d} [p] T {c} {dx} {dy} */                          \
	X(TLD4, "tld4")           /* {d} [p] T {c}; sub = component */                   \
	X(TXQ, "txq")             /* d T; sub = enum ptx_query */                        \
	X(SULD, "suld.b")         /* {d} T {c}; vec; sub = enum ptx_bound */             \
	X(SUST, "sust.b")         /* T {c} {a}; vec; sub */                              \
	X(SUQ, "suq")             /* d T; sub = enum ptx_query */                        \
	/* video: type[0] d, type[1] a, type[2] b; sel of operands; sub = secondary */   \
	X(VADD, "vadd") /* d a b [c]; sat; sub = enum ptx_atom (ADD MIN MAX) or 0;       \
			 * d has sel when merging */                                     \
	X(VSUB, "vsub")                                                                  \
	X(VABSDIFF, "vabsdiff")                                                          \
	X(VMIN, "vmin")                                                                  \
	X(VMAX, "vmax")                                                                  \
	X(VSHL, "vshl") /* mode = 0 clamp, 1 wrap */                                     \
	X(VSHR, "vshr")                                                                  \
	X(VMAD, "vmad") /* d a b c; mode = right shift 0, 7, 15; PO; opnd NEG */         \
	X(VSET, "vset") /* d a b [c]; cmp; type[0] a, type[1] b; sub */                  \
	X(VABSDIFF4, "vabsdiff4") /* d a b c; type[0] d; bytes; sub ADD: their sum and c */

enum ptx_op {
#define X(id, name) PTX_##id,
	PTX_OPS(X)
#undef X
	PTX_NUM_OPS,
};

/* Types. Packed ones count as the bit type of their whole width. */
#define PTX_TYPES(X)                                                                     \
	/* id, name, bits */                                                             \
	X(NONE, "", 0)                                                                   \
	X(PRED, "pred", 1)                                                               \
	X(B1, "b1", 1)                                                                   \
	X(U2, "u2", 2)                                                                   \
	X(S2, "s2", 2)                                                                   \
	X(U4, "u4", 4)                                                                   \
	X(S4, "s4", 4)                                                                   \
	X(U8, "u8", 8)                                                                   \
	X(S8, "s8", 8)                                                                   \
	X(B8, "b8", 8)                                                                   \
	X(E4M3, "e4m3", 8)                                                               \
	X(E5M2, "e5m2", 8)                                                               \
	X(U16, "u16", 16)                                                                \
	X(S16, "s16", 16)                                                                \
	X(B16, "b16", 16)                                                                \
	X(F16, "f16", 16)                                                                \
	X(BF16, "bf16", 16)                                                              \
	X(E4M3X2, "e4m3x2", 16)                                                          \
	X(E5M2X2, "e5m2x2", 16)                                                          \
	X(U32, "u32", 32)                                                                \
	X(S32, "s32", 32)                                                                \
	X(B32, "b32", 32)                                                                \
	X(F32, "f32", 32)                                                                \
	X(TF32, "tf32", 32)                                                              \
	X(F16X2, "f16x2", 32)                                                            \
	X(BF16X2, "bf16x2", 32)                                                          \
	X(U16X2, "u16x2", 32)                                                            \
	X(S16X2, "s16x2", 32)                                                            \
	X(U64, "u64", 64)                                                                \
	X(S64, "s64", 64)                                                                \
	X(B64, "b64", 64)                                                                \
	X(F64, "f64", 64)                                                                \
	X(F32X2, "f32x2", 64)                                                            \
	X(B128, "b128", 128)

enum ptx_type {
#define X(id, name, bits) PTX_T_##id,
	PTX_TYPES(X)
#undef X
	PTX_NUM_TYPES,
};

enum ptx_space {
	PTX_S_NONE, /* generic address */
	PTX_S_GLOBAL,
	PTX_S_SHARED,         /* .shared, .shared::cta */
	PTX_S_SHARED_CLUSTER, /* .shared::cluster */
	PTX_S_LOCAL,
	PTX_S_CONST,
	PTX_S_PARAM,
	PTX_NUM_SPACES,
};

enum ptx_rnd {
	PTX_R_NONE,
	PTX_R_RN,
	PTX_R_RZ,
	PTX_R_RM,
	PTX_R_RP,
	PTX_R_RNA, /* nearest, ties away from zero */
	PTX_R_RNI, /* to an integer value */
	PTX_R_RZI,
	PTX_R_RMI,
	PTX_R_RPI,
};

/* Unordered comparisons (xxU) are true when an operand is NaN; LO..HS are unsigned. */
enum ptx_cmp {
	PTX_C_NONE,
	PTX_C_EQ,
	PTX_C_NE,
	PTX_C_LT,
	PTX_C_LE,
	PTX_C_GT,
	PTX_C_GE,
	PTX_C_LO,
	PTX_C_LS,
	PTX_C_HI,
	PTX_C_HS,
	PTX_C_EQU,
	PTX_C_NEU,
	PTX_C_LTU,
	PTX_C_LEU,
	PTX_C_GTU,
	PTX_C_GEU,
	PTX_C_NUM,
	PTX_C_NAN,
};

enum ptx_bool {
	PTX_B_NONE,
	PTX_B_AND,
	PTX_B_OR,
	PTX_B_XOR
};

enum ptx_sem {
	PTX_SEM_WEAK, /* also when nothing is written */
	PTX_SEM_VOLATILE,
	PTX_SEM_RELAXED,
	PTX_SEM_ACQUIRE,
	PTX_SEM_RELEASE,
	PTX_SEM_ACQ_REL,
	PTX_SEM_SC,
};

enum ptx_scope {
	PTX_SCOPE_NONE,
	PTX_SCOPE_CTA,
	PTX_SCOPE_CLUSTER,
	PTX_SCOPE_GPU,
	PTX_SCOPE_SYS,
};

/* Values of insn->sub, by opcode. */
enum ptx_mulmode {
	PTX_MUL_NONE,
	PTX_MUL_LO,
	PTX_MUL_HI,
	PTX_MUL_WIDE
};
enum ptx_testp {
	PTX_TESTP_FINITE,
	PTX_TESTP_INFINITE,
	PTX_TESTP_NUMBER,
	PTX_TESTP_NAN,
	PTX_TESTP_NORMAL,
	PTX_TESTP_SUBNORMAL,
};
enum ptx_shf {
	PTX_SHF_L_CLAMP,
	PTX_SHF_L_WRAP,
	PTX_SHF_R_CLAMP,
	PTX_SHF_R_WRAP
};
enum ptx_prmt {
	PTX_PRMT_INDEX,
	PTX_PRMT_F4E,
	PTX_PRMT_B4E,
	PTX_PRMT_RC8,
	PTX_PRMT_ECL,
	PTX_PRMT_ECR,
	PTX_PRMT_RC16,
};
enum ptx_atom {
	PTX_ATOM_NONE,
	PTX_ATOM_AND,
	PTX_ATOM_OR,
	PTX_ATOM_XOR,
	PTX_ATOM_EXCH,
	PTX_ATOM_CAS,
	PTX_ATOM_ADD,
	PTX_ATOM_INC,
	PTX_ATOM_DEC,
	PTX_ATOM_MIN,
	PTX_ATOM_MAX,
};
enum ptx_bar {
	PTX_BAR_SYNC,
	PTX_BAR_ARRIVE,
	PTX_BAR_RED_POPC,
	PTX_BAR_RED_AND,
	PTX_BAR_RED_OR,
};
enum ptx_shfl {
	PTX_SHFL_UP,
	PTX_SHFL_DOWN,
	PTX_SHFL_BFLY,
	PTX_SHFL_IDX
};
enum ptx_vote {
	PTX_VOTE_ALL,
	PTX_VOTE_ANY,
	PTX_VOTE_UNI,
	PTX_VOTE_BALLOT
};
enum ptx_frag {
	PTX_FRAG_A,
	PTX_FRAG_B,
	PTX_FRAG_C,
	PTX_FRAG_D
};
enum ptx_mmaop {
	PTX_MMA_MULADD,
	PTX_MMA_XOR_POPC,
	PTX_MMA_AND_POPC
};
/* How coordinates read; the layer of A... comes first, as u32. */
enum ptx_geom {
	PTX_G_1D,
	PTX_G_2D,
	PTX_G_3D,
	PTX_G_A1D,
	PTX_G_A2D,
	PTX_G_CUBE,
	PTX_G_ACUBE,
};
enum ptx_query {
	PTX_Q_WIDTH,
	PTX_Q_HEIGHT,
	PTX_Q_DEPTH,
};
/* Effect of an access outside of a surface. */
enum ptx_bound {
	PTX_BOUND_CLAMP = 0,
	PTX_BOUND_ZERO = 2,
	PTX_BOUND_TRAP = 3,
};
enum ptx_layout {
	PTX_L_ROW,
	PTX_L_COL
};

#define PTX_SHAPES(X)                                                                    \
	X(M16N16K16, 16, 16, 16)                                                         \
	X(M8N32K16, 8, 32, 16)                                                           \
	X(M32N8K16, 32, 8, 16)                                                           \
	X(M8N8K4, 8, 8, 4)                                                               \
	X(M8N8K16, 8, 8, 16)                                                             \
	X(M8N8K32, 8, 8, 32)                                                             \
	X(M8N8K128, 8, 8, 128)                                                           \
	X(M16N16K8, 16, 16, 8)                                                           \
	X(M16N8K4, 16, 8, 4)                                                             \
	X(M16N8K8, 16, 8, 8)                                                             \
	X(M16N8K16, 16, 8, 16)                                                           \
	X(M16N8K32, 16, 8, 32)                                                           \
	X(M16N8K64, 16, 8, 64)                                                           \
	X(M16N8K128, 16, 8, 128)                                                         \
	X(M16N8K256, 16, 8, 256)                                                         \
	X(M8N8, 8, 8, 0)                                                                 \
	X(M8N16, 8, 16, 0)                                                               \
	X(M16N8, 16, 8, 0)                                                               \
	X(M16N16, 16, 16, 0)

enum ptx_shape {
	PTX_SHAPE_NONE,
#define X(id, m, n, k) PTX_SHAPE_##id,
	PTX_SHAPES(X)
#undef X
	PTX_NUM_SHAPES,
};

/* insn->flags */
#define PTX_F_SAT        (1u << 0) /* .sat on arithmetic and cvt; integer .satfinite */
#define PTX_F_FTZ        (1u << 1)
#define PTX_F_APPROX     (1u << 2)
#define PTX_F_FULL       (1u << 3)
#define PTX_F_CC         (1u << 4) /* writes the carry flag */
#define PTX_F_NAN        (1u << 5) /* NaN in, NaN out */
#define PTX_F_XORSIGN    (1u << 6)
#define PTX_F_ABS        (1u << 7)
#define PTX_F_RELU       (1u << 8)
#define PTX_F_SATFINITE  (1u << 9) /* cvt, and integer mma */
#define PTX_F_SHIFTAMT   (1u << 10)
#define PTX_F_UNI        (1u << 11)
#define PTX_F_TO         (1u << 12) /* cvta.to */
#define PTX_F_NC         (1u << 13)
#define PTX_F_ALIGNED    (1u << 14) /* bar, barrier.cluster, wmma, mma: all lanes come */
#define PTX_F_TRANS      (1u << 15)
#define PTX_F_NOINC      (1u << 16)
#define PTX_F_NOCOMPLETE (1u << 17)
#define PTX_F_EXPECT_TX  (1u << 18)
#define PTX_F_PARITY     (1u << 19)
#define PTX_F_READ       (1u << 20) /* cp.async.bulk.wait_group.read */
#define PTX_F_MULTICAST  (1u << 21)
#define PTX_F_PO         (1u << 22) /* vmad: plus one */
#define PTX_F_OOB        (1u << 23) /* fma.oob */
#define PTX_F_HINT       (1u << 24) /* .L2::cache_hint: the policy operand is there */
#define PTX_F_IGNORE_SRC                                                                 \
	(1u << 25)             /* cp.async: operand 3 is the ignore-src predicate        \
				*/
#define PTX_F_SYNC  (1u << 26) /* shfl/vote: .sync form, has a member mask */
#define PTX_F_NOFTZ (1u << 27) /* atom/red .noftz */

/* Special registers; vectors are split into their components. */
#define PTX_SREGS(X)                                                                     \
	/* id, name, type */                                                             \
	X(TID_X, "%tid.x", U32)                                                          \
	X(TID_Y, "%tid.y", U32)                                                          \
	X(TID_Z, "%tid.z", U32)                                                          \
	X(NTID_X, "%ntid.x", U32)                                                        \
	X(NTID_Y, "%ntid.y", U32)                                                        \
	X(NTID_Z, "%ntid.z", U32)                                                        \
	X(CTAID_X, "%ctaid.x", U32)                                                      \
	X(CTAID_Y, "%ctaid.y", U32)                                                      \
	X(CTAID_Z, "%ctaid.z", U32)                                                      \
	X(NCTAID_X, "%nctaid.x", U32)                                                    \
	X(NCTAID_Y, "%nctaid.y", U32)                                                    \
	X(NCTAID_Z, "%nctaid.z", U32)                                                    \
	X(CLUSTERID_X, "%clusterid.x", U32)                                              \
	X(CLUSTERID_Y, "%clusterid.y", U32)                                              \
	X(CLUSTERID_Z, "%clusterid.z", U32)                                              \
	X(NCLUSTERID_X, "%nclusterid.x", U32)                                            \
	X(NCLUSTERID_Y, "%nclusterid.y", U32)                                            \
	X(NCLUSTERID_Z, "%nclusterid.z", U32)                                            \
	X(CLUSTER_CTAID_X, "%cluster_ctaid.x", U32)                                      \
	X(CLUSTER_CTAID_Y, "%cluster_ctaid.y", U32)                                      \
	X(CLUSTER_CTAID_Z, "%cluster_ctaid.z", U32)                                      \
	X(CLUSTER_NCTAID_X, "%cluster_nctaid.x", U32)                                    \
	X(CLUSTER_NCTAID_Y, "%cluster_nctaid.y", U32)                                    \
	X(CLUSTER_NCTAID_Z, "%cluster_nctaid.z", U32)                                    \
	X(CLUSTER_CTARANK, "%cluster_ctarank", U32)                                      \
	X(CLUSTER_NCTARANK, "%cluster_nctarank", U32)                                    \
	X(IS_EXPLICIT_CLUSTER, "%is_explicit_cluster", PRED)                             \
	X(LANEID, "%laneid", U32)                                                        \
	X(WARPID, "%warpid", U32)                                                        \
	X(NWARPID, "%nwarpid", U32)                                                      \
	X(SMID, "%smid", U32)                                                            \
	X(NSMID, "%nsmid", U32)                                                          \
	X(GRIDID, "%gridid", U64)                                                        \
	X(LANEMASK_EQ, "%lanemask_eq", U32)                                              \
	X(LANEMASK_LE, "%lanemask_le", U32)                                              \
	X(LANEMASK_LT, "%lanemask_lt", U32)                                              \
	X(LANEMASK_GE, "%lanemask_ge", U32)                                              \
	X(LANEMASK_GT, "%lanemask_gt", U32)                                              \
	X(CLOCK, "%clock", U32)                                                          \
	X(CLOCK_HI, "%clock_hi", U32)                                                    \
	X(CLOCK64, "%clock64", U64)                                                      \
	X(GLOBALTIMER, "%globaltimer", U64)                                              \
	X(GLOBALTIMER_LO, "%globaltimer_lo", U32)                                        \
	X(GLOBALTIMER_HI, "%globaltimer_hi", U32)                                        \
	X(PM, "%pm", U32)     /* %pm0..%pm7; reads 0 */                                  \
	X(PM64, "%pm64", U64) /* %pm0_64..%pm7_64 */                                     \
	X(ENVREG, "%envreg", U32)                                                        \
	X(ENVREG1, "%envreg1", U32)                                                      \
	X(ENVREG2, "%envreg2", U32)                                                      \
	X(RESERVED_SMEM_BEGIN, "%reserved_smem_offset_begin", U32)                       \
	X(RESERVED_SMEM_END, "%reserved_smem_offset_end", U32)                           \
	X(RESERVED_SMEM_CAP, "%reserved_smem_offset_cap", U32)                           \
	X(RESERVED_SMEM_0, "%reserved_smem_offset_0", U32)                               \
	X(RESERVED_SMEM_1, "%reserved_smem_offset_1", U32)                               \
	X(TOTAL_SMEM_SIZE, "%total_smem_size", U32)                                      \
	X(AGGR_SMEM_SIZE, "%aggr_smem_size", U32)                                        \
	X(DYNAMIC_SMEM_SIZE, "%dynamic_smem_size", U32)                                  \
	X(CURRENT_GRAPH_EXEC, "%current_graph_exec", U64)

enum ptx_sreg {
#define X(id, name, type) PTX_SR_##id,
	PTX_SREGS(X)
#undef X
	PTX_NUM_SREGS,
};

/* Names and widths, for messages and decoders; never NULL for a value of the enum. */
const char *ptx_op_name(enum ptx_op op);
const char *ptx_type_name(enum ptx_type type);
unsigned ptx_type_bits(enum ptx_type type);
enum ptx_type ptx_sreg_type(enum ptx_sreg sreg);

/* m, n and k of a shape; zeroes for PTX_SHAPE_NONE. */
void ptx_shape_dims(enum ptx_shape shape, unsigned *ret_m, unsigned *ret_n,
		    unsigned *ret_k);

#endif
