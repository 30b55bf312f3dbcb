/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the parser: its state, the names that are visible at a place of the text, and
 * what the files of this directory call of each other. Not for other directories.
 */
#ifndef WEFT_PTX_INT_H
#define WEFT_PTX_INT_H

#include "ptx/ptx.h"
#include "ptx/ptx_arena.h"
#include "ptx/ptx_lex.h"

#define PTX_MAX_DEPTH      64           /* of "{" in a body, "(" in constants */
#define PTX_MAX_MODS       24           /* words after an opcode */
#define PTX_MAX_REGS       (1u << 20)   /* of a function, as used */
#define PTX_MAX_LOCAL      (16u << 20)  /* bytes of a frame's areas, each */
#define PTX_MAX_VAR        (1ull << 40) /* bytes of a variable */
#define PTX_MAX_INIT_BYTES (64u << 20)  /* of all initialisers of a module */

/* Directives and other words that begin with a dot, as numbers. */
/* clang-format off */
#define PTX_DIRS(X) \
	X(version) X(target) X(address_size) X(entry) X(func) X(alias) X(file) \
	X(loc) X(section) X(pragma) X(extern) X(visible) X(weak) X(common) \
	X(global) X(const) X(shared) X(local) X(param) X(reg) X(tex) X(sreg) X(align) \
	X(ptr) X(attribute) X(branchtargets) X(calltargets) X(callprototype) \
	X(noreturn) X(maxntid) X(reqntid) X(minnctapersm) X(maxnctapersm) X(maxnreg) \
	X(reqnctapercluster) X(explicitcluster) X(maxclusterrank) \
	X(blocksareclusters) X(abi_preserve) X(abi_preserve_control) X(v2) \
	X(v4) X(v8) X(texref) X(samplerref) X(surfref) X(managed) X(unified)
/* clang-format on */

enum ptx_dir {
	PTX_D_none,
#define X(id) PTX_D_##id,
	PTX_DIRS(X)
#undef X
};

enum ptx_bind_kind {
	PTX_BD_REG,    /* idx; n > 1: a vector of registers idx.. */
	PTX_BD_RANGE,  /* "%r<n>": size is n */
	PTX_BD_VAR,    /* idx: module variable */
	PTX_BD_LOCAL,  /* off */
	PTX_BD_PARAM,  /* off, size */
	PTX_BD_KPARAM, /* off, size */
	PTX_BD_FUNC,   /* idx */
	PTX_BD_LABEL,  /* idx: instruction */
	PTX_BD_TABLE,  /* idx */
	PTX_BD_PROTO,  /* idx */
};

/* Meaning of a word from its declaration to the end of its block. */
struct ptx_bind {
	uint8_t kind;
	uint8_t type; /* registers */
	uint8_t n;
	uint32_t depth; /* 0: module */
	uint32_t idx;
	uint32_t off, size;
	struct ptx_sym *sym;
	struct ptx_sym *range;     /* REG: of the range that it is one of */
	struct ptx_bind *shadowed; /* same word, outer block */
	struct ptx_bind *next;     /* of the block */
};

/* A use of a label before all labels of its block are known. */
struct ptx_fix {
	struct ptx_sym *sym;
	uint32_t *at;
	uint32_t line;
};

struct ptx_block {
	struct ptx_bind *binds;
	size_t first_fix;
	uint32_t area; /* parameter area in use when the block began */
};

/* The function whose body is being read. */
struct ptx_fn {
	struct ptx_func f;
	uint32_t idx;          /* in the module */
	struct ptx_vec regs;   /* struct ptx_reg */
	struct ptx_vec insns;  /* struct ptx_insn */
	struct ptx_vec tables; /* struct ptx_table */
	struct ptx_vec protos; /* struct ptx_proto */
	struct ptx_vec fixes;  /* struct ptx_fix */
	uint32_t area;         /* bytes of the parameter area in use */
	size_t last_label;     /* instruction that the latest label names */
	struct ptx_source source;
	struct ptx_vec places; /* struct ptx_place */
	struct ptx_vec reg_names; /* struct ptx_reg_name */
	uint32_t depth;        /* of the body */
};

struct ptx_alias {
	uint32_t from, to, line;
};

struct ptx_parser {
	struct ptx_lex lx;
	struct ptx_log *log;
	struct ptx_arena *tmp; /* symbols and bindings */
	struct ptx_arena *arena;
	struct ptx_module *mod;
	struct ptx_vec funcs;   /* struct ptx_func */
	struct ptx_vec vars;    /* struct ptx_var */
	struct ptx_vec aliases; /* struct ptx_alias */
	uint64_t init_bytes;
	struct ptx_fn fn;
	bool in_body;
	uint32_t depth;
	struct ptx_block scopes[PTX_MAX_DEPTH + 1];
	uint32_t line;      /* of the statement, for messages */
	const char *insn_s; /* text of the instruction being read, from its opcode */
	size_t insn_len;
	/* ptx_parse_source(): where the latest of these are */
	bool source;
	const char *text;
	const char *stmt_s;   /* statement of the module */
	struct ptx_span list; /* of parameters, without the parentheses */
	struct ptx_place place;
};

/* A constant of the text. */
struct ptx_num {
	uint8_t kind; /* PTX_TOK_INT, PTX_TOK_FLT or PTX_TOK_F32 */
	uint64_t bits;
};

