/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a session. Whoever submits work that may touch device memory is inside it
 * while it does; memory moves while nobody is inside and the device is quiesce.
 *
 * Entering is a store to a word of the lane's own and a look at one that all share: no
 * lock, no fence, no system call. Closing pays for that: it has the kernel put a barrier
 * into every running thread (membarrier(2); where there is none, lanes enter through the
 * lock), looks at every lane's word until all are out, and then has a thread of the
 * gate's wait for the device, so that it can give up when its time is over. Then the gate
 * opens, and the session goes on as if nothing had been.
 *
 *	state	 lanes				may become
 *	OPEN	 come and go			CLOSING
 *	CLOSING	 leave; who wants in waits	CLOSED (quiesce, or frozen), OPEN (time is over)
 *	CLOSED	 wait				OPEN
 *
 * What a lane must not do inside is wait for something that only another lane can bring
 * about. Waiting for the device is harmless, since closing waits for that as well, within
 * its time; but a charge (memory may have to move first) and the guest's reading of a
 * reply are waited for outside, and so are locks that are held meanwhile. A command waits
 * at the gate with its ticket, and so do all later ones of the session. What lets a
 * stream go on that stands still (host functions, copies of graphs) has no ticket and
 * needs no entering: while the stream stands the device is not quiesce.
 *
 * Where the device's work takes too long, the gate may close without waiting for it if kernels
 * can be made to stand still (gate_freeze()): memory moves under them, and they go on with that.
 *
 * Besides, a session whose tenant may have only so much of the device's time is held for a
 * while (gate_hold()), open or not, and what the device is at may be taken off it meanwhile
 * (gate_preempt()); and so that this comes in time, it has only so much work
 * queued as the device does in some milliseconds (gate_bound()). What enters makes portions,
 * and the device has two of them at most: lanes wait until it has done the one before, so
 * that it never runs dry meanwhile; for some more milliseconds at most, since that work may
 * wait for what a lane is about to bring. That would let a session whose work takes long, as
 * what reads host memory does, queue more and more of it, and never be quiet in time: each
 * time that it was not, portions get smaller, and lanes wait longer for one.
 *
 * And where others may have the device while it has nothing, a session gathers its work
 * (gate_gather()): a program that launches many short kernels one by one would have the device
 * go to and fro. A lane that comes waits while more comes behind it, until the program waits for
 * something, and takes all of that in at once.
 */
#ifndef WEFT_SESS_GATE_H
#define WEFT_SESS_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "lane.h"
#include "session/portion.h"

enum gate_state {
	GATE_OPEN,
	GATE_CLOSING,
	GATE_CLOSED,
	GATE_NUM_STATES
};

struct gate_lane;

struct gate {
	_Atomic bool shut; /* not open, held, bound, or there is no membarrier() */
	bool barrier;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* state, waiting, ending, answered */
	enum gate_state state;
	struct list lanes;
	unsigned waiting; /* lanes that want in */
	bool ending;
	bool frozen;  /* closed without waiting for the device */
	bool stopped; /* closed when some of its work was stopped */
	bool preempted;

	uint64_t held_until_ns; /* 0: not held */
	bool bound;
	unsigned n_entered; /* of this portion, size.n at most */
	uint64_t first_ns;  /* of those, the first one's */
	/* The portion before: the question whether the device has done it, 0 if it has; until
	 * when that is waited for; its n_entered and first_ns. And when one was done last. */
	uint64_t portion, portion_until_ns, portion_first_ns, done_ns;
	unsigned portion_n;
	struct portion size;
	uint64_t drain_ns; /* how long lanes wait for a portion */
	bool has_passed;   /* a lane, since the gate was open last */
	void (*comes)(void *arg);
	_Atomic uint64_t gather_ns; /* 0: nothing is gathered */

	/* The thread that waits for the device, made when it is first needed. */
	pthread_t thread;
	bool has_thread, stopping;
	pthread_cond_t question;
	uint64_t asked, answered;
	uint64_t asked_quiet; /* the last that quiesce answers */
	const struct gate_ops *ops;

	void (*wanted)(void *arg);
	void *arg, *wanted_arg;
	/* Hears, if that is set, of a lane that has waited since then, and (NULL) that the
	 * gate was not open since then. */
	void (*passed)(void *arg, const struct gate_lane *l, uint64_t since_ns);
	uint64_t since_ns;
};

/* One lane's place. */
struct gate_lane {
	_Atomic bool inside;
	bool gathered;    /* what is behind it has been waited for; the lane's thread */
	struct list link; /* of gate.lanes */
	unsigned index;   /* the owner's, who hears of it when it has passed */
};

