/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor: places the blocks of kernels on SMs as their resources allow and runs the
 * resident ones, a slice at a time, on a pool of host threads. Everything is under the
 * device's lock, which is dropped while a block runs.
 */
#ifndef WEFT_DEVICE_SOFT_EXEC_H
#define WEFT_DEVICE_SOFT_EXEC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "device/device.h"
#include "device/soft/runlist.h"
#include "device/soft/stream.h"
#include "simt/simt.h"

/* Needs of one block on an SM; also what an SM has left. */
struct soft_need {
	int threads; /* whole warps */
	int regs;
	int shared_bytes;
	int blocks; /* 1 in a block */
};

/* A launch that waits in a stream, or runs. */
struct soft_kernel {
	struct soft_op op;
	struct list link; /* soft_exec.active */
	struct dev_ctx *ctx;
	struct simt_launch launch;
	struct soft_need need;
	struct dev_tpcs tpcs; /* that it runs on */
	int priority;
	bool cooperative; /* all blocks are resident, or none */
	bool stop;        /* set with the lock held, read by running blocks */
	bool squeezed;    /* may exceed the SMs' resources: see exec_starved_locked() */
	uint64_t next, total;   /* clusters: the next one to be placed, all */
	unsigned resident;      /* clusters that are placed */
	struct list turns;      /* struct soft_slot, placed and not running now */
	bool paused;            /* the block whose turn was last waits for another */
	uint32_t traced, track; /* as its launch has them */
	uint64_t begin_ns;      /* active since */
	uint64_t runtime;    /* instructions run so far; for fairness between kernels */
	uint64_t since_ns;   /* active, or last block placed */
	uint64_t no_room_at; /* soft_exec.frees when no block fitted */
	char params[];
};

struct soft_exec_thread {
	struct soft_exec *exec;
	struct list link; /* soft_exec.idle */
	pthread_t thread;
	uint32_t word; /* enum soft_word */
};

/* Bits. */
enum soft_off {
	SOFT_FROZEN = 1,
	SOFT_PREEMPTED = 2
};

struct soft_exec {
	struct device *dev;
	unsigned n_sms, n_threads, n_started;
	struct dev_tpcs tpcs; /* that new kernels run on */
	unsigned n_running; /* threads in a slice, helpers included; at most n_threads */
	bool stop;
	unsigned off; /* why no block gets a turn: of enum soft_off */
	struct soft_exec_thread *threads;
	struct list idle;      /* parked threads */
	struct list active;    /* struct soft_kernel, oldest first */
	struct soft_need *sms; /* what is left of each */
	unsigned next_sm;      /* where the search for room begins */
	unsigned picks;
	struct simt_cta **spare; /* ctas without a block, last used last */
	unsigned n_spare;
	unsigned n_turns; /* slots in all lists of turns */
	unsigned waits;   /* turns in a row, of all threads, that came to nothing */
	uint64_t naps;    /* times that a thread slept though it had blocks to run */
	uint64_t frees;   /* counts slots given back: room may be new */
	struct soft_turn turn;
};

/* Makes the pool. Returns 0 or -errno; soft_exec_fini() copes with the rest. */
int soft_exec_init(struct soft_exec *e, struct device *dev);

/* Ends the threads. No kernel may be active. */
void soft_exec_fini(struct soft_exec *e);

/* op is the soft_op of a soft_kernel: begins to place its blocks. */
void soft_exec_start_locked(struct soft_exec *e, struct soft_op *op);

/*
 * Runs one slice in the calling thread, with the lock dropped, if the one whose turn it
 * is belongs to ctx (to stream st unless NULL) and there is a core to spare. False if it
 * did no good.
 */
bool soft_exec_help_locked(struct soft_exec *e, struct dev_ctx *ctx,
			   const struct dev_stream *st);

/* Has no block get a turn until thaw, and waits for the turns that run now, the lock dropped
 * meanwhile. */
void soft_exec_off_locked(struct soft_exec *e, enum soft_off why);
void soft_exec_on_locked(struct soft_exec *e, enum soft_off why);

/* Ends the kernels of ctx that are active; they finish when their slices have ended. */
void soft_exec_kill_locked(struct soft_exec *e, struct dev_ctx *ctx);

/* Blocks with that need that fit on one SM. */
unsigned soft_exec_blocks_per_sm(const struct soft_need *need);

/* How many SMs a set has. */
unsigned soft_exec_sms(const struct soft_exec *e, const struct dev_tpcs *set);

/* Nanoseconds with at least one kernel active, and the device this process's. */
uint64_t soft_exec_busy_locked(const struct soft_exec *e);

#endif
