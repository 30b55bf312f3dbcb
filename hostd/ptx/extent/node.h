/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to extent/: a kernel's addresses as a list of nodes, each made of some before it, which a
 * launch gives their values one after the other (extent.c); learn.c writes it.
 */
#ifndef WEFT_PTX_EXTENT_NODE_H
#define WEFT_PTX_EXTENT_NODE_H

#include "ptx/extent/extent.h"

#define NODES_MAX    384u /* forms of 160 bytes on the stack of whoever launches */
#define ACCESSES_MAX 256u
#define WORDS_MAX    64u

enum node_op {
	NODE_UNKNOWN,
	NODE_AWAY,  /* an address elsewhere than in memory that is allocated */
	NODE_CONST, /* imm */
	NODE_PARAM, /* imm: offset; bits: 8 to 64, sign-extended */
	NODE_SREG,  /* imm: enum ptx_sreg */
	NODE_RANGE, /* from 0 to imm */
	NODE_ADD,   /* a b */
	NODE_SUB,
	NODE_MUL,
	NODE_SHR, /* a by imm */
	NODE_DIV,
	NODE_REM,
	NODE_AND,
	NODE_OR,
	NODE_XOR,
	NODE_MIN,
	NODE_MAX,
	NODE_UNION,
	NODE_UNSIGNED, /* a as a number of so many bits */
	NODE_LOWER,    /* a, and no larger than b + imm */
	NODE_HIGHER,   /* a, and no smaller than b + imm */
	NODE_ANY,      /* as large and as small as a, and like nothing else */
	NODE_TRIPS,    /* how often a loop goes round: from a while it is apart from b, by
			* steps c; imm: cmp, bottom */
	NODE_LOOP,     /* a, and as often as b says c more; sym */
	NODE_SPAN,     /* from nothing to a times b */
	NODE_SELF,     /* a register that is being looked at; in no finished list */
};

/* NODE_TRIPS: how the loop goes on, and whether it is asked behind the body. */
#define TRIPS_BOTTOM (1 << 8)

struct node {
	uint8_t op, bits;
	uint16_t sym;
	uint32_t a, b, c;
	int64_t imm;
};

/* Bytes from a node's value + lo to its value + hi. */
struct access {
	uint32_t node;
	int64_t lo, hi;
	uint64_t words; /* of the parameters in it, if it cannot be told */
};

struct ptx_extent {
	uint32_t n_nodes, n_accesses;
	unsigned all, known; /* accesses of the text */
	unsigned n_words;
	bool follows;             /* addresses that lie in memory */
	uint64_t open;            /* words that may lead anywhere */
	uint32_t word[WORDS_MAX]; /* their offsets among the parameters */
	struct node *nodes;
	struct access *accesses;
};

#endif
