/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface between the handlers of instructions and the parts that drive them.
 *
 * A lowered program is an array of struct simt_op. Each op names its handler, which does
 * the work for all active lanes and returns the next op, or NULL when the split cannot
 * simply go on (w->event says why). Registers are rows: 32 lanes side by side, so that a
 * handler is a loop that the compiler turns into vector code. Rows are of 16, 32, 64 or
 * 128 bits a lane; a predicate is one uint32_t, a bit per lane. Rows of one width class
 * never overlap rows of another, so that the lanes of diverged paths stay apart although
 * they share the frame.
 *
 * The handlers are compiled once per level of the instruction set (SIMT_ISA) and found
 * by name, e.g. "add.u32" (struct simt_handler); lower*.c builds such names.
 */
#ifndef WEFT_SIMT_EXEC_H
#define WEFT_SIMT_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "simt/simt.h"

#define SIMT_FULL 0xffffffffu

struct simt_op;
struct simt_warp;
struct simt_cta;
struct simt_code;

/* m: lanes to work on, never 0. r: the frame's rows. */
#define SIMT_HANDLER(name)                                                               \
	const struct simt_op *name(struct simt_warp *w, const struct simt_op *op,        \
				   uint32_t m, uint8_t *r)

typedef SIMT_HANDLER(simt_fn);

#define SIMT_NO_GUARD (-1)

/* Operand offsets with this bit count from the program's table of constant rows. */
#define SIMT_KONST 0x80000000u

struct simt_op {
	simt_fn *fn;
	int32_t d, a, b, c, e; /* byte offsets of rows or predicates, as fn says */
	int32_t guard;         /* offset of a predicate, or SIMT_NO_GUARD */
	uint8_t guard_neg;
	uint8_t count; /* 0 for ops that no PTX instruction stands for */
	uint8_t x, y;  /* small modifiers */
	uint32_t n;
	union {
		uint64_t imm;
		int64_t disp; /* displacement of an address */
		const struct simt_op *target;
		const int32_t *ext; /* more operand offsets */
		const struct simt_brx *brx;
		const struct simt_call *call;
	};
};

struct simt_brx {
	uint32_t n;
	const struct simt_op *reconv;
	const struct simt_op *target[];
};

/* Where an argument of a call comes from, or a result goes. */
struct simt_arg {
	int32_t place; /* row, or offset in the caller's parameter area; -1: dropped */
	uint32_t bytes;
	uint8_t row; /* bytes of an element of the row, 0: the area */
};

struct simt_call {
	const struct simt_code *code;  /* NULL: indirect */
	int32_t target;                /* row of addresses when indirect */
	const struct ptx_proto *proto; /* when indirect */
	unsigned num_args, num_rets;
	struct simt_arg *args, *rets;
};

enum simt_builtin {
	SIMT_B_NONE,
	SIMT_B_VPRINTF,
	SIMT_B_ASSERTFAIL,
	SIMT_B_MALLOC,
	SIMT_B_FREE,
};

/* Executable form of one function. */
struct simt_code {
	const struct ptx_func *ptx;
	const struct simt_op *entry;
	uint32_t first_op, num_ops;
	uint32_t frame_bytes; /* rows, multiple of 64 */
	uint32_t area_off;    /* of the parameter area, in the frame's local memory */
	uint32_t depot_off;   /* of .local variables */
	uint32_t stack_bytes; /* local memory of a frame, multiple of 16 */
	int32_t cc;           /* offset of the carry word */
	struct simt_arg *params, *rets; /* places in this frame */
	uint32_t live_regs;             /* 32-bit registers that live at once, at most */
	uint32_t index;
	int builtin;
};

enum simt_event {
	SIMT_EV_NONE,
	SIMT_EV_SPLIT, /* the running split ended or blocked: choose another */
	SIMT_EV_YIELD, /* it wants others to run */
	SIMT_EV_FAULT,
};

enum simt_split_state {
	SIMT_SPLIT_FREE,
	SIMT_SPLIT_READY,
	SIMT_SPLIT_BAR,     /* at a block's barrier */
	SIMT_SPLIT_WSYNC,   /* waits for lanes of its own warp */
	SIMT_SPLIT_CLUSTER, /* at barrier.cluster.wait */
};

/*
 * An activation of a function by some lanes. regs follow the header in memory; frames of
 * equal functions are recycled through simt_cta.free_frames.
 */
struct simt_frame {
	uint8_t *regs;
	const struct simt_code *code;
	struct simt_frame *next;    /* free list */
	const struct simt_op *site; /* the call, NULL for the kernel */
	struct simt_frame *caller;
	uint32_t sp;  /* where its local memory begins */
	uint32_t top; /* ... and ends; alloca moves it */
};

/*
 * A place where lanes that parted wait for each other: the post-dominator of a branch,
 * or the return from a call (then callee is the frame to give back).
 */
struct simt_join {
	const struct simt_op *pc;
	struct simt_frame *frame;
	struct simt_frame *callee;
	struct simt_join *parent;
	struct simt_join *prev, *next; /* all joins of the warp */
	uint32_t expected, arrived;
};

