/* SPDX-License-Identifier: Apache-2.0 */
/* A resident block from the inside. */
#ifndef WEFT_SIMT_CTA_H
#define WEFT_SIMT_CTA_H

#include "simt/exec.h"
#include "simt/program.h"

#define SIMT_NUM_BARS  16
#define SIMT_MAX_WARPS (SIMT_MAX_BLOCK_THREADS / SIMT_WARP)
#define SIMT_ARENA_MAX (512u << 20) /* frames of one block; recursion ends there */
#define SIMT_SLICE     2048         /* instructions before another split has its turn */
#define SIMT_STALE_MAX 256          /* slices after which a join lets go */

/* Instructions of one round of a loop that polls or sleeps, at most. */
#define SIMT_POLL_INSTR 32

/* One of the block's barriers, between two completions. */
struct simt_bar {
	uint32_t phase;
	uint32_t want;  /* threads, 0: all of the block */
	uint32_t count; /* threads that came; the dead of a warp come with its first */
	uint32_t popc;
	bool and, or ;
	uint32_t mask[SIMT_MAX_WARPS]; /* lanes that came */
};

struct simt_slab {
	struct simt_slab *next;
	size_t size, used;
	uint8_t data[] __attribute__((aligned(64)));
};

/* Blocks that see each other's shared memory; run by one thread at a time. */
struct simt_cluster {
	unsigned num;
	unsigned refs; /* 0: the one inside a cta */
	uint32_t phase;
	uint32_t arrived, live; /* threads */
	struct simt_cta *cta[SIMT_MAX_CLUSTER];
};

struct simt_cta {
	const struct simt_launch *launch;
	const struct simt_program *prog;
	uint32_t id[3];
	uint32_t block[3]; /* for which the warps' tid are */
	uint32_t smid;
	uint32_t rank; /* in the cluster */
	uint32_t num_warps, live_warps;
	uint32_t next_warp;
	struct simt_warp *warps;
	uint8_t *shared, *local;
	size_t shared_cap, local_cap;
	struct simt_slab *slabs, *slab; /* all of them, and the one in use */
	size_t arena_bytes;
	struct simt_frame **free_frames; /* by index of the function */
	size_t free_frames_cap;
	struct simt_join *free_joins;
	struct simt_bar bar[SIMT_NUM_BARS];
	struct simt_cluster *cluster; /* never NULL once started */
	struct simt_cluster alone;
	struct simt_fault fault;
};

/* 64-byte aligned memory until the next block starts; NULL beyond SIMT_ARENA_MAX. */
void *simt_cta_alloc(struct simt_cta *c, size_t bytes);

/* ---- warp.c ---- */

enum warp_state {
	WARP_RAN,   /* got on, whether it can go on now or not */
	WARP_STUCK, /* nothing but polled or slept; or nothing could run at all */
	WARP_FAULT,
};

/* Puts all lanes of live at the entry of the kernel. 0 or -ENOMEM. */
int simt_warp_start(struct simt_warp *w, const struct simt_code *code, uint32_t live);

/* Runs one slice; takes what it used off budget. */
enum warp_state simt_warp_run(struct simt_warp *w, uint64_t *budget);

/* Lets lanes that wait for others to join go on alone. True if there were any. */
bool simt_warp_unjoin(struct simt_warp *w);

/* Lanes m of the running split are gone: out of every join, barrier and sync. */
void simt_warp_exit(struct simt_warp *w, uint32_t m);

/* Makes splits one where they stand at the same place with the same joins to come. */
void simt_warp_merge(struct simt_warp *w);

/* ---- split.c ---- */

struct simt_split *simt_split_new(struct simt_warp *w, uint32_t mask,
				  const struct simt_op *pc, struct simt_frame *frame,
				  struct simt_join *join);
void simt_split_free(struct simt_warp *w, struct simt_split *s);

/* NULL: out of memory. */
struct simt_join *simt_join_new(struct simt_warp *w, const struct simt_op *pc,
				struct simt_frame *frame, struct simt_join *parent,
				uint32_t expected);
void simt_join_free(struct simt_warp *w, struct simt_join *j);

/* Takes lanes out of j and its parents, up to but not including end. */
void simt_join_drop(struct simt_warp *w, struct simt_join *j, const struct simt_join *end,
		    uint32_t m);

/* Lets the lanes that have come to j go on as a split of their own. */
void simt_join_release(struct simt_warp *w, struct simt_join *j);

struct simt_frame *simt_frame_new(struct simt_warp *w, const struct simt_code *code,
				  struct simt_frame *caller);
void simt_frame_free(struct simt_warp *w, struct simt_frame *f);

/* ---- barrier.c ---- */

/* Checks barriers and syncs after lanes of w have exited. */
void simt_bar_exit(struct simt_warp *w, uint32_t m, uint32_t live_before);
void simt_wsync_check(struct simt_warp *w);

/* ---- cluster.c ---- */

void simt_cluster_exit(struct simt_warp *w, uint32_t m);

/* ---- builtin.c ---- */

/* A function that the executor provides; false: a fault was raised. */
bool simt_builtin(struct simt_warp *w, const struct simt_op *op, uint32_t m,
		  const struct simt_code *code, const struct simt_call *call);

#endif
