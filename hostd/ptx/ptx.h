/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX modules in memory: what ptx_parse() makes of PTX text, for an executor that
 * decodes it once and then runs it. No CUDA, no session, no device is known here.
 *
 * A module is one arena: everything that it points to lives until ptx_module_free(),
 * and nothing in it changes after ptx_parse() or ptx_link() returned, so that any number
 * of threads may read it. Indexes, not strings, name things.
 *
 * What the parser guarantees, whatever the text was (an executor may rely on it):
 *   - every register index is < func->nregs; every variable, function, label, table and
 *     prototype index is in range; insn->guard is -1 or a predicate register;
 *   - an opcode has exactly the operands that PTX_OPS (ptx_isa.h) lists for it, in that
 *     order, of a kind that makes sense in that place (a destination is PTX_O_REG,
 *     PTX_O_SINK or a PTX_O_VEC of those; an address is MEM, VAR, LOCAL, PARAM, KPARAM
 *     or IMM); predicates are where predicates belong and nowhere else;
 *   - type[], space, sub and the other fields hold values of their enums and a
 *     combination that the opcode has;
 *   - a register is as wide as the operand's type. For ld, ldu, st, cvt, and the operands
 *     of mad.wide and the like it may be wider where PTX allows that; a load then sign-
 *     or zero-extends to the register's width and a store takes the low bits. 8-bit
 *     registers do not occur in arithmetic. A cvt to an integer type extends likewise;
 *   - vectors have the number of elements that the instruction needs;
 *   - PTX_O_SREG occurs only as operand 1 of a mov of the special register's own width
 *     (for cvt, and for 16-bit movs of old text, the parser puts such a mov in front);
 *   - immediates are cut to the operand's width and zero-extended to 64 bits; where the
 *     operand is f32 or f64, the value is its bit pattern;
 *   - the last instruction of a body is ret, exit, trap or an unguarded branch: control
 *     never runs past insn[ninsns - 1]. The parser appends ret where the text has none;
 *   - direct calls match the callee's parameters in number and size.
 *   - LOCAL and PARAM offsets name a declared variable: the base is inside the area;
 *     base + displacement need not be. Neither need KPARAM offsets or VAR displacements:
 *     the executor checks every access, as it does for computed addresses.
 * What it does not: that an indirect call finds a function of the prototype's shape
 * (ptx_sig_match() at run time), that all lanes arrive where .aligned says so, alignment
 * of addresses, or that recursion ends.
 *
 * May still change: fields may be added, never renamed. New sub modes for instructions
 * that are refused today.
 */
#ifndef WEFT_PTX_H
#define WEFT_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ptx_isa.h"

#define PTX_MAX_TEXT        (128u << 20) /* bytes; memory is at worst 30 times that */
#define PTX_MAX_PARAM_BYTES 32764        /* of a kernel, as the driver's limit */
#define PTX_MAX_ARGS        255          /* of a device function */
#define PTX_MAX_OPNDS       8

/* ---- operands ------------------------------------------------------------------- */

enum ptx_opnd_kind {
	PTX_O_NONE,   /* left out in the text */
	PTX_O_REG,    /* idx: register */
	PTX_O_IMM,    /* imm: bits of the operand's width */
	PTX_O_SINK,   /* "_": the result is dropped */
	PTX_O_VEC,    /* n elements at elem: REG, IMM, SINK (and PARAM in calls) */
	PTX_O_SREG,   /* idx: enum ptx_sreg */
	PTX_O_MEM,    /* [register idx + off] */
	PTX_O_VAR,    /* module variable idx + off (its space: module->vars[idx].space) */
	PTX_O_LOCAL,  /* byte off of the function's .local area */
	PTX_O_PARAM,  /* byte off of the function's parameter area, see struct ptx_func */
	PTX_O_KPARAM, /* byte off of the kernel's parameters (entry functions only) */
	PTX_O_FUNC,   /* function idx: its address, or the target of a call */
	PTX_O_LABEL,  /* instruction idx */
	PTX_O_TABLE,  /* idx: func->tables, of brx.idx */
	PTX_O_PROTO,  /* idx: func->protos, of an indirect call */
};

