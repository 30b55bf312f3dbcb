/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weftd: who may have how much, and which worker serves whom. One thread and one epoll,
 * but for what loop/aside.c does; no guest bytes, no device.
 *
 *	loop/loop.c, loop/source.c  events		pool.c	   workers and sessions
 *	outbox.c   what workers are told
 *	spawn.c	   starting programs		tenant.c   sockets and doors
 *	account.c  device memory		window.c   a VM's shared memory
 *	memory/away.c	   memory that has moved out	hold.c	   who waits for memory
 *	memory/snapshot.c  what policies are told	reclaim.c  who gives way
 *	memory/stuck.c	   whose work does not end	held.c	   what processes have
 *	worker_msg.c  what workers say		memory/prealloc.c	   host memory kept ready
 *	guests.c   who waits for a worker	door.c	   doors
 *	control.c  the control socket		request.c  what can be asked there
 *	refused.c  what guests were refused		ipc.c	   what sessions share
 *	window_note.c  what the next daemon is to know of a window
 *	output.c   what children print		child/users.c	   a user for each child
 *	child/cgroup.c   a cgroup for each tenant	loop/aside.c	   what the loop does not wait for
 */
#ifndef WEFT_BROKER_BROKER_H
#define WEFT_BROKER_BROKER_H

#include <stdbool.h>
#include <sys/types.h>

#include <json-c/json.h>

#include "base/list.h"
#include "base/log.h"
#include "base/sockfile.h"
#include "util/conf.h"
#include "ipc/msg.h"
#include "util/range.h"
#include "policies/placement.h"
#include "refusal.h"
#include "util/sandbox.h"

struct broker;
struct waiter;
struct worker_page;
struct tenant;

/* ---- loop/source.c, loop/loop.c ---- */

/* Something the loop waits for; embedded in what it belongs to. */
struct source {
	void (*fn)(struct source *src, uint32_t events);
	int fd; /* -1: not watched */
};

int source_add(struct broker *b, struct source *src, int fd, uint32_t events,
	       void (*fn)(struct source *, uint32_t));
/* Other events from now on. Returns 0 or -errno. */
int source_change(struct broker *b, struct source *src, uint32_t events);
/* Stops watching; returns the descriptor, the caller's from now on, or -1. Safe within
 * any source's function, as is source_remove(), which closes it. */
int source_release(struct broker *b, struct source *src);
void source_remove(struct broker *b, struct source *src);

/* Runs fn(arg) when the events in hand have been dealt with: for freeing. */
int loop_defer(struct broker *b, void (*fn)(void *), void *arg);

/* Runs what was deferred. */
void loop_flush(struct broker *b);

/* Runs until b->stop. Returns 0 or -errno. */
int loop_run(struct broker *b);

/* ---- output.c: what children print ---- */

#define OUTPUT_LINE 512 /* bytes of it; what is longer goes on in the next */

/* What those who share it may write; zero-initialise. */
struct output_budget {
	uint64_t bytes, at_ns;
};

struct output {
	struct list link; /* b->loud: not read for now */
	struct broker *b;
	struct source src;
	struct output_budget *budget; /* its tenant's, or all others' */
	const char *program;
	pid_t pid;
	unsigned n;
	char line[OUTPUT_LINE]; /* the first n bytes of it */
};

/* Makes a pipe whose lines are logged as the program's; *ret_fd is the end to write to.
 * Returns 0 or -errno. */
int output_open(struct broker *b, struct output *o, const char *program,
		struct output_budget *budget, int *ret_fd);
/* Logs the last of it. */
void output_close(struct output *o);
/* Bytes of a child: lines end, what cannot be printed becomes '?'. */
void output_take(struct output *o, const char *bytes, size_t n);
/* Reads on where it was too much. Returns when to be called again, or UINT64_MAX. */
uint64_t output_tick(struct broker *b, uint64_t now_ns);

/* ---- child/users.c: a user for each child ---- */

struct users {
	uint32_t first, n; /* n 0: all run as one */
	uint32_t next;
	gid_t gid; /* of all of them */
	uint64_t *taken;
};

