/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instructions as a table: which types and modifiers each accepts, and the order of
 * its operands.
 */
#ifndef WEFT_PTX_FORM_H
#define WEFT_PTX_FORM_H

#include "ptx/ptx_insn.h"

/*
 * Modifier classes. A word may be in several (".lo" is half of a product, or a
 * comparison); the form of the instruction decides which one is meant. Classes up to
 * PTX_M_LAST_FLAG only set a PTX_F_* flag.
 */
enum ptx_modclass {
	PTX_M_SAT,
	PTX_M_FTZ,
	PTX_M_APPROX,
	PTX_M_FULL,
	PTX_M_CC,
	PTX_M_NAN,
	PTX_M_XORSIGN,
	PTX_M_ABS,
	PTX_M_RELU,
	PTX_M_SATFINITE,
	PTX_M_SHIFTAMT,
	PTX_M_UNI,
	PTX_M_TO,
	PTX_M_NC,
	PTX_M_ALIGNED,
	PTX_M_TRANS,
	PTX_M_NOINC,
	PTX_M_NOCOMPLETE,
	PTX_M_EXPECT_TX,
	PTX_M_PARITY,
	PTX_M_READ,
	PTX_M_MULTICAST,
	PTX_M_PO,
	PTX_M_OOB,
	PTX_M_NOFTZ,
	PTX_M_SYNC,
	PTX_M_HINT, /* allowed where IGNORE is */
	PTX_M_LAST_FLAG = PTX_M_HINT,
	PTX_M_RND,  /* rn rz rm rp */
	PTX_M_RN,   /* rn alone */
	PTX_M_RNI,  /* rni rzi rmi rpi */
	PTX_M_RNA,  /* rna */
	PTX_M_HL,   /* lo hi */
	PTX_M_WIDE, /* wide */
	PTX_M_CMPI, /* eq ne lt le gt ge */
	PTX_M_CMPU, /* lo ls hi hs */
	PTX_M_CMPF, /* equ neu ltu leu gtu geu num nan */
	PTX_M_BOOL, /* and or xor */
	PTX_M_SPACE,
	PTX_M_SPACE2, /* a second state space */
	PTX_M_SEM,
	PTX_M_SCOPE,
	PTX_M_LEVEL,  /* gl, of membar */
	PTX_M_IGNORE, /* cache operators and hints; any number */
	PTX_M_VEC,
	PTX_M_CW, /* clamp wrap; zero trap of surfaces */
	PTX_M_LR, /* l r */
	PTX_M_PRMT,
	PTX_M_TESTP,
	PTX_M_SHFL,
	PTX_M_VOTE,
	PTX_M_ANYALL,
	PTX_M_SHAPE,
	PTX_M_LAYOUT, /* row col, twice */
	PTX_M_FRAG,   /* a b c d */
	PTX_M_NUM,    /* x1 x2 x4 */
	PTX_M_ATOM,   /* and or xor exch cas add inc dec min max */
	PTX_M_BAR,    /* sync arrive red */
	PTX_M_BARRED, /* popc and or */
	PTX_M_WORD,   /* words that change nothing: cta, inc, dec, mask, proxies */
	PTX_M_WAIT,   /* arrive wait, launch_dependents wait */
	PTX_M_MMAOP,  /* xor and, with popc */
	PTX_M_BULK,   /* bulk_group, mbarrier::complete_tx::bytes */
	PTX_M_SHR,    /* shr7 shr15 */
	PTX_M_GEOM,   /* 1d 2d 3d a1d a2d cube acube */
	PTX_NUM_MODCLASSES,
};
static_assert(PTX_NUM_MODCLASSES <= 64, "classes are bits of a word");

#define M(c) (1ull << PTX_M_##c)

struct ptx_mod {
	const char *word;
	uint8_t cls;
	uint32_t val;
};

struct ptx_form {
	uint16_t op;
	uint64_t types[4]; /* bits of enum ptx_type each place may have; 0: no such place
			    */
	uint64_t may;      /* classes that may be there */
	uint64_t must;     /* classes that must be there */
	uint64_t one;      /* classes of which exactly one must be there */
	const char *sig;   /* NULL: parse */
	int (*parse)(struct ptx_parser *p, struct ptx_insn *in);
};

extern const struct ptx_form ptx_forms[];
extern const size_t ptx_num_forms;
extern const struct ptx_mod ptx_mods[];
extern const size_t ptx_num_mods;

/* Modifiers and types that go together; a state space that the instruction can reach;
 * optional operands, after they were read. */
bool ptx_mods_ok(const struct ptx_insn *in);
bool ptx_space_ok(const struct ptx_insn *in);
bool ptx_opnds_ok(const struct ptx_insn *in, const struct ptx_opnd *o);

/* Teaches a lexer the words. Returns 0 or -ENOMEM. */
int ptx_vocabulary(struct ptx_lex *lx);

#endif
