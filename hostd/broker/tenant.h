/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: who may have how much; with a tenant its socket, listener and window are
 * there. */
#ifndef WEFT_BROKER_TENANT_H
#define WEFT_BROKER_TENANT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/log.h"
#include "base/sockfile.h"
#include "broker/child/child.h"
#include "broker/child/output.h"
#include "broker/compute/pace.h"
#include "broker/operator/events.h"
#include "broker/loop/loop.h"
#include "broker/loop/outbox.h"
#include "broker/refused.h"
#include "broker/operator/usage.h"
#include "broker/window.h"
#include "util/conf.h"

struct book_tenant;
struct broker;

struct tenant {
	struct list link; /* b->tenants */
	struct broker *b;
	char name[CONF_NAME_MAX + 1];
	char vm_uuid[CONF_UUID_LEN + 1]; /* "" if it is not known */
	char *socket;
	struct sockfile sockfile; /* of socket */
	int listen;               /* stays open while listeners come and go */
	int cgroup;               /* a directory; -1: none */
	struct child listener;
	struct source listener_ctl;
	struct outbox listener_out;
	uint32_t listener_resumes; /* asked with this number who waits; 0: it is not */
	uint64_t listener_at_ns;   /* when to start the next listener; 0: one is there */
	struct window window;
	struct conf_memory memory;
	struct conf_compute compute;
	struct space_want space;
	struct space_set tpcs; /* that it has; compute/tpcs.c */
	struct tenant_takes {  /* of the device's time; compute/slices.c */
		bool computes;
		uint32_t pending, busy; /* as policies/time.h has them */
		uint64_t gpu_us;        /* when busy was measured */
	} takes;
	struct pace_tenant pace;
	uint64_t granted, evicted, returning, peak;
	/* Granted, and freed since on its way out or back. */
	uint64_t freed_moving;
	uint64_t held;     /* charges that wait */
	uint64_t lacks_ns; /* since when it has less than memory.min; memory/stuck.c */
	/* Waiters, for memory and for what is swapped: a few stand in b->waiters, the
	 * others behind them. */
	struct waiter_queue {
		struct list behind;
		unsigned n_standing;
	} queues[2];
	unsigned busy_pass; /* of the pass in which nobody but busy ones could give */
	struct memory_events {
		/* Times: refused for the limit, or for want of memory; was evicted
		 * although below memory.low, because above memory.high, at all; was too
		 * busy to; had kernels stand still for that.
		 */
		uint64_t max, oom, low, high, reclaim, busy, frozen;
	} events, events_told; /* so far; so often told by events.c */
	uint32_t index;        /* in struct snapshot */
	bool removed, draining;
	void (*on_release)(void *arg); /* when nothing of it is left; NULL: nobody asks */
	void *released_for;
	struct list workers; /* with a session of its own */
	uint64_t next_session;
	/* Guests that wait, and those who asked for what came before them. */
	struct list waiting, queue_link;
	uint32_t asked;          /* its sessions were asked with this number last */
	uint64_t asked_until_ns; /* who has not answered by then is taken to be there */
	uint64_t turn_ns;        /* moves on with each worker that it gets; guests.c */
	uint64_t host_max, host_used;
	uint64_t wmem_max, wmem; /* worker memory; granted */
	uint64_t gpu_us;         /* of sessions that have ended; gpu_time.c */
	struct usage ended;      /* of sessions that are no more */
	struct list shares;      /* share.c */
	unsigned n_shares;
	/* Shares whose maker has gone: part of what is granted, and of what is evicted.
	 * */
	uint64_t shared, shared_evicted;
	unsigned sessions_max, n_sessions, n_waiting;
	unsigned n_waiting_gl; /* of these, for graphics */
	unsigned
		n_resuming; /* sessions that have not said what they have; keep/resume.c */
	struct book_tenant *book; /* NULL: none */
	unsigned lanes_max;
	struct strangers strangers;
	unsigned n_ending;     /* of n_sessions */
	unsigned n_letter_fds; /* outbox.c */
	struct log_limit log_limit, session_limit;
	struct event_limit event_limit;
	struct output_budget output;
};

/* Frees a tenant that was removed, once its last session and its listener have ended. */
void tenant_try_release(struct tenant *t);
/* Forgets who waits with arg for the end of a tenant (tenant_remove()). */
void tenants_forget(struct broker *b, const void *arg);
/* Listens on a Unix socket: the one that the store has under `kept`, if it is at that path,
 * or one that it is to have; a stale one is replaced, another kind of file is not. Returns
 * the descriptor or -errno; see sockfile.h for what errors mean. */
int listen_unix(struct broker *b, const char *path, mode_t mode, const char *kept,
		struct sockfile *ret_file);
/* True if no session of the tenant may begin; operator/drain.c. */
bool tenant_drains(const struct tenant *t);
/* Whether its programs may draw (graphics). */
bool tenant_draws(const struct tenant *t);
struct tenant *tenant_find(struct broker *b, const char *name);

/* Lines in the log, of a tenant, about sessions that come and go, a second. */
#define SESSION_LINES 10

#endif
