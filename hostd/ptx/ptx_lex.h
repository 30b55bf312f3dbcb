/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX text as tokens, one at a time. Words are interned: equal words are the same
 * struct ptx_sym, which also carries what the word means to the parser.
 */
#ifndef WEFT_PTX_LEX_H
#define WEFT_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ptx.h"
#include "ptx/ptx_arena.h"

enum ptx_tok_kind {
	PTX_TOK_EOF,
	PTX_TOK_WORD, /* add, %r1, $L__BB0_1, _ */
	PTX_TOK_DOT,  /* .u32, .L2::cache_hint: the dot is part of the word */
	PTX_TOK_INT,
	PTX_TOK_FLT, /* 1.5, 0d...: imm holds the bits of a double */
	PTX_TOK_F32, /* 0f...: imm holds the bits of a float */
	PTX_TOK_STR,
	PTX_TOK_PUNCT, /* one character in ch; "<<" ">>" etc. come as two tokens */
	PTX_TOK_BAD,
};

struct ptx_bind;

struct ptx_sym {
	const char *s; /* into the text or a constant; not terminated */
	uint32_t len;
	uint32_t hash;
	uint16_t op;   /* first form of the opcode + 1, see ptx_form.h; 0: none */
	uint16_t mod;  /* first entry of the modifier table + 1; 0: none */
	uint8_t type;  /* enum ptx_type of ".u32"; 0: none */
	uint8_t dir;   /* enum ptx_dir of ".reg"; 0: none */
	uint16_t sreg; /* enum ptx_sreg + 1 of "%tid.x"; 0: none */
	bool joins;    /* an opcode that goes on over a dot, or its beginning */
	bool refused;  /* an instruction that exists but not here */
	struct ptx_bind *bind;
};

struct ptx_tok {
	uint8_t kind;
	char ch;
	bool spaced;         /* white space came before it */
	struct ptx_sym *sym; /* WORD and DOT */
	uint64_t imm;
	const char *s; /* its text */
	uint32_t len;
	uint32_t line;
};

struct ptx_lex {
	const char *p, *end;
	uint32_t line;
	struct ptx_tok tok;      /* the current token */
	struct ptx_arena *arena; /* of the symbols */
	struct ptx_sym **table;
	uint32_t nsyms, mask;
	uint64_t seed;
	bool nomem;
};

/* The arena stays the caller's. Returns 0 or -ENOMEM. fini() copes with zeroes. */
int ptx_lex_init(struct ptx_lex *lx, const char *text, size_t len,
		 struct ptx_arena *arena);
void ptx_lex_fini(struct ptx_lex *lx);

/* Moves to the next token; a token of kind BAD or EOF stays. */
void ptx_lex_next(struct ptx_lex *lx);

/* Skips what is left of the current token's line, and moves to the next token. */
void ptx_lex_skip_line(struct ptx_lex *lx);

/* Skips from a current "{" beyond its "}", and moves on; false when there is none. */
bool ptx_lex_skip_braces(struct ptx_lex *lx);

/* The symbol of a word, made when new; NULL when memory is short (nomem is set). The
 * bytes must outlive the lexer. */
struct ptx_sym *ptx_intern(struct ptx_lex *lx, const char *s, size_t len);

/* As above, for words put together on the stack: never makes one; NULL when unknown. */
struct ptx_sym *ptx_lookup(struct ptx_lex *lx, const char *s, size_t len);

#endif