/* Root's only; group_of as in sandbox_ids(). Returns 0 or -errno. */
int users_open(struct users *u, uint32_t first, uint32_t n, const char *group_of);
void users_fini(struct users *u);
/* Returns 0 if there is none. */
uint32_t users_take(struct users *u);
void users_give_back(struct users *u, uint32_t uid);
/* Whether a name space, whose map that is, has all of them. */
bool users_known(const char *uid_map, uint32_t first, uint32_t n);

/* ---- child/cgroup.c: a cgroup for each tenant ---- */

/* Opens the subtree that is ours, if there is one: b->cgroup. Says so in the log. Moves
 * this process into a leaf of it. */
void cgroups_open(struct broker *b);
/* Makes a tenant's, with its limits: t->cgroup. What fails is logged. */
void cgroup_new(struct tenant *t);
/* Its limits have changed, or the device is known. */
void cgroup_limits(const struct tenant *t);
/* Moves a process into it, in a moment. */
void cgroup_enter(const struct tenant *t, pid_t pid);
/* Removes it; all processes have ended. */
void cgroup_end(struct tenant *t);

/* ---- spawn.c ---- */

struct child {
	pid_t pid; /* 0: none */
	struct source exit;
	struct output out;
	uint32_t uid; /* 0: the same as others */
	char ids[24]; /* "UID:GID" */
};

/*
 * Starts a program that lies beside weftd (or in libexec), with fds[i] as descriptor
 * 3 + i, a user, a session and an output of its own. exit_fn runs when it has ended; then
 * call child_reap(). Returns 0 or -errno.
 */
int child_spawn(struct broker *b, struct child *c, char *const argv[], const int *fds,
		unsigned n_fds, void (*exit_fn)(struct source *, uint32_t));
/* Collects an ended child, and ends what it left behind. Returns the wait status as of
 * waitpid(). */
int child_reap(struct broker *b, struct child *c);
void child_kill(struct child *c);

/* ---- pool.c: workers and sessions ---- */

enum worker_state {
	WORKER_STARTING, /* opens its device */
	WORKER_READY,    /* waits for a guest */
	WORKER_SESSION,  /* serves one */
};

/* What a worker was asked to move. */
struct worker_move {
	uint32_t out_id, in_id; /* 0: nothing */
	uint64_t room;          /* of host memory, offered for what goes out */
	uint64_t left, gave;    /* of what goes out: has left; or was freed, too */
	uint64_t returning; /* granted for what is away, until it says what came back */
	uint64_t surplus;   /* likewise, but that was freed since */
	bool needs;         /* it waits for what is swapped */
	bool homes;         /* it waits for what it is to share */
	unsigned n_busy;    /* times in a row that it did not get quiet */
	uint64_t busy_since_ns; /* of these the first; 0: none */
	bool stuck;             /* nobody waits for it; memory/stuck.c */
	bool at_gate;           /* it will say whether it gets quiet */
	/* Until then it is not asked for more, has nothing more to give, gets nothing
	 * back. */
	uint64_t busy_ns, empty_ns, full_ns;
	uint64_t gave_ns;    /* when something was moved out last */
	uint64_t by_hand_ns; /* when an operator moved it out: not back before it works */
	uint64_t pool;       /* host memory it was told to keep ready */
};

/* What a worker or a door is to be told when it has read what came before; outbox.c. */
struct outbox {
	struct broker *b;
	struct source *src;
	struct tenant *t; /* whose it is; NULL: nobody's yet */
	struct list letters;
	unsigned n;
	uint64_t read_ns; /* when one left last, or the first came */
};

/* Looks in a row, a second apart (held.c). */
#define HELD_TIMES 5

