/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: some that are ready for a guest, and those that serve one; with a worker its
 * session begins and ends. workers.c starts and ends them.
 */
#ifndef WEFT_BROKER_WORKERS_H
#define WEFT_BROKER_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/child/child.h"
#include "broker/loop/loop.h"
#include "ipc/msg.h"
#include "broker/loop/outbox.h"
#include "broker/memory/held.h"
#include "broker/refused.h"
#include "util/conf.h"
#include "wire.h"

struct book_worker;
struct broker;
struct tenant;
struct trace_area;
struct trace_reader;
struct worker_page;

enum worker_state {
	WORKER_STARTING, /* opens its device */
	WORKER_READY,    /* waits for a guest */
	WORKER_SESSION,  /* serves one */
	WORKER_NUM_STATES
};

/* Whom it is for: sessions that compute, of either class, or one that draws (a weft-gl). */
enum worker_kind {
	WORKER_ISOLATED,
	WORKER_SHARED,
	WORKER_GRAPHICS,
	WORKER_NUM_KINDS
};

/* Moves that a worker was asked for. */
struct worker_move {
	uint32_t out_id, in_id; /* 0: nothing */
	uint64_t room;          /* of host memory, offered for what goes out */
	uint64_t left, gave;    /* of what goes out: has left; or was freed, too */
	uint64_t
		returning; /* granted for what is evicted, until it says what came back */
	uint64_t surplus;  /* likewise, but that was freed since */
	bool needs;        /* it waits for what is swapped */
	bool makes_resident;    /* it waits for what it is to share */
	unsigned n_busy;        /* times in a row that it did not get quiet */
	uint64_t busy_since_ns; /* of these the first; 0: none */
	bool stuck;             /* nobody waits for it; memory/stuck.c */
	bool at_gate;           /* it will say whether it gets quiet */
	/* Times until which it is not asked for more, has nothing more to give, gets
	 * nothing back. */
	uint64_t busy_ns, empty_ns, full_ns;
	uint64_t gave_ns;   /* when something was moved out last */
	uint64_t manual_ns; /* when an operator moved it out: not back before it works */
	uint64_t pool;      /* host memory it was told to keep ready */
};

struct worker {
	struct list link; /* b->workers */
	struct broker *b;
	enum worker_state state;
	struct child child;
	struct source ctl;
	struct outbox out;
	enum worker_kind kind;
	struct source mps; /* compute/mps.c: somebody takes its work off the device */
	uint64_t mps_by_ns;
	struct worker_page *count; /* shared pages; what a worker wrote is not trusted */
	int page_fd;               /* of count, until it is in the store */
	size_t page_size;          /* of count and what is behind it */
	struct trace_area *trace;  /* behind count, and as little trusted; NULL: none */
	struct trace_reader *reader; /* NULL: it is not traced */
	uint32_t version;            /* of its messages */
	struct book_worker *book;    /* what the next weftd will know; NULL: nothing */
	/* Another weftd began its session: it is asked what it has, with this number (0: it
	 * is not), and ended if it has not said so by then. */
	uint32_t resume_id;
	uint64_t resume_by_ns;
	bool is_held_up;  /* not heard until others of its tenant have answered, too */
	bool cannot_move; /* it was started when nothing was to move */
	uint64_t started_ns;
	/* Device memory: of the device's own for a context; all that was granted, that
	 * included, what is ahead of use too; the most that ever was. */
	uint64_t overhead, charged, granted_peak;
	uint64_t evicted;        /* charged once, now in host memory */
	uint64_t evicted_shared; /* of that, what others have, too: it stays there */
	uint64_t freed_early;    /* told of before what moves out had arrived there */
	bool was_evicted;        /* once */
	/* Use when policies were told last, and when that was more than before. */
	uint64_t used_seen, used_ns;
	struct worker_move move;
	struct list waiters; /* its own; good if there are any */
	unsigned n_waiters;