#define PTX_OF_NEG (1u << 0) /* "!p" on predicates; "-a" on vmad */

/* Part of a register that a video instruction picks. */
enum ptx_sel {
	PTX_SEL_NONE,
	PTX_SEL_B0,
	PTX_SEL_B1,
	PTX_SEL_B2,
	PTX_SEL_B3,
	PTX_SEL_H0,
	PTX_SEL_H1,
};

struct ptx_opnd {
	uint8_t kind;  /* enum ptx_opnd_kind */
	uint8_t flags; /* PTX_OF_* */
	uint8_t sel;   /* enum ptx_sel */
	uint8_t n;     /* PTX_O_VEC: elements. PARAM in calls: see size */
	uint32_t idx;  /* in call vectors, for PARAM: size in bytes */
	union {
		uint64_t imm;
		int64_t off; /* bytes */
		const struct ptx_opnd *elem;
	};
};

/* VAR, LOCAL, PARAM and FUNC outside an address place are addresses taken by mov or
 * cvta. The value is the address within the symbol's own state space, except in
 * generic loads and stores ("ld.u32 %r, [var]"), where space is PTX_S_NONE. PARAM as
 * a value (func->param_addr_taken) is the .local address of the parameter's copy. */

/* ---- instructions --------------------------------------------------------------- */

struct ptx_insn {
	uint16_t op;       /* enum ptx_op */
	uint8_t nopnds;    /* places, PTX_O_NONE included */
	uint8_t vec;       /* elements of ld/st/atom/red: 1, 2, 4, 8; ldmatrix .xN */
	uint8_t type[4];   /* enum ptx_type, as ptx_isa.h says, NONE beyond */
	uint8_t space;     /* enum ptx_space */
	uint8_t space2;    /* cp.async.bulk: the source's */
	uint8_t sub;       /* per opcode */
	uint8_t mode;      /* per opcode (vshl, vmad) */
	uint8_t rnd;       /* enum ptx_rnd */
	uint8_t cmp;       /* enum ptx_cmp */
	uint8_t bop;       /* enum ptx_bool */
	uint8_t sem;       /* enum ptx_sem */
	uint8_t scope;     /* enum ptx_scope */
	uint8_t shape;     /* enum ptx_shape */
	uint8_t layout[2]; /* enum ptx_layout */
	bool guard_neg;    /* @!p */
	uint8_t pad[3];
	int32_t guard;  /* predicate register, -1: none */
	uint32_t flags; /* PTX_F_* */
	uint32_t line;  /* of the PTX text, from 1 */
	/*
	 * bra and brx.idx: where lanes that part here meet again, as an instruction
	 * index (the immediate post-dominator); -1: only when they leave the function.
	 * Paths that end in trap or exit do not count: their lanes are gone. -1
	 * elsewhere.
	 */
	int32_t reconv;
	const struct ptx_opnd *o; /* nopnds operands */
};

/* Operands that are written: bit k for operand k. */
unsigned ptx_written(const struct ptx_insn *in);

/* ---- functions ------------------------------------------------------------------ */

struct ptx_reg {
	uint8_t type; /* enum ptx_type as declared: PRED, B/U/S/F of 8..128 bits */
	uint8_t bits; /* 1, 8, 16, 32, 64, 128 */
};

struct ptx_param {
	const char *name; /* "" where a prototype has "_" */
	uint32_t offset; /* kernels: of the parameter block; else of the parameter area */
	uint32_t size;   /* bytes, whole array */
	uint32_t align;
	int32_t reg;  /* .reg parameter: the register; -1: a .param in memory */
	uint8_t type; /* element type */
	bool is_array;
};

/* brx.idx: indexes at or above n are undefined behaviour; the executor checks. */
struct ptx_table {
	uint32_t n;
	const uint32_t *target; /* instruction indexes */
};

/* Shape of a callee: parameters with offsets from 0, reg = -1. */
struct ptx_proto {
	uint32_t nrets, nparams;
	const struct ptx_param *rets;
	const struct ptx_param *params;
	bool noreturn;
};

