/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weftd: who may have how much, and which worker serves whom. One thread, one epoll, no
 * guest bytes, no device.
 *
 *	loop.c	   events			pool.c	   workers and sessions
 *	spawn.c	   starting programs		tenant.c   sockets and doors
 *	account.c  device memory		window.c   a VM's shared memory
 *	control.c  the control socket		request.c  what can be asked there
 *	refused.c  what guests were refused		ipc.c	   what sessions share
 */
#ifndef WEFT_BROKER_BROKER_H
#define WEFT_BROKER_BROKER_H

#include <stdbool.h>
#include <sys/types.h>

#include <json-c/json.h>

#include "base/list.h"
#include "base/log.h"
#include "broker/conf.h"
#include "broker/ctl.h"
#include "device/range.h"
#include "refusal.h"

struct broker;
struct sess_counters;
struct tenant;

/* ---- loop.c ---- */

/* Something the loop waits for; embedded in what it belongs to. */
struct source {
	void (*fn)(struct source *src, uint32_t events);
	int fd; /* -1: not watched */
};

int source_add(struct broker *b, struct source *src, int fd, uint32_t events,
	       void (*fn)(struct source *, uint32_t));
/* Stops watching and closes the descriptor. Safe within any source's function. */
void source_remove(struct broker *b, struct source *src);

/* Runs fn(arg) when the events in hand have been dealt with: for freeing. */
int loop_defer(struct broker *b, void (*fn)(void *), void *arg);

/* Runs what was deferred. */
void loop_flush(struct broker *b);

/* Runs until b->stop. Returns 0 or -errno. */
int loop_run(struct broker *b);

/* ---- spawn.c ---- */

struct child {
	pid_t pid; /* 0: none */
	struct source exit;
};

/*
 * Starts a program that lies beside weftd (or in libexec), with fds[i] as descriptor
 * 3 + i. exit_fn runs when it has ended; then call child_reap(). Returns 0 or -errno.
 */
int child_spawn(struct broker *b, struct child *c, char *const argv[], const int *fds,
		unsigned n_fds, void (*exit_fn)(struct source *, uint32_t));
/* Collects an ended child. Returns the wait status as of waitpid(). */
int child_reap(struct broker *b, struct child *c);
void child_kill(struct child *c);

/* ---- pool.c: workers and sessions ---- */

enum worker_state {
	WORKER_STARTING, /* opens its device */
	WORKER_READY,    /* waits for a guest */
	WORKER_SESSION,  /* serves one */
};

struct worker {
	struct list link; /* b->workers */
	struct broker *b;
	enum worker_state state;
	struct child child;
	struct source ctl;
	struct sess_counters
		*count; /* shared pages; what a worker wrote is not trusted */
	uint64_t started_ns;
	/* Device memory: of the device's own for a context; all that was granted, that
	 * included, what is ahead of use too; the most that ever was. */
	uint64_t overhead, charged, granted_peak;

	/* of a session */
	uint64_t session;
	struct tenant *tenant;
	uint8_t token[16];
	struct wire_hello hello;
	uint64_t attached_ns, peak, host_charged;
	int slice; /* of the tenant's window, or -1 */
	char carrier[24];
	bool killed;
};

/* ---- refused.c: what guests asked for and were refused ---- */

/* A copy of one: the pages of a worker are not trusted. */
struct refused {
	enum refusal kind;
	char what[REFUSAL_TEXT]; /* printable, terminated */
	uint64_t count;
};

struct refused_list {
	unsigned n;
	uint64_t others; /* that had no room */
	struct refused *of;
};

/* What is in a worker's pages, checked. Frees nothing that was there; 0 or -ENOMEM. */
int refused_read(const struct sess_counters *c, struct refused_list *ret);
/* Adds up what several sessions were refused; what has no room is counted as others. */
void refused_add(struct refused_list *sum, const struct refused_list *l);
void refused_fini(struct refused_list *l);
/* {"kind", "what", "count"}, the most frequent first. Sorts. */
struct json_object *refused_describe(struct refused_list *l);