/* ---- ptx_parse.c: messages, tokens, scopes ---------------------------------------- */

/* One line of the log, in ptxas's form; returns -EINVAL. */
int ptx_err(struct ptx_parser *p, const char *fmt, ...) _printf_(2, 3);
/* "Parsing error near '...': syntax error"; returns -EINVAL or -ENOMEM. */
int ptx_syntax(struct ptx_parser *p);

static inline struct ptx_tok *ptx_tok(struct ptx_parser *p)
{
	return &p->lx.tok;
}

/* Where the current token begins. */
static inline uint32_t ptx_at(const struct ptx_parser *p)
{
	return (uint32_t)(p->lx.tok.s - p->text);
}

static inline bool ptx_is(struct ptx_parser *p, char ch)
{
	return p->lx.tok.kind == PTX_TOK_PUNCT && p->lx.tok.ch == ch;
}

static inline enum ptx_dir ptx_dir(struct ptx_parser *p)
{
	return p->lx.tok.kind == PTX_TOK_DOT ? p->lx.tok.sym->dir : PTX_D_none;
}

/* Takes the character if it is next. */
bool ptx_eat(struct ptx_parser *p, char ch);
/* Takes the character or fails. */
int ptx_want(struct ptx_parser *p, char ch);
/* Takes a word or fails. */
int ptx_want_word(struct ptx_parser *p, struct ptx_sym **ret_sym);

/* Declares a word in the current block; duplicates in the same block are errors. */
int ptx_declare(struct ptx_parser *p, struct ptx_sym *sym, enum ptx_bind_kind kind,
		struct ptx_bind **ret_bind);
int ptx_scope_push(struct ptx_parser *p);
/* Ends a block: labels used in it are bound, words get their outer meaning back. */
int ptx_scope_pop(struct ptx_parser *p);

static inline struct ptx_func *ptx_funcs(struct ptx_parser *p)
{
	return p->funcs.p;
}

static inline struct ptx_var *ptx_vars(struct ptx_parser *p)
{
	return p->vars.p;
}

/* Appends one line to a log that may be NULL. */
void ptx_log_line(struct ptx_log *log, const char *fmt, ...) _printf_(2, 3);

/* ---- ptx_const.c ------------------------------------------------------------------- */

/* True if a constant expression may begin here ("!" excluded). */
bool ptx_at_const(struct ptx_parser *p);
int ptx_const(struct ptx_parser *p, struct ptx_num *ret);
/* A constant that must be an integer. */
int ptx_const_int(struct ptx_parser *p, uint64_t *ret);
/* The bits of a constant as a value of a type; -EINVAL without a message when it cannot
 * be one. */
int ptx_num_as(const struct ptx_num *n, enum ptx_type type, uint64_t *ret);

/* ---- ptx_var.c --------------------------------------------------------------------- */

/* Attributes of a declaration, between its state space and its name. */
struct ptx_decl {
	uint8_t space; /* enum ptx_dir of the space */
	uint8_t type;
	uint8_t vec;
	bool managed;
	uint32_t align; /* as written, 0: natural */
};

/* Reads "{.align n} {.v2} .type ..." after the state space, which is given. */
int ptx_decl(struct ptx_parser *p, enum ptx_dir space, struct ptx_decl *ret);
/* Reads "[n][m]"; *ret_count elements (1 without brackets), unsized "[]" in *ret_open. */
int ptx_dims(struct ptx_parser *p, uint64_t *ret_count, bool *ret_is_array,
	     bool *ret_open, uint64_t *ret_inner);
/* Size and natural alignment of one element. */
uint32_t ptx_decl_size(const struct ptx_decl *d);
uint32_t ptx_decl_align(const struct ptx_decl *d);
/* A variable statement; the current token is the state space. Takes the ";". */
int ptx_var_stmt(struct ptx_parser *p, enum ptx_linkage linkage);

/* ---- ptx_func.c -------------------------------------------------------------------- */

/* A function, from .entry or .func on, with its body if it has one. */
int ptx_func_stmt(struct ptx_parser *p, enum ptx_linkage linkage);
/* Reads "(.param .b32 x, ...)"; offsets begin at *off, which moves. With declare the
 * names become visible in the current block. */
int ptx_params(struct ptx_parser *p, bool declare, bool entry, uint32_t *off,
	       uint32_t *align, const struct ptx_param **ret_params, uint32_t *ret_n);
/* Skips to behind the next ";". */
int ptx_skip_statement(struct ptx_parser *p);
/* The statements of a body, from "{" to "}", into p->fn and the module's function. */
int ptx_body(struct ptx_parser *p);

/* ---- ptx_cfg.c, ptx_layout.c --------------------------------------------------------
 */

/* Sets reconv of every branch. Returns 0 or -ENOMEM. */
int ptx_cfg(struct ptx_insn *insns, uint32_t n, const struct ptx_table *tables,
	    const struct ptx_func *funcs, bool is_entry);

/* Does the work that needs the whole module: aliases, callees, addresses taken, shared
 * memory. */
int ptx_finish(struct ptx_arena *arena, struct ptx_func *funcs, uint32_t nfuncs,
	       struct ptx_var *vars, uint32_t nvars);

#endif