enum ptx_linkage {
	PTX_LINK_LOCAL, /* no directive: of this module only */
	PTX_LINK_VISIBLE,
	PTX_LINK_EXTERN, /* declared here, defined elsewhere or by the executor */
	PTX_LINK_WEAK,
	PTX_LINK_COMMON,
};

/* Bytes [begin, end) of a text. */
struct ptx_span {
	uint32_t begin, end;
};

/* Where the text has an instruction. Two have the same place if the parser has put one in front of
 * the other (special registers). */
struct ptx_place {
	struct ptx_span text; /* from guard or opcode to behind the ";"; empty: nowhere */
	uint32_t op;          /* where the opcode begins */
	uint32_t depth;       /* blocks around it, within the body */
};

/* A register in the text. */
struct ptx_reg_name {
	const char *name; /* NULL: nothing that stands for it alone */
	uint32_t depth;   /* of the block that has declared it, as in struct ptx_place */
};

/* Where the text has a function with a body. */
struct ptx_source {
	struct ptx_span text; /* from its linkage to behind its body */
	struct ptx_span name;
	struct ptx_span params;         /* of an entry, without the parentheses */
	bool has_params;                /* there are parentheses */
	struct ptx_span body;           /* without its braces */
	const struct ptx_place *places; /* of each instruction */
	const struct ptx_reg_name *regs; /* of each register */
	/* An instruction that is known by name alone, and left out of insns; or NULL. */
	const char *unknown;
};

struct ptx_func {
	const char *name;
	const struct ptx_source *source; /* NULL, but after ptx_parse_source() */
	uint8_t linkage; /* enum ptx_linkage */
	bool is_entry;
	bool has_body; /* false: an extern that the executor must provide or refuse */
	bool noreturn;
	bool uses_cc;          /* has add.cc and friends: lanes need a carry flag */
	bool param_addr_taken; /* PARAM occurs as a value */
	bool has_indirect_call;
	bool called;          /* by some function of the module, or addr_taken */
	bool addr_taken;      /* PTX_O_FUNC as a value, or in an initialiser, anywhere */
	bool uses_dyn_shared; /* reaches (by calls too) an extern .shared array */
	int32_t alias; /* index of the function that this one names, or -1. Operands
			* already name the aliasee */

	uint32_t nparams, nrets;
	const struct ptx_param *params; /* kernels: offsets as cuFuncGetParamInfo tells */
	const struct ptx_param *rets;

	/*
	 * Kernels: param_bytes is the size of the parameter block, read through KPARAM.
	 * Device functions: the parameter area of a frame holds the incoming parameters
	 * [0, param_bytes), then the return values, then .param variables of the body
	 * (the arguments of calls made here); PARAM operands have offsets in that area. A
	 * kernel has such an area for its calls too. A call copies each argument
	 * (elements of operand 2: REG, IMM or PARAM off) to callee->params[i].offset of
	 * the callee's area (or register .reg), and after ret each callee->rets[i] back
	 * into operand 1.
	 */
	uint32_t param_bytes;
	uint32_t area_bytes; /* whole parameter area */
	uint32_t area_align;
	uint32_t local_bytes; /* .local variables of the body */
	uint32_t local_align;

	/*
	 * Shared memory of an entry: static_shared covers every .shared variable that the
	 * kernel reaches, at var->shared_off; extern arrays begin at dyn_shared_off.
	 */
	uint32_t static_shared_bytes;
	uint32_t dyn_shared_off;

	uint32_t nregs;
	const struct ptx_reg *regs;
	uint32_t ninsns;
	const struct ptx_insn *insns;
	uint32_t ntables, nprotos;
	const struct ptx_table *tables;
	const struct ptx_proto *protos;

	/* Functions called directly, each once; together with the addresses taken
	 * anywhere in the module (if has_indirect_call) this is the call graph. */
	uint32_t ncallees;
	const uint32_t *callees;

	/* Directives; 0 where absent. */
	uint32_t maxntid[3], reqntid[3];
	uint32_t minnctapersm, maxnreg;
	uint32_t reqnctapercluster[3], maxclusterrank;
	bool explicitcluster;
	uint32_t line;
};