struct worker {
	struct list link; /* b->workers */
	struct broker *b;
	enum worker_state state;
	struct child child;
	struct source ctl;
	struct outbox out;
	struct worker_page *count; /* shared pages; what a worker wrote is not trusted */
	uint64_t started_ns;
	/* Device memory: of the device's own for a context; all that was granted, that
	 * included, what is ahead of use too; the most that ever was. */
	uint64_t overhead, charged, granted_peak;
	uint64_t away;        /* charged once, now in host memory */
	uint64_t away_shared; /* of that, what others have, too: it stays there */
	uint64_t freed_early; /* told of before what moves out had arrived there */
	bool was_away;        /* once */
	/* In use when policies were told last, and when that was more than before. */
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

/* What has met guests, for the log and for terminals. */
static inline void clean_text(char *text)
{
	for (char *p = text; *p; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
}

/* A tenant's lines in the log about sessions that come and go, a second. */
#define SESSION_LINES 10

/* ---- outbox.c ---- */

void outbox_init(struct outbox *o, struct broker *b, struct source *src);
void outbox_drop(struct outbox *o);
/*
 * Tells it, now or when it has read what came before; descriptors (-1: none) stay the
 * caller's. Returns 0, -EMFILE (too many descriptors wait) or -errno: it has gone or is
 * broken.
 */
int outbox_tell(struct outbox *o, const struct msg *m, int fd0, int fd1);
/* It has read all that it was told, as far as is known: for what can be left out. */
bool outbox_is_read(const struct outbox *o);
/* Its socket can take more. Returns 0 or -errno: it has gone. */
int outbox_write(struct outbox *o);

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
int refused_read(const struct worker_page *c, struct refused_list *ret);
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
void workers_fill(struct broker *b);
/* A worker that waits for a guest, or NULL. */
struct worker *workers_ready(struct broker *b);
/* Gives it to the guest with that number of the tenant's door. Returns 0, -EAGAIN (there
 * will be memory for it in a moment) or -errno (there is none). */
int worker_attach(struct worker *w, struct tenant *t, const struct wire_hello *hello,
		  uint32_t id);
/* A worker that was asked with this number whether its program is there has answered. */
void workers_here(struct worker *w, uint32_t id);
/* Ends a session's worker now. */
void worker_kill(struct worker *w);
void workers_fini(struct broker *b);
/* Returns when to be called again, or UINT64_MAX. */
uint64_t workers_tick(struct broker *b, uint64_t now_ns);

/* ---- guests.c: who waits for a worker ---- */

/* A guest has said hello; id is its door's number for it. */
void guests_come(struct tenant *t, const struct wire_hello *hello, uint32_t id);
/* It has gone, if it is still waiting. */
void guests_gone(struct tenant *t, uint32_t id);
/* Forgets all of a tenant's: the door has gone, and they with it. */
void guests_drop(struct tenant *t);
/* Refuses all of a tenant's. */
void guests_refuse(struct tenant *t, int error);
/* Brings guests that wait and workers that are ready together. */
void guests_match(struct broker *b);
/* So many could be served if there were workers. */
unsigned guests_lacking(const struct broker *b);
/* Refuses who waited too long. Returns when to be called again, or UINT64_MAX. */
uint64_t guests_tick(struct broker *b, uint64_t now_ns);

/* ---- door.c ---- */

int door_start(struct tenant *t);
/* The door has said something. Returns 0 or -EPROTO. */
int door_said(struct tenant *t, struct msg *m);
/* The door is to tell a guest why it is refused (-errno), and to close its socket. */
void door_refuse(struct tenant *t, uint32_t id, int error);
/* Refuses who waits; the door ends for good when it has told them. */
void door_close(struct tenant *t);
/* Tells a worker of a guest, and the door to pass its socket there. Returns 0 or -errno:
 * the worker could not be told, and the guest still waits. */
int door_pass(struct tenant *t, uint32_t id, struct worker *w, const struct msg *m,
	      int window_fd);
/* Starts doors that are due again. Returns when to be called again, or UINT64_MAX. */
uint64_t door_tick(struct broker *b, uint64_t now_ns);

/* ---- worker_msg.c ---- */

/* A worker that serves a session has said something; fd (may be -1) is taken over if it
 * is set to -1. A negative return ends the worker. */
int worker_said(struct worker *w, const struct msg *m, int *fd);

/* ---- account.c ---- */

/* A worker is ready; its context takes so much. */
void account_ready(struct worker *w, uint64_t overhead);
/* It is to serve a tenant, which pays for that. Returns 0, or as account_may(). */
int account_attach(struct worker *w, struct tenant *t);
/* It is on its way out. Natively a program's memory is free when the program has gone; a
 * worker takes a moment longer, for which others wait that need the memory. */
void account_ending(struct worker *w, uint64_t now_ns);
/* Before it is attached: its context is dropped, for the session only monitors. */
void account_monitor(struct worker *w);
/* It is in state WORKER_SESSION now. */
void account_begin(struct worker *w);
/* It has ended: everything comes back. */
void account_end(struct worker *w);

/* A session wants more; part: of which some may be in host memory. Returns 0, -EDQUOT
 * (tenant's limit), -ENOMEM (the device is full, or no larger) or -EAGAIN (it is full,
 * but something could move out). */
int account_charge(struct worker *w, uint64_t bytes, bool part);
/* Grants at most so much `here`, on the device; the rest is away from the beginning.
 * Returns 0, -EDQUOT or -ENOMEM (there is no host memory for it). */
int account_charge_part(struct worker *w, uint64_t bytes, uint64_t here,
			uint64_t *ret_away);
/* That it may have it as far as its tenant's limit goes: 0, -EDQUOT, -ENOMEM if it has
 * no limit and would have more than the device, or -EAGAIN if that is not known before a
 * move has ended. */
int account_may(struct worker *w, uint64_t bytes);
/* Of the device: what nobody has. Takes back all that is granted ahead of use. */
uint64_t account_gather(struct broker *b);

/* What is in use now, exactly. */
uint64_t account_worker(const struct worker *w);
uint64_t account_tenant(const struct tenant *t);
uint64_t account_device(const struct broker *b);
/* The most that was; while several sessions run, the most that was seen. */
uint64_t account_peak(struct tenant *t);

/* Changes limits. What is above them stays, but nothing is added. */
void account_set(struct tenant *t, const struct conf_memory *m);
/* What its programs are told. Where others are what limits it, that is less by up to a
 * 64th of the device. */
void account_left(struct tenant *t, uint64_t *ret_free, uint64_t *ret_total);
/* Of the device: what nobody has, what is granted ahead of use included. */
uint64_t account_free(const struct broker *b);
/* How large the device is, as a worker says that has opened it. */
void account_open(struct broker *b, uint64_t total);
/* For workers that wait for guests or are about to, kept and missing. */
uint64_t account_set_aside(const struct broker *b, uint64_t *ret_missing);

/* ---- for account.c and memory/away.c only ---- */

void account_write_begin(struct broker *b);
void account_write_end(struct broker *b);
void account_grant(struct worker *w, uint64_t bytes);
void account_ungrant(struct worker *w, uint64_t bytes);
void account_take_back(struct worker *w);

/* ---- memory/away.c: memory that has moved out ---- */

/* What more of a tenant's memory may be away. */
uint64_t away_room(const struct tenant *t);
/* For account.c: so much is charged and away. */
void away_born(struct worker *w, uint64_t bytes);
/* So much has moved out, as its worker says; returns how much of it is believed. */
uint64_t away_left(struct worker *w, uint64_t bytes);
/* And nothing more will. */
void away_left_all(struct worker *w);
/* Was freed while away. */
void away_freed(struct worker *w, uint64_t bytes);
/* Grants memory for what is away. Returns 0 or -EAGAIN (the device is full). */
int away_return(struct worker *w, uint64_t bytes);
/* So much of that came back; the rest is given up. */
void away_returned(struct worker *w, uint64_t bytes);
/* The worker has ended. */
void away_drop(struct worker *w);
/* What of a worker's memory could come back and is not on its way yet. */
uint64_t away_waiting(const struct worker *w);
/* As account_share(), of memory that is away. */
uint64_t away_share(struct worker *w, uint64_t bytes);
void away_share_end(struct tenant *t, uint64_t bytes);

/* ---- memory/snapshot.c: what policies are told ---- */

struct snapshot {
	struct placement_device device;
	struct placement_tenant *tenants; /* by tenant.index */
	uint32_t n;
};

/* As a time: nobody is busy, whatever happened last. */
#define SNAPSHOT_QUIET UINT64_MAX

/* As all is now; good until the next call. Returns 0 or -ENOMEM. */
int snapshot_read(struct broker *b, uint64_t now_ns, struct snapshot *ret);
/* Works out everybody's share, for who asks of many; good as long as the numbers are. */
void snapshot_share(struct broker *b, struct snapshot *now);
/* Of a tenant, sessions that could give way or (comes) get memory back; NULL: none. */
struct worker *snapshot_session(struct tenant *t, bool comes, uint64_t now_ns,
				struct placement_session *ret_session);
/* What could leave a worker's device memory now, as far as it is believed. */
uint64_t snapshot_movable(const struct worker *w, uint64_t now_ns);
/* Until then what could move may be more than workers have written so far; 0: it is not.
 */
uint64_t snapshot_late_until(const struct broker *b);
/* Of what is free, what does not come back although it fits: a moment ago it did not. */
uint64_t snapshot_kept(const struct broker *b, const struct snapshot *now,
		       uint64_t now_ns);
/* What an allocation of at most that size would get if others gave way for it, and the
 * rest of it were in host memory. */
uint64_t snapshot_within_reach(struct tenant *t, uint64_t at_most);

/* ---- hold.c, reclaim.c: who waits for memory, and who gives way ---- */

/* Before anybody of the tenant waits. */
void waiters_init(struct tenant *t);

/* A session wants more: answers now, or when others have given way. part: what cannot be
 * had on the device may be in host memory. -errno: it cannot be answered, or asks for too
 * much at a time. */
int waiters_charge(struct worker *w, uint32_t id, uint64_t bytes, bool part,
		   uint64_t now_ns);
/* A session wants back what is swapped. */
int waiters_need(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns);
/* It wants back, all together, what it is to share. */
int waiters_home(struct worker *w, uint32_t id, uint64_t bytes, uint64_t now_ns);
/* A worker says what has left, and then that nothing more will. 0 or -EPROTO: nobody
 * asked. */
int reclaim_left(struct worker *w, const struct msg *m, uint64_t now_ns);
int reclaim_ended(struct worker *w, const struct msg *m, uint64_t now_ns);
/* It could move now, or its work still has not ended. */
int reclaim_quiet(struct worker *w, int result, uint64_t now_ns);
int reclaim_returned(struct worker *w, const struct msg *m, uint64_t now_ns);
/* Moves so much of a tenant's memory out; done(arg, moved) says when, within a call of
 * reclaim_tick(). 0 or -ENOMEM. */
int waiters_operator(struct tenant *t, uint64_t bytes, uint64_t now_ns,
		     void (*done)(void *arg, uint64_t bytes), void *arg);
/* Nobody waits for that any more. */
void waiters_forget(struct broker *b, const void *arg);
/* The worker has ended; the tenant is removed. */
void reclaim_end(struct worker *w);
/* It is on its way out: what it was asked to move is not waited for. */
void reclaim_ending(struct worker *w, uint64_t now_ns);
void waiters_drop_tenant(struct tenant *t);
/* Answers whom it can, asks who is to give way. Returns when to be called again, or
 * UINT64_MAX: when something has changed. */
uint64_t reclaim_tick(struct broker *b, uint64_t now_ns);

/* ---- memory/stuck.c: whose work does not end ---- */

/* Asked to give way, the worker did not get quiet. */
void stuck_busy(struct worker *w, uint64_t now_ns);
/* The worker has given way, or got quiet, or is about to end. */
void stuck_end(struct worker *w);
/* Ends one that keeps others below memory.min for too long. */
void stuck_tick(struct broker *b, uint64_t now_ns);

/* ---- held.c: what worker processes really have ---- */

/* Its process has so much of the device. */
void held_check(struct worker *w, uint64_t has);
/* A worker says what all have; fd stays the caller's. Returns 0 or -EPROTO: nobody
 * asked. */
int held_said(struct worker *w, const struct msg *m, int fd);
/* Returns when to be called again, or UINT64_MAX: when a session has begun. */
uint64_t held_tick(struct broker *b, uint64_t now_ns);

/* ---- memory/prealloc.c ---- */

/* Tells workers how much host memory to keep ready. Returns when to be called again. */
uint64_t prealloc_tick(struct broker *b, uint64_t now_ns);

/* Who is granted memory, or moves it, often goes on doing so: no host memory is made
 * ahead for so long after that. */
#define PREALLOC_PAUSE_NS (25 * NSEC_PER_MSEC)
/* No session makes any ahead until then. */
void prealloc_pause(struct broker *b, uint64_t until_ns);
/* Whoever was granted memory maps it now: until then no host memory is made for what
 * leaves, either. */
void prealloc_mapping(struct broker *b, uint64_t until_ns);
/* True if the device is so full that somebody may have to give way. */
bool prealloc_pressed(struct broker *b);

/* ---- memory/account_host.c ---- */

/* A session wants host memory, up to host.max; *ret_offset is its place in the VM's
 * window, or 0. Returns 0, -EDQUOT or -ENOSPC (the window is full). */
int account_host_charge(struct worker *w, uint64_t bytes, uint64_t *ret_offset);
void account_host_uncharge(struct worker *w, uint64_t offset, uint64_t bytes);
/*
 * Worker memory: what guests make their workers hold. Granted some MiB ahead of use, up
 * to worker.memory.max; what is ahead is taken back before anybody is refused. Returns 0
 * or -EDQUOT.
 */
int account_wmem_charge(struct worker *w, uint64_t bytes);
/* A lane more is about to be opened. Likewise. */
int account_wmem_lane(struct worker *w);
/* Lanes, those on their way to the worker included; as workers say. */
unsigned account_lanes(const struct worker *w);
unsigned account_lanes_tenant(const struct tenant *t);
/* In use now, as workers say. */
uint64_t account_wmem(const struct worker *w);
uint64_t account_wmem_tenant(const struct tenant *t);

/* All that the worker has, of both kinds. */
void account_host_drop(struct worker *w);

/*
 * Memory of a share, which the worker has let go of, is the tenant's own from now on.
 * Returns how much that is; account_share_end() when it is gone.
 */
uint64_t account_share(struct worker *w, uint64_t bytes);
void account_share_end(struct tenant *t, uint64_t bytes);

/* ---- ipc.c: what sessions of a tenant share ---- */

struct share_part;

/* Takes over fd (may be -1) on success. The first part gives the name, others take it.
 * Returns 0, -EINVAL, -EMFILE (too many), -ENOMEM or -EIO. */
int share_export(struct worker *w, const struct share_part *x, int fd, uint8_t *name);
/* x->kind and x->part say what; x->fd stays ours. -EDEADLK: the worker's own; -EINVAL:
 * none of its tenant's, or not all of it is there yet. */
int share_open(struct worker *w, const uint8_t *name, struct share_part *x);
/* Ends one share_open() of a first part. */
void share_close(struct worker *w, const uint8_t *name);
/* The worker has freed what it exported. Its charge for it ends here, if all parts were
 * there. */
void share_drop(struct worker *w, const uint8_t *name);
/* The worker has ended; before account_end(). */
void share_end(struct worker *w);

/* ---- window.c ---- */

struct window {
	int fd; /* -1: none */
	char *path, *note;
	bool created; /* by weftd, this one or one before it */
	uint32_t key;
	uint64_t size, slice_size;
	unsigned n_slices;
	uint64_t taken;        /* bit set */
	uint64_t host_first;   /* from here to the end: host memory */
	struct range_set host; /* given out; data: the worker */
	struct log_limit log_limit;
};

/* What a daemon leaves for the next one; window_note.c. */
struct window_note {
	uint64_t dev, ino; /* of the file */
	uint32_t key;
	bool created;
};

/* Returns 0, -ENOENT, -EBADMSG or -errno. */
int window_note_read(const char *path, struct window_note *ret);
int window_note_write(const char *path, const struct window_note *note);

/* Who, beside root and the daemon's user, an existing window may belong to, and which
 * group may be able to write it. */
struct window_owner {
	uid_t uid;
	gid_t gid;
};

/*
 * Opens a window's file or makes it, at least size bytes long; window_file.c. One that is
 * there is taken only if it is a window, empty, or the one that a note (may be NULL)
 * tells of, and nobody else could have made or may write it. Returns a descriptor or
 * -errno, and why in a sentence where there is one.
 */
int window_file_open(const char *path, uint64_t size, const struct window_owner *who,
		     const struct window_note *known, bool *ret_created,
		     const char **ret_why);
/* Opens the file likewise, and writes its head; with the key that it had, if the note at
 * that path says that it is the same file. Returns 0 or -errno. */
int window_open(struct window *w, const char *path, uint64_t size, const char *note,
		const struct window_owner *who, const char **ret_why);
/* Whether a part of it is for host memory. */
bool window_has_host(const struct window *w);
/* A free slice. Returns its number or -ENOSPC. */
int window_take(struct window *w, struct msg_window *ret_slice);
/*
 * What of a tenant's window a guest gets: a slice if it has mapped that window and one is
 * free, else no slice and why. If it has mapped the window the key is set, slice or not:
 * host memory can be shared. Returns the slice's number or -ENOSPC.
 */
int window_offered(struct tenant *t, const struct wire_hello *hello,
		   struct msg_window *ret_slice);
void window_give_back(struct window *w, int slice);
/* A place for host memory of an owner. Returns 0, -ENOSPC or -ENOMEM. */
int window_host_take(struct window *w, uint64_t bytes, const void *owner,
		     uint64_t *ret_offset);
/* Ends the owner's place that begins there. Returns its size, 0 if there is none. */
uint64_t window_host_give_back(struct window *w, uint64_t offset, const void *owner);
/* Ends all places of an owner. */
void window_host_drop(struct window *w, const void *owner);
/* Removes the note, and the file if it was made here: no VM is to have it any more. */
void window_remove(struct window *w);
/* The file stays: a VM has it mapped and finds it again in the next daemon. */
void window_fini(struct window *w);

/* ---- tenant.c ---- */

struct tenant {
	struct list link; /* b->tenants */
	struct broker *b;
	char name[CONF_NAME_MAX + 1];
	char *socket;
	struct sockfile sockfile; /* of socket */
	int listen;               /* stays open while doors come and go */
	int cgroup;               /* a directory; -1: none */
	struct child door;
	struct source door_ctl;
	struct outbox door_out;
	uint64_t door_at_ns; /* when to start the next door; 0: one is there */
	struct window window;
	struct conf_memory memory;
	uint64_t granted, away, returning, peak;
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
	struct {
		/* Times: refused for the limit, or for want of memory; gave way although
		 * below memory.low, because above memory.high, at all; was too busy to.
		 */
		uint64_t max, oom, low, high, reclaim, busy;
	} events;
	uint32_t index; /* in struct snapshot */
	bool removed;
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
	struct list shares;      /* ipc.c */
	unsigned n_shares;
	/* Of what is granted, and of what is away: of shares whose maker has gone. */
	uint64_t shared, shared_away;
	unsigned sessions_max, n_sessions, n_waiting;
	unsigned lanes_max;
	unsigned n_ending;     /* of n_sessions */
	unsigned n_letter_fds; /* outbox.c */
	struct log_limit log_limit, session_limit;
	struct output_budget output;
};

/* Makes the tenant, its socket and its window. Returns 0, -EEXIST or -errno; b->why then
 * says why. */
int tenant_new(struct broker *b, const struct conf_tenant *ct, struct tenant **ret_t);
/* Ends its sessions, too, without waiting for that; done(arg), if any, when all has
 * ended. */
void tenant_remove(struct tenant *t, void (*done)(void *arg), void *arg);
/* Its last session or its door has ended: frees it if it was removed. */
void tenant_try_release(struct tenant *t);
/* Nobody waits any more for the end of a tenant. */
void tenants_forget(struct broker *b, const void *arg);
/* After the last session. */
void tenants_fini(struct broker *b);
/* Listens on a Unix socket; a stale one is replaced, another kind of file is not. Returns
 * the descriptor or -errno; see sockfile.h for what errors mean. */
int listen_unix(struct broker *b, const char *path, mode_t mode,
		struct sockfile *ret_file);
struct tenant *tenant_find(struct broker *b, const char *name);

/* ---- limits.c, reload.c, main.c ---- */

/* Changes the limits that may change while it runs, and logs which, and by whom. */
void limits_change(struct tenant *t, const struct conf_tenant *to, const char *by);
/* Reads the configuration again; what is wrong with it is logged. */
void reload(struct broker *b);
/* Logs what conf_check() says. Returns how much is wrong. */
unsigned conf_report(const struct conf *c, const char *file);

/* ---- control.c, request.c ---- */

int control_open(struct broker *b, const char *path);
void control_fini(struct broker *b);
/* Values of a tenant as they are now, and changing some of them; request_keys.c. */
struct json_object *request_tenant_get(struct broker *b, struct json_object *q,
				       void *client);
struct json_object *request_tenant_set(struct broker *b, struct json_object *q,
				       void *client);
/* {"ok": false, "error": a sentence, "errno": of error, a negative one}. */
__attribute__((format(printf, 2, 3))) struct json_object *reply_error(int error,
								      const char *fmt,
								      ...);
/* The same for a name (may be NULL) that is no tenant's. */
struct json_object *reply_no_tenant(struct broker *b, const char *name);
/* What is wrong with the configuration as it is now, or NULL. */
struct json_object *reply_contradiction(struct broker *b);
/* Answers one request; the caller owns the answer. NULL: control_answer() will come. */
struct json_object *request_handle(struct broker *b, struct json_object *request,
				   void *client);
/* Says who asks: "uid 0, pid 17". Good until the next call. */
const char *control_who(const void *client);
/* Takes over the answer. */
void control_answer(void *client, struct json_object *answer);

struct broker {
	struct conf *conf;
	char *libexec; /* where weft-worker and weft-door are */
	int epoll;
	bool stop;
	int exit_status;
	struct list deferred;

	struct list tenants;
	struct list workers;
	struct list leaving; /* tenants that have been removed, until all has ended */
	struct list queue;   /* tenants with guests that wait; guests.c */
	unsigned n_idle, n_starting; /* workers without a session; of these, not ready */
	uint64_t spawn_at_ns;        /* after failures: not before */
	uint64_t taken_ns;           /* when a session got a worker last */
	uint64_t short_ns;   /* when the pool became short of workers; 0: it is not */
	uint64_t charged_ns; /* when one asked for memory last */
	uint32_t next_asked;
	unsigned n_ending; /* workers; what they have will be free in a moment */
	unsigned failures; /* workers that never became ready, in a row */
	bool was_ready;    /* a worker has been ready once */
	int ready_fd;      /* told when that happens; -1: none */
	void (*on_ready)(struct broker *b);
	const char *conf_name; /* the file's; NULL: none */
	/* Reads file and command line; says itself what is wrong. */
	int (*read_conf)(struct conf *ret);

	uint64_t next_session;
	struct session_record history[HISTORY_MAX];
	unsigned n_history; /* ever; the latest ones are kept */

	char device_name[96];
	uint64_t device_total, granted; /* to workers, all together */
	uint64_t away, returning;       /* likewise */
	uint64_t host_max, host;        /* of all tenants: pinned, and of workers */
	uint64_t swap; /* host memory for what is away; 0: nothing moves */
	uint64_t chunk;
	uint64_t kill_ns; /* reclaim.kill; 0: never */
	unsigned n_stuck; /* workers */
	/* Kept free while tenants want more than there is, which was so last at
	 * scarce_ns (0: never). */
	uint64_t reserve, scarce_ns;
	const struct placement *placement;
	struct placement_tenant *seen; /* memory/snapshot.c */
	uint64_t *shares;              /* as many */
	uint32_t seen_room;
	struct list waiters;       /* who waits and is looked at, in order; hold.c */
	unsigned n_passes;         /* over them; each has a number */
	struct worker *moving;     /* one at a time, so that the device does not idle */
	struct waiter *moving_for; /* who waits for that, if still there */
	uint64_t moving_since_ns, reclaim_at_ns, reclaim_pause_ns;
	uint64_t
		background_ns; /* when what nobody waits for may move; 0: nothing is to */
	uint32_t next_move;
	bool reclaim_due;
	uint64_t prealloc_at_ns;
	bool prealloc_due, prealloc_again;
	bool pressed;        /* the device is nearly full */
	uint64_t room_at_ns; /* a worker to come waits for room at most until then */
	/* What is set aside for workers that wait for guests: so many are kept, so many
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
	struct list clients;
	char why[320]; /* tenant_new() failed */
	char *control_path;
	struct sockfile control_file;
};

#endif