/* What remains of a session that has ended. */
struct session_record {
	uint64_t session;
	char tenant[CONF_NAME_MAX + 1];
	char name[24];
	uint32_t pid;
	uint64_t duration_ns, calls, posts, launches, to_device, from_device, peak;
	char end[48];
	struct refused_list refused;
};
#define HISTORY_MAX 256

/* Starts workers until enough are ready or starting. */
void pool_fill(struct broker *b);
/* A guest has come through a tenant's door. Takes over fd. */
void pool_guest(struct tenant *t, const struct wire_hello *hello, int fd);
/* Ends a session's worker now. */
void worker_kill(struct worker *w);
/* Ends all sessions and waiting guests of a tenant. */
void pool_drop_tenant(struct tenant *t);
void pool_fini(struct broker *b);
/* Refuses guests that waited too long. Returns when to be called again, or UINT64_MAX. */
uint64_t pool_tick(struct broker *b, uint64_t now_ns);

/* ---- account.c ---- */

/* A worker is ready; its context takes so much. */
void account_ready(struct worker *w, uint64_t overhead);
/* It is to serve a tenant, which pays for that. Returns 0 or -EDQUOT. */
int account_attach(struct worker *w, struct tenant *t);
/* Before it is attached: its context is dropped, for the session only monitors. */
void account_monitor(struct worker *w);
/* It is in state WORKER_SESSION now. */
void account_begin(struct worker *w);
/* It has ended: everything comes back. */
void account_end(struct worker *w);

/* A session wants more. Returns 0 or -EDQUOT (tenant's limit) or -ENOMEM (the device is
 * full). */
int account_charge(struct worker *w, uint64_t bytes);

/* What is in use now, exactly. */
uint64_t account_worker(const struct worker *w);
uint64_t account_tenant(const struct tenant *t);
uint64_t account_device(const struct broker *b);
/* The most that was; while several sessions run, the most that was seen. */
uint64_t account_peak(struct tenant *t);

/* Changes limits. What is above them stays, but nothing is added. */
void account_set(struct tenant *t, const struct conf_memory *m);
void account_left(const struct tenant *t, uint64_t *ret_free, uint64_t *ret_total);

/* ---- account_host.c ---- */

/* A session wants host memory, up to host.max; *ret_offset is its place in the VM's
 * window, or 0. Returns 0, -EDQUOT or -ENOSPC (the window is full). */
int account_host_charge(struct worker *w, uint64_t bytes, uint64_t *ret_offset);
void account_host_uncharge(struct worker *w, uint64_t offset, uint64_t bytes);
/* All that the worker has. */
void account_host_drop(struct worker *w);

/*
 * Memory of a share, which the worker has let go of, is the tenant's own from now on.
 * Returns how much that is; account_share_end() when it is gone.
 */
uint64_t account_share(struct worker *w, uint64_t bytes);
void account_share_end(struct tenant *t, uint64_t bytes);

/* ---- ipc.c: what sessions of a tenant share ---- */

struct sess_ipc;

/* Takes over fd (may be -1) on success. Returns 0, -EINVAL, -EMFILE (too many), -ENOMEM
 * or -EIO. */
int ipc_export(struct worker *w, const struct sess_ipc *x, int fd, uint8_t *ret_name);
/* ret_x->fd stays ours. -EDEADLK: the worker's own; -EINVAL: none of its tenant's. */
int ipc_open(struct worker *w, const uint8_t *name, unsigned kind,
	     struct sess_ipc *ret_x);
/* Ends one ipc_open(). */
void ipc_close(struct worker *w, const uint8_t *name);
/* The worker has freed what it exported. Its charge for it ends here. */
void ipc_drop(struct worker *w, const uint8_t *name);
/* The worker has ended; before account_end(). */
void ipc_end(struct worker *w);

/* ---- window.c ---- */

struct window {
	int fd; /* -1: none */
	char *path;
	bool created; /* remove it at the end */
	uint32_t key;
	uint64_t size, slice_size;
	unsigned n_slices;
	uint64_t taken;        /* bit set */
	uint64_t host_first;   /* from here to the end: host memory */
	struct range_set host; /* given out; data: the worker */
};