/* Lanes that run together. */
struct simt_split {
	uint8_t state; /* enum simt_split_state */
	uint8_t bar;
	uint32_t mask;
	uint32_t member; /* WSYNC: lanes it waits for */
	uint32_t phase;  /* BAR: of the barrier when it arrived */
	int32_t dst;     /* BAR with a result: where to put it, else -1 */
	uint8_t dst_kind;
	const struct simt_op *pc;
	struct simt_frame *frame;
	struct simt_join *join;
	/* Place and registers of the last slice that ended at a poll. */
	const struct simt_op *polled;
	uint64_t state_then;
};

struct simt_warp {
	/* Read by every handler. */
	uint32_t mask; /* of the running split */
	uint32_t event;
	uint8_t *regs;
	const uint8_t *konst;
	struct simt_cta *cta;
	uint64_t mem_base, mem_size;
	const uint8_t *perm;
	uint8_t *shared;
	const uint8_t *params;
	uint32_t shared_bytes, param_bytes;
	uint32_t local_stride, local_bytes;
	uint8_t *local; /* of lane 0 */
	uint32_t sp;    /* of the running frame */
	uint32_t spins; /* polls in a row that came to nothing, in this slice */
	bool moved;     /* a poll came true in this slice */
	bool forced;    /* simt_wsync() has let everybody through */

	struct simt_split *cur;
	uint32_t live;  /* lanes that have not exited */
	uint32_t used;  /* split slots in use */
	uint32_t stale; /* slices that some join has been waiting */
	uint32_t starts; /* blocks that it was a part of */
	uint64_t warp_instr;
	uint32_t index;
	uint64_t thread_instr;
	struct simt_join *joins;
	uint32_t tid[3][SIMT_WARP];
	uint32_t cluster_phase[SIMT_WARP]; /* see cluster.c */
	struct simt_split split[SIMT_WARP];
};

struct simt_handler {
	const char *name;
	simt_fn *fn;
};

/* The handlers of one instruction-set level: NULL-ended list of tables, each ended by an
 * entry without a name. */
extern const struct simt_handler *const simt_isa_base[];
extern const struct simt_handler *const simt_isa_v3[];
/* Handlers that no vector instruction helps. */
extern const struct simt_handler *const simt_isa_common[];

/* The handler called name at the best level of this processor, or NULL. */
simt_fn *simt_handler_find(const char *name);

/* Row or predicate for reading. */
static inline const void *simt_src(const struct simt_warp *w, const uint8_t *r,
				   int32_t off)
{
	const uint8_t *base = off < 0 ? w->konst : r;

	return base + ((uint32_t)off & ~SIMT_KONST);
}

#define SRC(type, off) ((const type *)simt_src(w, r, (off)))
#define DST(type, off) ((type *)(r + (off)))

/* Lane loops touch lane i only, whatever rows coincide. */
#if defined(__clang__)
#define SIMT_ANY_ORDER /* compares addresses itself, and warns of what it cannot obey */
#else
#define SIMT_ANY_ORDER _Pragma("GCC ivdep")
#endif
#define LANES         SIMT_ANY_ORDER for (unsigned i = 0; i < SIMT_WARP; i++)
#define LANE_ON(m, i) ((m) >> (i)&1)
#define FOR_LANES(m, i)                                                                  \
	for (uint32_t _left = (m), i; _left && (i = (uint32_t)__builtin_ctz(_left), 1);  \
	     _left &= _left - 1)

/* Ends the launch: records what happened and returns NULL for the handler to return. */
const struct simt_op *simt_raise(struct simt_warp *w, const struct simt_op *op,
				 enum simt_fault_code code, unsigned lane);
const struct simt_op *simt_raise_mem(struct simt_warp *w, const struct simt_op *op,
				     enum simt_fault_code code, unsigned lane,
				     uint64_t addr, uint32_t bytes, bool write);

/*
 * For instructions that want all lanes named in a member mask: true if the lanes in m
 * may go ahead. Otherwise the split waits (the handler returns NULL and is called again
 * with all lanes that have come).
 */
bool simt_wsync(struct simt_warp *w, const struct simt_op *op, uint32_t member,
		uint32_t m);

/* Polls that end a slice. */
#define SIMT_SPIN_LIMIT 32

/* Ends an instruction that may be part of a spin loop: the handler returns this instead
 * of op + 1. success: in one lane at least, the loop has got what it waited for. */
static inline const struct simt_op *simt_polled(struct simt_warp *w,
						const struct simt_op *op, bool success)
{
	if (success) {
		w->moved = true;
		w->spins = 0;
		return op + 1;
	}
	if (++w->spins < SIMT_SPIN_LIMIT)
		return op + 1;
	w->cur->pc = op + 1;
	w->event = SIMT_EV_YIELD;
	return NULL;
}

/* Finds the host address of a generic one; NULL if there is nothing. bytes <= 128. */
void *simt_generic(struct simt_warp *w, uint64_t addr, uint32_t bytes, unsigned perm,
		   unsigned lane);
/* Like simt_generic() in a space of enum mem_space (mem.h). */
void *simt_resolve(struct simt_warp *w, unsigned space, uint64_t addr, uint32_t bytes,
		   unsigned perm, unsigned lane);

#endif