/* ---- variables ------------------------------------------------------------------ */

/* One address in an initialiser: bytes [off, off + size) of the variable receive
 * ((address of target + addend) & mask) >> shift, little endian. */
struct ptx_reloc {
	uint64_t off;
	int64_t addend;
	uint64_t mask;   /* ~0 when no mask() was written */
	uint32_t target; /* variable or function index */
	uint8_t size;    /* 1, 2, 4, 8 */
	uint8_t shift;   /* of mask(): its lowest set bit */
	bool is_func;
	bool generic; /* generic(): the generic address, not that within the space */
};

/*
 * Variables with static lifetime, also those declared inside functions (their name is
 * then "function.name", linkage local). .local and .param ones live in struct ptx_func.
 */
struct ptx_var {
	const char *name;
	uint8_t linkage;     /* enum ptx_linkage */
	uint8_t space;       /* GLOBAL, CONST or SHARED */
	uint8_t type;        /* element type */
	bool managed;        /* .attribute(.managed) */
	bool dynamic;        /* extern .shared: the block's dynamic shared memory */
	uint32_t align;      /* power of two */
	uint64_t size;       /* bytes; 0 for dynamic and for extern T[] */
	uint64_t init_bytes; /* the rest is zero */
	const uint8_t *init; /* NULL when init_bytes is 0 */
	uint32_t nrelocs;
	const struct ptx_reloc *relocs;
	uint32_t
		shared_off; /* SHARED, not dynamic: offset in the block's shared memory */
	int32_t func;       /* function that declares it, -1: module scope */
	uint32_t line;
};

struct ptx_module {
	uint32_t version;      /* 90 for ".version 9.0" */
	uint32_t sm;           /* 90 for ".target sm_90a" */
	char sm_suffix;        /* 'a', 'f' or 0 */
	uint32_t address_bits; /* always 64: 32-bit modules are refused */
	uint32_t nfuncs, nvars;
	const struct ptx_func *funcs;
	const struct ptx_var *vars;
	struct ptx_arena *arena; /* private */
};

/* ---- operations ----------------------------------------------------------------- */

/* Messages for the JIT error log, in ptxas's form. The caller owns buf; it is always
 * NUL-terminated, and later lines are dropped when it is full. */
struct ptx_log {
	char *buf;
	size_t cap;
	size_t len;
};

/*
 * Parses a PTX text of len bytes (a NUL ends it early) into a module. Reads the text
 * only during the call. Time is linear in len, memory bounded by a small multiple of it.
 * Returns 0, -EINVAL (the text is wrong: log says line and instruction), -ENOTSUP (an
 * instruction that this device does not have: log too), -E2BIG (a limit), -ENOMEM.
 * log may be NULL. Any thread; modules are independent.
 */
int ptx_parse(const char *text, size_t len, struct ptx_log *log,
	      struct ptx_module **ret_module);

/*
 * As ptx_parse(), for whoever is to change the text: says where it has what. Instructions that
 * this device does not have are no error: their functions say so (ptx_source.unknown).
 */
int ptx_parse_source(const char *text, size_t len, struct ptx_log *log,
		     struct ptx_module **ret_module);

/*
 * Joins modules into a new one: externs are bound to visible definitions, of several weak
 * or common ones the first is kept, local names stay apart. Undefined functions remain
 * extern (the executor knows some of them by name); an undefined variable or two visible
 * definitions are -EINVAL with a line in the log. The inputs stay the caller's.
 */
int ptx_link(const struct ptx_module *const *modules, size_t n, struct ptx_log *log,
	     struct ptx_module **ret_module);

/* NULL is fine. */
void ptx_module_free(struct ptx_module *m);

/* By name, linear in the number of functions or variables; NULL when absent. Function-
 * scope variables are not found. */
const struct ptx_func *ptx_find_func(const struct ptx_module *m, const char *name);
const struct ptx_var *ptx_find_var(const struct ptx_module *m, const char *name);

/* True if f can be called through proto: same number of parameters and return values,
 * each of the same size. An indirect call must check this before it enters f. */
bool ptx_sig_match(const struct ptx_proto *proto, const struct ptx_func *f);

#endif