/* All that a gate asks of the session, with its arg. */
struct gate_ops {
	/* Returns when the device has nothing to do; or the gate has opened. True: some work was
	 * stopped, and goes on when the gate opens. */
	bool (*quiesce)(void *arg);
	/* Returns already when it has done all that was submitted before the call. */
	void (*catch_up)(void *arg);
	/* The gate begins to close: quiesce may stop what runs. It opens: that goes on. Under
	 * the gate's lock, so that a question which is answered late stops nothing. NULL:
	 * quiesce stops nothing. */
	void (*closes)(void *arg), (*opens)(void *arg);
	/* Has what runs stand still where it is; false: it cannot. It goes on, under the gate's
	 * lock. NULL: nothing can. */
	bool (*freeze)(void *arg);
	void (*thaw)(void *arg);
	/* Keeps what computes off the device, or no longer; false: not. Under the gate's lock.
	 * NULL: nothing can be. */
	bool (*preempt)(void *arg, bool on);
	/* As lane_behind(), LANE_CALL also where somebody waits for the lane otherwise; and whether
	 * anything is there at all. On the lane's thread, without the lock. For gate_gather(). */
	enum lane_behind (*behind)(void *arg, const struct gate_lane *l);
	bool (*has_more)(void *arg, const struct gate_lane *l);
};

/* ops stays the caller's, and constant. */
void gate_init(struct gate *g, const struct gate_ops *ops, void *arg);
/* Lets everybody go, for ever: who waits gets -EPIPE, and nothing closes it any more. */
void gate_end(struct gate *g);
/* Waits for the thread: what the device does must be able to end. */
void gate_fini(struct gate *g);

/* Calls wanted(arg) for each lane that has to wait for the gate to open, and when lanes do that
 * are not held any more, under the gate's lock; NULL: no more. */
void gate_on_wanted(struct gate *g, void (*wanted)(void *arg), void *arg);

/* Calls passed(arg, lane, since) for each lane that had to wait, and with NULL when the gate
 * opens, under its lock; arg is gate_init()'s. Before the first lane. */
void gate_on_passed(struct gate *g, void (*passed)(void *arg, const struct gate_lane *l,
						   uint64_t since_ns));

void gate_lane_add(struct gate *g, struct gate_lane *l);
/* The lane is outside. */
void gate_lane_remove(struct gate *g, struct gate_lane *l);

/* Waits until the gate is open. Returns 0, or -EPIPE: the session has ended. */
int gate_wait(struct gate *g, struct gate_lane *l);

/* Returns 0, or -EPIPE: the session has ended. Not twice. */
static inline int gate_enter(struct gate *g, struct gate_lane *l)
{
	/* Either the lane sees the gate shut or close_locked() the lane inside: between
	 * the two lies its membarrier(). acquire: what was moved before is visible. */
	atomic_store_explicit(&l->inside, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (likely(!atomic_load_explicit(&g->shut, memory_order_acquire)))
		return 0;
	return gate_wait(g, l);
}

static inline void gate_leave(struct gate_lane *l)
{
	/* release: pairs with the look of close_locked(). */
	atomic_store_explicit(&l->inside, false, memory_order_release);
}

/*
 * Closes: returns 0 when nobody is inside and the device is quiesce, also if the gate was
 * closed before; -EBUSY when deadline_ns (of clock_now_ns()) has come, or sooner where
 * what is preempted does not end, the gate being open again; or -EPIPE, the session has ended. One thread closes and opens.
 */
int gate_close(struct gate *g, uint64_t deadline_ns);
/* As gate_close(), but when the deadline has come the gate goes on closing, and lanes
 * wait on: until either function is called again, or gate_open(). */
int gate_close_begin(struct gate *g, uint64_t deadline_ns);
/*
 * As gate_close_begin(), but waits for lanes alone: what the device is at stands still until the
 * gate opens, and is somebody who wants in. -EBUSY also where it cannot.
 */
int gate_freeze(struct gate *g, uint64_t deadline_ns);
void gate_open(struct gate *g);

/* Has lanes wait until then (clock_now_ns()), or, with 0, no longer. Who is inside stays.
 * Any thread. */
void gate_hold(struct gate *g, uint64_t until_ns);
/* Has what computes kept off the device, or no longer. While the gate is not open that does not
 * begin, for memory may be moving by what computes; and once the device is quiet it ends. Returns
 * whether it is so. One thread, besides the one that closes. */
bool gate_preempt(struct gate *g, bool on);
/* Has the session queue no more than two portions (portion.h); entering costs a lock then.
 * comes, if not NULL, is called with gate_init()'s arg for each lane that wants to meanwhile,
 * under the gate's lock. Any thread. */
void gate_bound(struct gate *g, bool on, void (*comes)(void *arg));

/* Has lanes wait so long at most for what comes behind, and no longer than GATE_GATHER_QUIET_NS
 * for the next of it; 0: not. The session has ops->behind. Entering costs a lock then. Any
 * thread. */
#define GATE_GATHER_QUIET_NS (200 * NSEC_PER_USEC)
void gate_gather(struct gate *g, uint64_t ns);

/* The device has been seen to have no work: nothing is queued. Any thread. */
void gate_is_drained(struct gate *g);

/* How long lanes wait for a portion, and the most where the session did not get quiet. */
#define GATE_DRAIN_NS     (20 * NSEC_PER_MSEC)
#define GATE_DRAIN_MAX_NS NSEC_PER_SEC

/* True if a lane wants in, or work stands still; and if the session is not held besides. */
bool gate_wanted(struct gate *g);
bool gate_wanted_now(struct gate *g);
/* Any thread. */
bool gate_is_frozen(struct gate *g);
/* Whether the device was at something that goes on when the gate opens: frozen or stopped. Any
 * thread. */
bool gate_is_still(struct gate *g);

#endif
