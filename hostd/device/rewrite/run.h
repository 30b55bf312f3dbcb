/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that can be stopped. The stream waits behind such a launch for a word that the last block
 * of the grid writes (ptx_persist_control.grids), so the grid may be done in several launches, the
 * later ones in a stream of their own, while for all others the stream is where it was. One that is
 * stopped costs the device nothing: nothing of it runs.
 *
 * Only one that may have begun is told to stop, since others of its blocks, in another stream, would
 * not wait for what is in front of it: the first of a stream's launches that are not done, once all
 * before it is.
 */
#ifndef WEFT_DEVICE_REWRITE_RUN_H
#define WEFT_DEVICE_REWRITE_RUN_H

#include "device/rewrite/code.h"

/* Later launches of a grid that may run at once. */
#define RUN_ASIDES 4u

/* Device memory for what is kept of a launch's blocks. */
struct area {
	struct list link; /* codes.areas */
	const struct dev_ctx *ctx;
	CUdeviceptr addr;
	uint64_t size;
	bool used;
};

struct run {
	struct list
		link; /* codes.runs, in order of their launches; or codes.spare_runs */
	struct dev_ctx *ctx;
	struct dev_stream *st; /* that the program launched in */
	struct code *code;     /* NULL: its module is gone */
	unsigned slot;         /* of the module's counters */
	CUdeviceptr control;
	struct dev_launch l; /* of the copy; params are those below */
	uint32_t grid;       /* blocks of it */
	/* Blocks that it may have at once, that have numbers, and that take blocks of the grid: those
	 * from may on are told to end. */
	unsigned most, n, may;
	unsigned room;     /* of an SM; 0: their number is to stay */
	uint32_t launched; /* blocks, by all launches */
	uint64_t
		thread_bytes; /* kept of a thread at yield points; 0: the copy has none */
	/* Recorded in front of the first launch, behind it, and behind the wait for the grid. */
	struct dev_event *front, *over, *done;
	struct aside {
		struct dev_stream *st;  /* NULL: not made yet */
		struct dev_event *over; /* recorded behind the last launch in it */
		bool used;
	} asides[RUN_ASIDES]; /* of later launches */
	struct area *area;    /* NULL: nothing is kept */
	enum {
		RUN_GOES,
		RUN_ASKED,   /* to stop */
		RUN_STOPPED, /* its blocks have ended, and some of the grid is left */
		RUN_ENDED,   /* the grid is done, and its stream goes on */
		RUN_LEFT,    /* it was asked, and told to go on before it had stopped */
	} state;
	/* The struct ptx_persist_args is behind the kernel's own. */
	_Alignas(8) char params[PTX_PERSIST_PARAMS_MAX];
};

/* Launches a copy with so many blocks on each SM, which are to become up to room once there may be
 * more (0: they are not), so that it can be stopped. Returns false if it is to be launched as others
 * are. */
bool run_launch(struct dev_ctx *ctx, struct dev_stream *st, const struct dev_launch *l,
		struct kernel *k, unsigned on_sm, unsigned room, CUresult *ret);
/* Forgets launches that are done, until that many were found that are not. With codes.run_lock. */
void run_reap_locked(unsigned most);
/* Asks a launch to stop, or lets it go on; *ret_r: what the device says. With codes.run_lock. */
CUresult run_ask_locked(struct run *r);
CUresult run_go_on_locked(struct run *r);
/* Has the first n blocks take blocks of the grid. With codes.run_lock. */
CUresult run_limit_locked(struct run *r, unsigned n);
/* Adds blocks up to the n-th, where those that had numbers beyond r->may have ended; the grid has
 * begun. With codes.run_lock. */
CUresult run_add_locked(struct run *r, unsigned n);
/* Reads whether some of the grid is left, once run_is_over(). Waits for a copy of some bytes. With
 * codes.run_lock. */
CUresult run_left_locked(struct run *r, bool *ret_left);
/* Reads how many blocks of the grid were taken, and how many of the launched ones have ended.
 * Waits for a copy of some bytes. With codes.run_lock. */
CUresult run_progress_locked(struct run *r, uint32_t *ret_taken, uint32_t *ret_ended);
/* Looks after a launch that was told to go on before it had stopped: blocks that were about to be
 * kept then go on once all are over. Returns whether it is to be looked after any longer. With
 * codes.run_lock. */
bool run_mind_locked(struct run *r);
/* Whether all in front of it is done. */
bool run_may_have_begun(const struct run *r);
bool run_is_over(const struct run *r);
bool run_is_done(const struct run *r);
/* A stream ends; what it has still runs. */
void run_forget_stream(const struct dev_stream *st);
/* A module is to be unloaded: its launches cannot be stopped any more. Waits for those that are
 * stopped, or still to be launched again, and for blocks of those that are done. */
void run_forget_module(const struct code *c);
/* A context is to end, whose launches nobody looks at any more; NULL: all have. */
void run_forget_ctx(const struct dev_ctx *ctx);

/* As device_ops.resize, hold, stop and go_on. */
void resize(struct device *dev);
void hold(struct device *dev);
enum device_rest stop(struct device *dev);
void go_on(struct device *dev);
/* Before the device is closed. */
void stop_end(void);

#endif
