/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and lanes from inside: for the rooms that run commands (session/, dispatch/)
 * and the worker that makes them.
 */
#ifndef WEFT_SESS_SESSION_PRIVATE_H
#define WEFT_SESS_SESSION_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <cuda.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "device/device.h"
#include "device/tally.h"
#include "handle.h"
#include "ipc/accounts.h"
#include "ipc/page.h"
#include "ipc/share.h"
#include "lane.h"
#include "memory/env.h"
#include "memory/touch.h"
#include "release.h"
#include "session/batch.h"
#include "session/gate.h"
#include "session/kept.h"
#include "session/object.h"
#include "session/session.h"
#include "session/tickets.h"

struct footprint;
struct hostfuncs;
struct hostmem;
struct images;
struct ipc_events;
struct managed;
struct pools;
struct space;
struct trace_area;

#define SESS_LANE_RESERVED ((struct sess_lane *)1) /* in lanes[]: taken, not started */
#define SESS_LOG_BURST     5  /* lines a second that a guest may cause */
#define SESS_PINS_MAX      16 /* objects that one command may name; arrays use obj_ref() */
#define SESS_STREAM_LEGACY 1ull /* stream values on the wire that are not handles */
#define SESS_STREAM_THREAD 2ull

struct session {
	const struct device_ops *ops;
	struct device *dev;
	struct device_info info;
	struct space *space;           /* allocations; memory/space.h */
	struct footprint *footprint;   /* what the device takes by itself */
	struct pools *pools;           /* stream-ordered memory; memory/pool/pool.h */
	struct images *images;         /* code on its way; image.h */
	struct hostfuncs *hostfuncs;   /* host functions waiting for the guest */
	struct hostmem *hostmem;       /* shared with the guest; NULL: none can be */
	struct managed *managed;       /* seen by the program's CPU, too */
	struct ipc_events *ipc_events; /* shared with other sessions */
	struct accounts accounts;      /* how it reaches weftd's */
	struct mem_env env;            /* what memory/ stands on */
	struct touch touch;            /* what it launches with, if that is of use */
	struct ptx_templates *templates; /* what the operator says of kernels; or NULL */
	struct gate gate; /* who submits work that may touch device memory is inside */

	uint64_t number;   /* of this session, for messages */
	uint8_t token[16]; /* what a joining lane must show */
	char tenant[64];
	char library
		[RELEASE_TEXT]; /* version of the guest's, clean text; by lanes_lock */
	_Atomic bool mute;      /* it does not print what kernels print */

	struct obj_table objs;
	struct list libraries; /* sess_module.in_session, under objs.lock */
	_Atomic bool system_atomics; /* sess_system_atomics() */
	pthread_mutex_t contexts_lock;
	pthread_cond_t contexts_cond; /* one has gone */
	struct list contexts;         /* sess_ctx.in_session */
	struct tickets tickets;
	_Atomic uint64_t calls_begun, calls_done; /* commands without a ticket */
	_Atomic unsigned lent; /* lanes that have lent what they keep; kept.h */
	_Atomic unsigned next_ctx_id;
	bool monitor;  /* has no context and makes none */
	bool dropping; /* drop_thread gives up the one that was there */
	pthread_t drop_thread;
	uint64_t
		overhead; /* device memory that weftd has charged for the first context */
	/* Device memory beside allocations that is charged when it is made: contexts,
	 * limits, arrays. */
	struct tally apart;
	_Atomic unsigned paid; /* contexts charged for that are not there (any more) */
	pthread_mutex_t limits_lock;
	struct sess_ctx *primary; /* made before the guest came; lives as long as dev */

	volatile struct wire_status *status; /* the guest's status line, or NULL */
	_Atomic uint32_t sticky;             /* CUresult once a context is lost */
	_Atomic uint32_t deferred; /* first failure of a command without a reply */

	pthread_mutex_t out_lock;
	char *out; /* text kernels printed, not yet sent */
	size_t out_size, out_room;
	_Atomic bool out_pending;

	pthread_mutex_t lanes_lock;
	struct sess_lane *lanes[SESS_LANES_MAX]; /* holes are NULL */
	unsigned n_lanes;                        /* open ones */
	unsigned n_threads;                      /* of lanes, not quite ended */
	pthread_cond_t threads_cond;
	_Atomic bool ending;
	_Atomic int end_reason;    /* 0: all lanes closed; else -errno */
	struct worker_page *count; /* own_count, or a page shared with weftd */
	struct worker_page own_count;
	struct trace_area *trace;     /* behind the page; NULL: none */
	struct log_limit log_limit;   /* under lanes_lock */
	pthread_mutex_t refusal_lock; /* writing of count->refusals */
	struct sess_hooks hooks;
	_Atomic bool active; /* somebody measures busy_permille */
};

/* State of the other lanes when a lane found its stream idle (dispatch/copy.c). */
struct sess_taken {
	bool known;
	bool under_way; /* since then copies were taken that may be under way */
	uint64_t stream, calls, posts;
	struct dev_ctx *ctx; /* only to compare */
};

/* One guest thread. Used by its own thread only, except as noted. */
struct sess_lane {
	struct session *s;
	struct lane *lane;
	unsigned index;
	pthread_t thread;
	struct gate_lane gate;

	const struct lane_msg *msg; /* the command being handled */
	struct lane_msg fitted;     /* that one, if the guest's is longer or shorter */
	struct sess_ctx *ctx;       /* current context, a reference, or NULL */
	struct list thread_streams; /* this thread's default stream of each context */
	/* While it sleeps others may take ctx and thread_streams (asleep.c), and what it
	 * has lent (kept.h). */
	pthread_mutex_t asleep_lock;
	bool asleep;

	struct sess_pin {
		struct sess_obj *obj;
		uint64_t key; /* under which to keep it; 0: not */
		struct dev_func *dev;
	} pins[SESS_PINS_MAX]; /* references that the command holds */
	unsigned n_pins;
	struct kept kept;
	struct batch batch;
	bool batched; /* the batch ends the ticket of the command in hand */
	struct sess_taken taken;
	uint64_t last_stream; /* to which work was submitted last, or 0 */
	/* Commands without a reply since the last one that had one, and before that. */
	unsigned run, last_run;
	unsigned n_prompt;    /* times that a guest waited for such a one at once */
	bool more;            /* another launch lies there already */
	bool replying;        /* a raw handler has begun its reply */
	bool uncounted;       /* what this command answers is no refusal of its own */
};

#endif