/* Opens or makes the file, writes its head. Returns 0 or -errno. */
int window_open(struct window *w, const char *path, uint64_t size);
/* A free slice. Returns its number or -ENOSPC. */
int window_take(struct window *w, struct ctl_window *ret_slice);
void window_give_back(struct window *w, int slice);
/* A place for host memory of an owner. Returns 0, -ENOSPC or -ENOMEM. */
int window_host_take(struct window *w, uint64_t bytes, const void *owner,
		     uint64_t *ret_offset);
/* Ends the owner's place that begins there. Returns its size, 0 if there is none. */
uint64_t window_host_give_back(struct window *w, uint64_t offset, const void *owner);
/* Ends all places of an owner. */
void window_host_drop(struct window *w, const void *owner);
void window_fini(struct window *w);

/* ---- tenant.c ---- */

struct tenant {
	struct list link; /* b->tenants */
	struct broker *b;
	char name[CONF_NAME_MAX + 1];
	char *socket;
	int listen; /* stays open while doors come and go */
	struct child door;
	struct source door_ctl;
	uint64_t door_at_ns; /* when to start the next door; 0: one is there */
	struct window window;
	struct conf_memory memory;
	uint64_t granted, peak;
	uint64_t events_max,
		events_oom; /* refused for the limit, or for want of memory */
	uint64_t host_max, host_used;
	struct list shares; /* ipc.c */
	unsigned n_shares;
	uint64_t shared; /* of what is granted: of shares whose maker has gone */
	unsigned sessions_max, n_sessions, n_waiting;
	struct log_limit log_limit;
};

/* Makes the tenant, its socket and its window. Returns 0, -EEXIST or -errno. */
int tenant_new(struct broker *b, const struct conf_tenant *ct, struct tenant **ret_t);
/* Ends its sessions too; its memory lives on until they are gone. */
void tenant_free(struct tenant *t);
/* Listens on a Unix socket; a stale one is replaced. Returns the descriptor or -errno. */
int listen_unix(struct broker *b, const char *path, mode_t mode);
struct tenant *tenant_find(struct broker *b, const char *name);
/* Starts doors that are due again. Returns when to be called again, or UINT64_MAX. */
uint64_t tenant_tick(struct broker *b, uint64_t now_ns);

/* ---- control.c, request.c ---- */

int control_open(struct broker *b, const char *path);
void control_fini(struct broker *b);
/* Values of a tenant as they are now, and changing some of them; request_keys.c. */
struct json_object *request_tenant_get(struct broker *b, struct json_object *q);
struct json_object *request_tenant_set(struct broker *b, struct json_object *q);
/* {"ok": false, "error": "WHAT: text of the error"}. */
struct json_object *reply_error(const char *what, int error);
/* Answers one request; the caller owns the answer. */
struct json_object *request_handle(struct broker *b, struct json_object *request);

struct guest_wait {
	struct list link; /* b->waiting */
	struct tenant *t;
	int fd;
	struct wire_hello hello;
	uint64_t deadline_ns;
};

struct broker {
	struct conf *conf;
	char *libexec; /* where weft-worker and weft-door are */
	int epoll;
	bool stop;
	int exit_status;
	struct list deferred;

	struct list tenants;
	struct list workers;
	struct list waiting; /* guests for whom no worker is ready yet */
	unsigned n_waiting;
	uint64_t spawn_at_ns; /* after failures: not before */
	unsigned failures;    /* workers that never became ready, in a row */
	bool was_ready;       /* a worker has been ready once */
	int ready_fd;         /* told when that happens; -1: none */
	void (*on_ready)(void);

	uint64_t next_session;
	struct session_record history[HISTORY_MAX];
	unsigned n_history; /* ever; the latest ones are kept */

	char device_name[96];
	uint64_t device_total, granted; /* to workers, all together */
	/* What is set aside for workers that wait for guests: so many are kept, so many are
	 * there, and one takes so much. */
	unsigned keep_ready, n_ready;
	uint64_t overhead;
	unsigned n_sessions, n_shares, shares_max;
	uint64_t shared; /* of all tenants */
	uint8_t device_uuid[16];

	struct source control, signals, lifeline;
	struct list clients;
	char *control_path;
};

#endif
