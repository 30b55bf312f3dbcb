/* SPDX-License-Identifier: Apache-2.0 */
/* Private to extent/: a kernel that is being looked at. */
#ifndef WEFT_PTX_EXTENT_LEARN_H
#define WEFT_PTX_EXTENT_LEARN_H

#include "ptx/extent/nest.h"
#include "ptx/extent/node.h"
#include "ptx/ptx_arena.h"

#define LEARN_NODES  4096u /* before those that no access needs are left out */
#define LEARN_HASH   16384u
#define LEARN_ACTIVE 31u
#define LEARN_NONE   UINT32_MAX
/* Words that are told apart, and the bit beside theirs: what was read in memory, as an address may
 * be. */
#define LEARN_WORDS  (WORDS_MAX - 1)
#define LEARN_LOADED (1ull << LEARN_WORDS)

/* Where a register is written: an instruction, and the place in its vector. */
struct def {
	uint32_t insn, elem;
};

/* The definitions that a register may be of where it is read: one, by its number among defs, or
 * several, behind those. */
typedef uint32_t value_id;

/* A value as it was found to be in a context, for whoever reads it in a loop. */
struct known {
	uint32_t ctx, loop, node, next;
	uint32_t epoch; /* of the last of the values in hand that the node is made of */
};

#define LEARN_SEVERAL 16u

struct several {
	uint32_t reg, n, def[LEARN_SEVERAL];
	uint32_t known; /* into known, and 1 */
};

/* The value of a register where a block begins. */
struct entry {
	uint32_t reg, block;
	value_id id;
};

struct trips {
	uint32_t node;
	bool known, busy;
};

struct learn {
	const struct ptx_module *m;
	const struct ptx_func *f;
	struct ptx_nest nest;
	/* The context of each block: the nearest above it, or itself, that is entered by a
	 * condition; NONE. */
	uint32_t *ctx;
	uint32_t *def_at; /* of each register and one more, into defs */
	struct def *defs;
	uint32_t *known_at;            /* of each def, into known, and 1 */
	struct ptx_vec known, several; /* struct known, struct several */
	struct entry *entries;         /* a table of LEARN_HASH */
	uint32_t n_entries;
	uint32_t *stack, *seen, last_seen; /* blocks of a walk */
	struct trips *trips;               /* of each loop */
	uint64_t *taint; /* of each register, words in it, and LEARN_LOADED */
	struct node *nodes;
	uint32_t *selfs; /* of each node, values in hand that it is made of, as bits */
	bool *varies;    /* of each node: it is not the same for all threads */
	uint32_t n_nodes;
	uint32_t *hash;
	/* Values in hand, from base on. */
	uint32_t n_active, base;
	value_id active[LEARN_ACTIVE];
	uint32_t epoch[LEARN_ACTIVE], last_epoch;
	uint32_t depth, work;
	bool full; /* too large, or memory is short */
};

/* ---- node.c ---- */

uint32_t learn_node(struct learn *l, struct node n);
uint32_t learn_unknown(struct learn *l);
bool learn_is_unknown(const struct learn *l, uint32_t n);
/* One number for all threads, which a launch says. */
bool learn_is_uniform(const struct learn *l, uint32_t n);
uint32_t learn_number(struct learn *l, int64_t imm);
bool learn_is_number(const struct learn *l, uint32_t n);
uint32_t learn_made_of(struct learn *l, enum node_op op, uint32_t a, uint32_t b);
uint32_t learn_with_imm(struct learn *l, enum node_op op, uint32_t a, uint32_t b,
			int64_t imm);
uint32_t learn_unsigned(struct learn *l, uint32_t a, unsigned bits);

/* ---- value.c ---- */

bool learn_is_unsigned(uint8_t type);
bool learn_is_integer(uint8_t type);
/* An operand of an instruction, in a context. */
uint32_t learn_value(struct learn *l, const struct ptx_insn *in, const struct ptx_opnd *o,
		     uint8_t type, uint32_t ctx);
/* The value that an instruction makes, for one place in its vector. */
uint32_t learn_computed(struct learn *l, const struct ptx_insn *in, uint32_t elem,
			uint32_t ctx);

/* ---- reach.c ---- */

/* The value of a register where an instruction reads it; LEARN_NONE: nothing is known. */
value_id reach_of(struct learn *l, uint32_t reg, uint32_t insn);
/* The definitions of a value, into ret, which has room for LEARN_SEVERAL; how many. */
unsigned reach_defs(const struct learn *l, value_id id, uint32_t *ret);
/* The node that was found before, if it still holds; LEARN_NONE. */
uint32_t reach_recall(const struct learn *l, value_id id, uint32_t ctx, uint32_t loop);
void reach_remember(struct learn *l, value_id id, uint32_t ctx, uint32_t loop,
		    uint32_t node);

/* ---- guard.c ---- */

typedef void guard_fn(struct learn *l, const struct ptx_insn *setp, enum ptx_cmp cmp,
		      void *arg);

/* Whether a block's end is a branch, or an end of threads, by a condition. */
bool guard_ends(const struct learn *l, uint32_t block);
/* Finds the contexts of all blocks; LEARN_NONE is one without conditions. 0 or -ENOMEM. */
int guard_contexts(struct learn *l);
/* A value in a context, as far as that bounds it. */
uint32_t guard_bound(struct learn *l, uint32_t n, value_id id, uint32_t ctx);
/* Calls fn for each comparison that holds if a block's end leads to another one. */
void guard_each(struct learn *l, uint32_t block, uint32_t to, guard_fn *fn, void *arg);
/* a cmp b is b what a. */
enum ptx_cmp guard_swapped(enum ptx_cmp cmp);

/* ---- loop.c ---- */

/* A register that an instruction reads, in a context. */
uint32_t learn_reg(struct learn *l, uint32_t reg, uint32_t insn, uint32_t ctx);

#endif