	/* of a session */
	uint64_t session;           /* operators know it by this */
	uint64_t session_of_tenant; /* and its tenant's programs by this */
	struct tenant *tenant;
	struct list tenant_link; /* tenant.workers */
	uint8_t token[16];
	struct wire_hello hello;
	uint64_t attached_ns, peak, host_charged;
	uint64_t wmem;     /* worker memory granted, what is ahead of use included */
	unsigned n_lanes;  /* most at once, each of which is charged */
	uint64_t n_passed; /* lanes that it was told of, the first included */
	int slice;         /* of the tenant's window, or -1 */
	bool in_window;    /* its guest has mapped that: host memory lies there */
	char carrier[24];
	bool killed;
	bool computes;      /* when slices were decided last */
	uint64_t looks, looks_pending; /* its page's, then */
	/* Slices that it was told last, and before (0: the driver's), and when. */
	uint32_t slice_us, slice_before_us;
	uint64_t sliced_ns;
	uint32_t gather_us;   /* that it was told last */
	bool slice_unsure;    /* another weftd has told it */
	struct msg_tpcs tpcs; /* that it was told last */
	bool tpcs_unsure;     /* another weftd has told it */
	struct msg_pace pace; /* that it was told last */
	/* The device's time that it had, and for how long it had work and not the device. */
	uint64_t used_time_ns, stalled_ns;
	/* At the last look (compute/pace.c): its slice if it had kernels, 0 if not; whether it
	 * had only copies, and whether it had any work, on the device or before it. */
	uint32_t works_us;
	bool copies, wants;
	/* Whether it had kernels at the look before; and, where its device tells, for how long it
	 * had the device since then, by its page's had_ns, which was that. */
	bool worked, is_told;
	uint64_t had_ns, had_seen_ns;
	uint64_t ahead_ns;    /* charged by the clock since its device told */
	uint64_t kernels_ns;  /* when it was seen with kernels last (compute/blocks.c) */
	bool pace_unsure;     /* another weftd has told it */
	const char *why;    /* weftd has ended it for this; NULL: for nothing */
	uint64_t ending_ns; /* since when it is on its way out; 0: it is not */
	/* Whether its program is still there: asked last, answered last; 0: never */
	uint32_t asked, here;
	bool asked_holders; /* held.c */
	unsigned n_over;    /* times in a row that it had more memory than it may */
	/* Most that was granted to it at a time, since the last look and between earlier
	 * ones. */
	uint64_t granted_most[HELD_TIMES];
};

/* Record of a session that has ended. */
struct session_record {
	uint64_t session;
	char tenant[CONF_NAME_MAX + 1];
	char name[24];
	uint32_t pid;
	uint64_t duration_ns, calls, posts, launches, to_device, from_device, peak;
	uint64_t gpu_us;
	char end[48];
	struct refused_list refused;
};
#define HISTORY_MAX 256

struct worker_fds {
	int ctl, page;
};

/* Makes a worker in state WORKER_SESSION of one that another weftd has begun; takes over
 * the pair, not the page. Returns 0 or -errno. */
int worker_adopt(struct broker *b, const struct worker_fds *fds, struct worker **ret_w);
/* Forgets it again, before it has a child. */
void worker_forget(struct worker *w);
/* Ends the session of a process that has ended; for child_adopt(). */
void worker_exited(struct source *src, uint32_t events);
/* The device is known, and guests can be served. */
void workers_device_known(struct broker *b);

/* Starts workers until enough are ready or starting. */
void workers_fill(struct broker *b);
/* A worker of that kind that waits for a guest, or NULL. */
struct worker *workers_ready(struct broker *b, enum worker_kind kind);
/* Name of its program. A constant. */
const char *worker_program(enum worker_kind kind);
/* Kind that a tenant's guest needs. */
enum worker_kind worker_kind_for(const struct tenant *t, const struct wire_hello *hello);
/* Gives a ready worker to the guest with number id of the tenant's listener. Returns 0,
 * -EAGAIN (there will be memory for it in a moment) or -errno (there is none). */
int worker_attach(struct worker *w, struct tenant *t, const struct wire_hello *hello,
		  uint32_t id);
/* Notes the answer of a worker that was asked with number id whether its program is
 * there. */
void workers_probed(struct worker *w, uint32_t id);
/* Sets how many lanes a worker was told of. */
void worker_lanes(struct worker *w, uint64_t n);
/* Ends a session's worker now. */
void worker_kill(struct worker *w);
void workers_fini(struct broker *b);
/* Timer (loop.h): starts workers that are due, ends those that do not end. */
uint64_t workers_tick(void *broker, uint64_t now_ns);

#endif
