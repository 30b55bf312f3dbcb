/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weftd: who may have how much, and which worker serves whom. One thread and one loop,
 * but for what aside.c does; no guest bytes, no device. This is what its modules share;
 * what each of them offers is in its own header.
 */
#ifndef WEFT_BROKER_BROKER_H
#define WEFT_BROKER_BROKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/sockfile.h"
#include "broker/child/output.h"
#include "broker/child/users.h"
#include "broker/loop/loop.h"
#include "broker/workers.h"
#include "policies/space.h"
#include "policies/time.h"

struct blocks_policy;
struct conf;
struct events;
struct listener_guests;
struct json_object;
struct msg;
struct placement;
struct placement_tenant;
struct tenant;
struct space_tenant;
struct trace;
struct waiter;

/* Questions to the policy of time and its answers (compute/plugin.c), of each tenant. */
struct asked {
	struct time_tenant *tenants;
	uint32_t *us;
	struct time_turn *turns;
	uint32_t room; /* of all three */
	struct time_device device;
};

/* State of compute/slices.c: when to decide, not before. */
struct slices {
	bool due, eager;
	uint64_t at_ns, again_ns; /* again: somebody has not read; 0: all have */
	/* Since when it is seen who has work, and who has how much of the device; 0: nobody
	 * looks. */
	uint64_t look_ns, busy_ns;
};

/* State of compute/pace.c: when to look, and when it was looked last; 0: nobody looks. */
struct pace {
	bool due;
	uint64_t at_ns, looked_ns;
	/* Tenants that are to go by turns wait until then for those that are not any more; 0:
	 * nobody waits. One that does not go is held until hold_ns, which moves on. */
	uint64_t drain_ns, hold_ns;
	bool turns; /* somebody does not go */
	bool lacks; /* somebody that computes has evicted memory */
	/* Costs of going from one session to the next, to the device: of the slice of the one
	 * that comes, and of nobody's (policies/time.h); and of taking one off, of nobody's. */
	uint32_t load_us, switch_us, preempt_us;
	uint32_t n_worked; /* who had kernels at the look before */
};

/* Workers of a class that are there before somebody comes for them. */
struct pool {
	unsigned n_idle, n_starting; /* without a session; of these, not ready */
	unsigned failures;           /* that never became ready, in a row */
	uint64_t spawn_at_ns;        /* after those: not before */
};

/* State of compute/tpcs.c; where they are is in conf. */
struct tpcs {
	bool due, untold;  /* to be decided; decided, and nobody has been told */
	uint64_t again_ns; /* somebody has not read; 0: all have */
	uint8_t bit[SPACE_TPCS_MAX];
	struct space_tenant *tenants;
};

struct broker {
	struct conf *conf;
	char *libexec; /* where weft-worker and weft-listener are */
	struct loop *loop;
	bool stop, draining;
	bool leaves; /* and sessions go on */
	int exit_status;

	struct list tenants;
	struct list workers;
	struct list leaving; /* tenants that have been removed, until all has ended */
	struct list queue;   /* tenants with guests that wait; guests.c */
	struct pool pools[WORKER_NUM_KINDS];
	uint64_t shared_ends_ns;     /* compute/shared.c; 0: nothing is wrong with it */
	uint64_t taken_ns;           /* when a session got a worker last */
	uint64_t short_ns;   /* when the pool became short of workers; 0: it is not */
	uint64_t charged_ns; /* when one asked for memory last */
	uint32_t next_asked;
	unsigned n_ending; /* workers; what they have will be free in a moment */
	bool was_ready;    /* a worker has been ready once */
	int ready_fd;      /* told when that happens; -1: none */
	void (*on_ready)(struct broker *b);
	const char *conf_name; /* the file's; NULL: none */
	/* Reads file and command line; says itself what is wrong. */
	int (*read_conf)(struct conf *ret);

	/* Receivers of what workers and listeners say, of the news that there may be a
	 * worker for guests that wait, or that a session has ended, and of one that was
	 * asked what it has: workers.c and listener.c stand below them. */
	int (*on_message)(struct worker *w, const struct msg *m, int *fd);
	void (*serve_guests)(struct broker *b);
	void (*on_session_end)(struct tenant *t);
	int (*resume_said)(struct worker *w, const struct msg *m, int *fd);
	void (*resume_end)(struct worker *w);
	const struct listener_guests *guests;

	uint64_t next_session;
	uint64_t gpu_us; /* of sessions that have ended; gpu_time.c */
	struct session_record history[HISTORY_MAX];
	unsigned n_history; /* ever; the latest ones are kept */

	char device_name[96];
	uint64_t device_total, granted; /* to workers, all together */
	uint64_t evicted, returning;    /* likewise */
	uint64_t host_max, host;        /* of all tenants: pinned, and of workers */
	uint64_t swap; /* host memory for what is evicted; 0: nothing moves */
	uint64_t piece;
	uint64_t kill_ns; /* reclaim.kill; 0: never */
	unsigned n_stuck; /* workers */
	/* Kept free while tenants want more than there is, which was so last at
	 * scarce_ns (0: never). */
	uint64_t reserve, scarce_ns;
	/* Whether something is in host memory, and there is room for all of it, when somebody
	 * looked last. */
	bool all_fits;
	const struct time_policy *time;
	struct asked asked;
	struct slices slices;
	struct pace pace;
	const struct blocks_policy *blocks;
	struct worker *filler; /* compute/filler.c; NULL: none */
	struct tpcs tpcs;
	const struct placement *placement;
	struct placement_tenant *seen; /* memory/snapshot.c */
	uint64_t *shares;              /* as many */
	uint32_t seen_room;
	struct list waiters;       /* who waits and is looked at, in order; waiters.c */
	int runlist_fd;            /* workers' of the software device; -1: none */
	unsigned n_passes;         /* over them; each has a number */
	/* One moves at a time, so that the device does not idle; while tenants take turns one
	 * moves out and another one, coming, in. */
	struct worker *moving, *coming;
	struct waiter *moving_for; /* who waits for that, if still there */
	uint64_t moving_since_ns, coming_since_ns, reclaim_at_ns, reclaim_pause_ns;
	uint64_t
		background_ns; /* when what nobody waits for may move; 0: nothing is to */
	uint32_t next_move;
	bool reclaim_due;
	uint64_t prealloc_at_ns;
	bool prealloc_due, prealloc_again;
	bool pressed;        /* the device is nearly full */
	uint64_t room_at_ns; /* a worker to come waits for room at most until then */
	/* Memory set aside for workers that wait for guests: so many are kept, so many
	 * are there, and one takes so much. */
	unsigned keep_ready, n_ready;
	uint64_t overhead;
	unsigned n_sessions, n_shares, shares_max;
	bool own_memory; /* what a worker has of the device is its own memory */
	uint64_t held_at_ns;
	uint64_t shared; /* of all tenants */
	uint8_t device_uuid[16];

	int cgroup; /* where tenants have theirs; a directory, -1: none */
	struct users users;
	struct output_budget output; /* of children without a tenant */
	struct list loud;            /* whose output is not read for now */

	struct source control, signals, lifeline;
	/* Answers a request; control_open(). */
	struct json_object *(*on_request)(struct broker *b, struct json_object *request,
					  void *client);
	struct events *events; /* events.c; NULL: none yet */
	uint64_t events_told;  /* number of the last that clients were sent */
	struct trace *trace;   /* operator/trace.c; NULL: nobody traces */
	struct list clients;
	unsigned n_clients;
	size_t out_bytes; /* that they have not read yet */
	char why[320];    /* tenant_new() failed */
	char *control_path;
	struct sockfile control_file;
};

#endif
