/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: a few are kept ready, with their device open. A guest gets one and keeps it;
 * it is never used twice. Whatever a worker's end may look like (it exits, crashes, is
 * killed, closes its socket), its session ends here in worker_ended(), once.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/tpcs.h"
#include "broker/child/cgroup.h"
#include "broker/child/child.h"
#include "broker/keep/books.h"
#include "broker/operator/events.h"
#include "broker/operator/gpu_time.h"
#include "broker/listener.h"
#include "broker/loop/aside.h"
#include "broker/loop/loop.h"
#include "broker/loop/outbox.h"
#include "broker/memory/account_host.h"
#include "broker/memory/ledger.h"
#include "broker/compute/filler.h"
#include "broker/compute/mps.h"
#include "broker/compute/pace.h"
#include "broker/compute/shared.h"
#include "broker/compute/slices.h"
#include "broker/memory/prealloc.h"
#include "broker/memory/reclaim.h"
#include "broker/refused.h"
#include "broker/reply.h"
#include "broker/share.h"
#include "broker/tenant.h"
#include "broker/operator/trace.h"
#include "broker/operator/usage.h"
#include "broker/window.h"
#include "broker/workers.h"
#include "host.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "ipc/trace.h"
#include "util/conf.h"
#include "util/sandbox.h"
#include "wire.h"

/* Workers that start at a time: a driver makes one context after the other, and holds up
 * everybody meanwhile. */
#define STARTING_MAX 8u
/* After a worker that did not start: first pause, doubling up to the last. */
#define BACKOFF_NS        (100 * NSEC_PER_MSEC)
#define BACKOFF_SHIFT_MAX 6
/* Time that others may take to make room for a context. */
#define ROOM_NS NSEC_PER_SEC
/* A worker that is on its way out for so long needs help. */
#define ENDING_NS (5 * NSEC_PER_SEC)
/* Others of class shared have what one leaves running, and that is to stop. */
#define ENDING_SHARED_NS (300 * NSEC_PER_MSEC)
/* A session that has come gets its memory first: until nobody has asked for any, nor has
 * anything moved, for a while; at last so long after the pool became short, or, where
 * there is not enough memory for everybody, after somebody came. */
#define CALM_NS     (200 * NSEC_PER_MSEC)
#define CALM_MAX_NS (2 * NSEC_PER_SEC)

static void on_worker_ctl(struct source *src, uint32_t events);

/* ---- states ---- */

static const char *const state_names[] = {
	[WORKER_STARTING] = "starting",
	[WORKER_READY] = "ready",
	[WORKER_SESSION] = "in a session",
};
static_assert(ARRAY_SIZE(state_names) == WORKER_NUM_STATES, "a name for each");

/* Each state leads to the next one only; from all of them a worker may end. */
static void set_state(struct worker *w, enum worker_state to)
{
	assert(to == w->state + 1);
	log_debug("worker %d: %s, was %s", w->child.pid, state_names[to],
		  state_names[w->state]);
	w->state = to;
}

/* ---- starting ---- */

const char *worker_program(enum worker_kind kind)
{
	return kind == WORKER_GRAPHICS ? "weft-gl" : "weft-worker";
}

enum worker_kind worker_kind_for(const struct tenant *t, const struct wire_hello *hello)
{
	if (hello->offers & WIRE_HELLO_GRAPHICS)
		return WORKER_GRAPHICS;
	return t->compute.shared ? WORKER_SHARED : WORKER_ISOLATED;
}

/* Others than of class isolated come when it is known which device `auto` is: a real one
 * without an MPS server is not to become the software one. */
static char *device_of(const struct worker *w)
{
	if (w->kind == WORKER_ISOLATED)
		return w->b->conf->device;
	return (char *)(w->b->own_memory ? "soft" : "cuda");
}

/* The argument list of a worker; the texts are the caller's to free. */
static unsigned worker_args(const struct worker *w, char **argv, char text[][40])
{
	const struct broker *b = w->b;
	const struct conf *c = b->conf;
	unsigned n = 0;

	argv[n++] = (char *)worker_program(w->kind);
	argv[n++] = (char *)"--device";
	argv[n++] = device_of(w);
	snprintf(text[2], sizeof(text[2]), "%u", c->threads);
	argv[n++] = (char *)"--threads";
	argv[n++] = text[2];
	if (w->kind == WORKER_GRAPHICS) {
		argv[n] = NULL;
		return n;
	}
	snprintf(text[0], sizeof(text[0]), "%u", c->tpcs);
	argv[n++] = (char *)"--tpcs";
	argv[n++] = text[0];
	snprintf(text[1], sizeof(text[1]), "%llu", (unsigned long long)c->memory);
	argv[n++] = (char *)"--memory";
	argv[n++] = text[1];
	for (size_t i = 0; i < sizeof(b->device_uuid); i++)
		snprintf(text[3] + 2 * i, 3, "%02x", b->device_uuid[i]);
	argv[n++] = (char *)"--uuid";
	argv[n++] = text[3];
	if (tpcs_unknown(b) && w->kind != WORKER_SHARED)
		argv[n++] = (char *)"--find-tpcs";
	if (w->kind == WORKER_SHARED)
		argv[n++] = (char *)"--shared";
	if (w->kind == WORKER_SHARED && c->mps) {
		argv[n++] = (char *)"--mps";
		argv[n++] = c->mps;
	}
	if (b->runlist_fd >= 0)
		argv[n++] = (char *)"--runlist";
	if (c->swap) {
		argv[n++] = (char *)"--placement";
		argv[n++] = c->placement;
		snprintf(text[4], sizeof(text[4]), "%llu", (unsigned long long)c->piece);
		argv[n++] = (char *)"--piece";
		argv[n++] = text[4];
		if (b->time->by_memory)
			argv[n++] = (char *)"--turns";
		if (b->time->by_memory && c->extents) {
			argv[n++] = (char *)"--extents";
			argv[n++] = c->extents;
		}
	}
	argv[n] = NULL;
	return n;
}

static int map_page(struct worker *w, int fd)
{
	struct stat st;
	char *p;

	/* A worker that an older weftd has started has no room for traces. */
	if (fstat(fd, &st) < 0)
		return -errno;
	w->page_size = (uint64_t)st.st_size < TRACE_FILE_SIZE ? WORKER_PAGE_SIZE
							      : TRACE_FILE_SIZE;
	p = mmap(NULL, w->page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	w->count = (void *)p;
	if (w->page_size == TRACE_FILE_SIZE)
		w->trace = (void *)(p + WORKER_PAGE_SIZE);
	return 0;
}

static void worker_free(void *arg)
{
	struct worker *w = arg;

	if (w->count)
		munmap(w->count, w->page_size);
	closep(&w->page_fd);
	free(w);
}

static int worker_spawn(struct worker *w)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int fds[3], pair[2], r;
	char text[5][40], *argv[26];

	w->page_fd = fd_memfd("weft-page", TRACE_FILE_SIZE);
	r = w->page_fd < 0 ? w->page_fd : map_page(w, w->page_fd);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	/* A worker that does not read must not hold up weftd. */
	r = fd_set_nonblock(ours, 1);
	if (r < 0)
		return r;
	worker_args(w, argv, text);
	fds[0] = theirs;
	fds[1] = w->page_fd;
	r = source_add(w->b->loop, &w->ctl, ours, EPOLLIN, on_worker_ctl);
	if (r < 0)
		return r;
	fd_steal(&ours);
	fds[2] = w->b->runlist_fd;
	r = child_spawn(w->b, &w->child, argv, fds, fds[2] < 0 ? 2 : 3, worker_exited);
	if (r < 0)
		source_remove(w->b->loop, &w->ctl);
	return r;
}

static struct worker *worker_new(struct broker *b)
{
	struct worker *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->b = b;
	w->ctl.fd = w->child.exit.fd = w->child.out.src.fd = w->page_fd = -1;
	w->mps.fd = -1;
	w->slice = -1;
	list_init(&w->link);
	list_init(&w->tenant_link);
	outbox_init(&w->out, w->b->loop, &w->ctl);
	w->started_ns = clock_now_ns();
	return w;
}

int worker_adopt(struct broker *b, const struct worker_fds *fds, struct worker **ret_w)
{
	struct worker *w = worker_new(b);
	int r;

	if (!w)
		return -ENOMEM;
	r = map_page(w, fds->page);
	if (r == 0)
		trace_session_kept(w);
	if (r == 0)
		r = source_add(b->loop, &w->ctl, fds->ctl, EPOLLIN, on_worker_ctl);
	if (r < 0) {
		worker_free(w);
		return r;
	}
	w->state = WORKER_SESSION;
	list_append(&b->workers, &w->link);
	*ret_w = w;
	return 0;
}

void worker_forget(struct worker *w)
{
	list_remove(&w->link);
	source_remove(w->b->loop, &w->ctl);
	worker_free(w);
}

static struct pool *pool_of(const struct worker *w)
{
	return &w->b->pools[w->kind];
}

static int worker_start(struct broker *b, enum worker_kind kind)
{
	struct worker *w = worker_new(b);
	int r;

	if (!w)
		return -ENOMEM;
	w->kind = kind;
	w->cannot_move = kind == WORKER_GRAPHICS;
	if (kind == WORKER_SHARED)
		mps_watch(w);
	r = worker_spawn(w);
	if (r < 0) {
		worker_free(w);
		return r;
	}
	list_append(&b->workers, &w->link);
	pool_of(w)->n_idle++;
	pool_of(w)->n_starting++;
	return 0;
}

static void start_failed(struct broker *b, enum worker_kind kind)
{
	struct pool *p = &b->pools[kind];

	p->spawn_at_ns = clock_now_ns() +
			 (BACKOFF_NS << MIN(p->failures, (unsigned)BACKOFF_SHIFT_MAX));
	p->failures++;
	if (b->was_ready || kind == WORKER_GRAPHICS)
		return;
	/* Never yet: the device is not there, and waiting would not help. */
	log_error("no worker could be started");
	b->exit_status = 1;
	b->stop = true;
}

/* The device is full of what could move: a context would not find room yet. */
static bool waits_for_room(struct broker *b)
{
	uint64_t missing, now = clock_now_ns();

	account_set_aside(b, &missing);
	if (!b->swap || !missing)
		b->room_at_ns = 0;
	else if (!b->room_at_ns)
		b->room_at_ns = now + ROOM_NS;
	return now < b->room_at_ns;
}

/*
 * A context that is made holds up the driver for everybody, for 0.2 s on an H200: not
 * while a session that has just come gets the memory that it needs, nor while what one
 * that has just gone had returns to others.
 */
static uint64_t calm_at(struct broker *b)
{
	uint64_t last = MAX(MAX(b->taken_ns, b->charged_ns),
			    MAX(b->moving_since_ns, b->coming_since_ns));
	bool scarce;

	if (!b->short_ns)
		return 0;
	scarce = b->evicted || (b->swap && prealloc_pressed(b));
	return MIN(last + CALM_NS, (scarce ? b->taken_ns : b->short_ns) + CALM_MAX_NS);
}

/* Counts the waiting guests that could be served if there were workers of the kind. */
static unsigned count_lacking(const struct broker *b, enum worker_kind kind)
{
	const struct tenant *t;
	unsigned n = 0;

	list_for_each (t, &b->queue, queue_link) {
		unsigned waiting = 0;

		if (kind == WORKER_GRAPHICS)
			waiting = t->n_waiting_gl;
		else if (t->compute.shared == (kind == WORKER_SHARED))
			waiting = t->n_waiting - t->n_waiting_gl;
		n += MIN(waiting, t->sessions_max - MIN(t->n_sessions, t->sessions_max));
	}
	return n;
}

/* How many are kept ready. */
static unsigned pool_size(const struct broker *b, enum worker_kind kind)
{
	switch (kind) {
	case WORKER_ISOLATED:
		return b->conf->pool;
	case WORKER_SHARED:
		return shared_used(b) ? b->conf->pool : 0;
	default:
		return 0; /* a context of OpenGL is not held for nobody */
	}
}

/* How many there are to be; and, if that would be more later, when. */
static unsigned count_wanted(struct broker *b, enum worker_kind kind, uint64_t now_ns,
			     uint64_t *ret_at_ns)
{
	unsigned n = count_lacking(b, kind);

	*ret_at_ns = 0;
	/* One at a time until the first is ready: it may tell us that there is no
	 * device. */
	if (!b->was_ready)
		return kind == WORKER_ISOLATED;
	if (kind == WORKER_SHARED && !shared_works(b))
		return 0;
	*ret_at_ns = calm_at(b);
	if (*ret_at_ns && (n || now_ns < *ret_at_ns))
		return n; /* who waits is about to come */
	return n + pool_size(b, kind);
}

static void fill(struct broker *b, enum worker_kind kind)
{
	struct pool *p = &b->pools[kind];
	uint64_t calm_ns;
	unsigned wanted = count_wanted(b, kind, clock_now_ns(), &calm_ns);

	if (p->n_idle >= wanted || waits_for_room(b))
		return;
	while (!b->stop && p->n_idle < wanted && p->n_starting < STARTING_MAX &&
	       clock_now_ns() >= p->spawn_at_ns) {
		int r = worker_start(b, kind);

		if (r < 0) {
			log_error("cannot start %s in %s: %s", worker_program(kind),
				  b->libexec, strerror(-r));
			start_failed(b, kind);
			return;
		}
	}
}

void workers_fill(struct broker *b)
{
	bool full = true;

	b->keep_ready = pool_size(b, WORKER_ISOLATED) + pool_size(b, WORKER_SHARED);
	for (unsigned k = 0; k < WORKER_NUM_KINDS; k++)
		full &= b->pools[k].n_idle >= count_lacking(b, k) + pool_size(b, k);
	if (full)
		b->short_ns = 0;
	for (unsigned k = 0; k < WORKER_NUM_KINDS; k++)
		fill(b, k);
}

/* ---- sessions ---- */

static void post_opened(const struct worker *w)
{
	struct json_object *e = event_of_guest(w->tenant, "session.opened", w->session);

	if (!e)
		return;
	reply_str(e, "name", w->hello.name);
	reply_u64(e, "pid", w->hello.pid);
	reply_u64(e, "worker.pid", (uint64_t)w->child.pid);
	event_post(w->b, e);
}

/* enum rewrite_mode: as the tenant has it, or weftd. */
static uint32_t rewrite_of(const struct tenant *t)
{
	enum conf_rewrite r = t->compute.rewrite;

	return (r == CONF_REWRITE_DEFAULT ? t->b->conf->rewrite : r) - CONF_REWRITE_OFF;
}

int worker_attach(struct worker *w, struct tenant *t, const struct wire_hello *hello,
		  uint32_t id)
{
	struct msg m = {
		.type = MSG_ATTACH,
		.attach = {.session = ++w->b->next_session,
			   .number = ++t->next_session,
			   .host_limit = t->host_max,
			   .rewrite = rewrite_of(t),
			   .hello = *hello},
	};
	int r;

	if (getrandom(w->token, sizeof(w->token), 0) != sizeof(w->token))
		return -EIO;
	if (hello->offers & WIRE_HELLO_MONITOR)
		account_monitor(w);
	r = account_attach(w, t);
	if (r < 0) /* not even a context's own memory */
		return r == -EDQUOT ? -ENOMEM : r;
	memcpy(m.attach.token, w->token, sizeof(m.attach.token));
	static_assert(sizeof(m.attach.tenant) == sizeof(t->name), "any name fits");
	filler_give_up(w);
	memcpy(m.attach.tenant, t->name, sizeof(m.attach.tenant));
	w->slice = window_offered(t, hello, &m.attach.window);
	w->in_window = m.attach.window.key != 0;
	if (w->in_window && !window_has_host(&t->window))
		m.attach.host_limit = 0;
	set_state(w, WORKER_SESSION);
	w->child.out.budget = &t->output;
	w->session = w->child.out.session = m.attach.session;
	w->session_of_tenant = m.attach.number;
	w->out.t = t;
	pool_of(w)->n_idle--;
	w->hello = *hello;
	w->n_passed = 1;
	pace_due(w->b);
	w->attached_ns = w->b->taken_ns = clock_now_ns();
	if (!w->b->short_ns)
		w->b->short_ns = w->attached_ns;
	account_begin(w);
	books_begin(w);
	closep(&w->page_fd);
	w->page_fd = -1;
	cgroup_enter(t, w->child.pid);
	if (log_limit_ok(&t->session_limit, SESSION_LINES))
		log_info("tenant %s session %llu: pid %u (%s), worker %d", t->name,
			 (unsigned long long)w->session, hello->pid, hello->name,
			 w->child.pid);
	post_opened(w);
	trace_session_begins(w);
	if ((w->kind != WORKER_GRAPHICS && tpcs_begin(w) < 0) ||
	    listener_pass(t, id, w, &m, w->in_window ? t->window.fd : -1) < 0) {
		child_kill(&w->child);
		listener_refuse(t, id, -EAGAIN);
	}
	return 0;
}

struct worker *workers_ready(struct broker *b, enum worker_kind kind)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		/* Without its end of the pair it is about to exit. */
		if (w->state == WORKER_READY && w->kind == kind && w->ctl.fd >= 0)
			return w;
	}
	return NULL;
}

void worker_lanes(struct worker *w, uint64_t n)
{
	w->n_passed = n;
	if (w->book)
		w->book->n_passed = n;
}

static uint64_t end_slow(struct broker *b, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		uint64_t most = w->kind == WORKER_SHARED ? ENDING_SHARED_NS : ENDING_NS;

		if (!w->ending_ns)
			continue;
		if (now_ns >= w->ending_ns + most) {
			child_kill(&w->child);
			w->ending_ns = now_ns;
		}
		next = MIN(next, w->ending_ns + most);
	}
	return next;
}

/* When more of a class are to be started. Only a pause after a failure, a full device, or who
 * is busy with it leave its pool short. */
static uint64_t fill_at(struct broker *b, enum worker_kind kind, uint64_t now_ns)
{
	const struct pool *p = &b->pools[kind];
	uint64_t calm_ns, at = MAX(p->spawn_at_ns, b->room_at_ns);

	if (p->n_idle >= count_wanted(b, kind, now_ns, &calm_ns))
		at = p->n_idle < pool_size(b, kind) ? MAX(at, calm_ns) : 0;
	return at > now_ns ? at : UINT64_MAX;
}

uint64_t workers_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	uint64_t next = UINT64_MAX;

	if (b->n_ending)
		next = MIN(next, end_slow(b, now_ns));
	b->serve_guests(b);
	for (unsigned k = 0; k < WORKER_NUM_KINDS; k++)
		next = MIN(next, fill_at(b, k, now_ns));
	return next;
}

/* ---- what workers say ---- */

void workers_probed(struct worker *w, uint32_t id)
{
	w->here = id;
	if (w->tenant->n_waiting)
		w->b->serve_guests(w->b);
}

void workers_device_known(struct broker *b)
{
	if (b->was_ready)
		return;
	b->was_ready = true;
	log_info("device: %s, %llu MiB", b->device_name,
		 (unsigned long long)b->device_total >> 20);
	if (b->ready_fd >= 0) {
		(void)fd_write_full(b->ready_fd, "\n", 1);
		close(fd_steal(&b->ready_fd));
	}
	if (b->on_ready)
		b->on_ready(b);
}

/* For the next weftd, which may have sessions before a worker of its own is ready. */
static void note_device(const struct msg_ready *m)
{
	struct book_head *h = books_head();

	if (!h)
		return;
	h->memory_bytes = m->memory_bytes;
	h->overhead = m->overhead;
	h->own_memory = m->own_memory;
	memcpy(h->device, m->device, sizeof(h->device));
}

static void learn_device(struct broker *b, const struct msg_ready *m)
{
	b->own_memory = m->own_memory;
	account_open(b, m->memory_bytes);
	static_assert(sizeof(b->device_name) == sizeof(m->device), "any name fits");
	memcpy(b->device_name, m->device, sizeof(b->device_name));
	note_device(m);
}

static void set_ready(struct worker *w, const struct msg_ready *m)
{
	struct broker *b = w->b;

	set_state(w, WORKER_READY);
	pool_of(w)->n_starting--;
	pool_of(w)->failures = 0;
	pool_of(w)->spawn_at_ns = 0;
	w->version = m->version;
	if (w->kind != WORKER_GRAPHICS)
		learn_device(b, m);
	account_ready(w, m->overhead);
	workers_device_known(b);
	b->serve_guests(b);
}

/* Returns 0 or -errno: it is of no use any more. */
static int hear(struct worker *w)
{
	_cleanup_aside_ int fd0 = -1, fd1 = -1;
	struct msg m;
	int r = msg_recv_with(w->ctl.fd, &m, &fd0, &fd1, aside_close);

	if (r == -EAGAIN || r == -EINTR)
		return 0;
	if (r < 0)
		return r;
	if (w->state != WORKER_STARTING || m.type != MSG_READY)
		r = w->b->on_message(w, &m, &fd0);
	else
		set_ready(w, &m.ready);
	if (r == -EPROTO)
		log_warning("worker %d (%s): message %s is refused", w->child.pid,
			    state_names[w->state], msg_name(m.type));
	return r;
}

static void on_worker_ctl(struct source *src, uint32_t events)
{
	struct worker *w = container_of(src, struct worker, ctl);
	int r = events & EPOLLOUT ? outbox_write(&w->out) : 0;

	if (r == 0 && events & ~(uint32_t)EPOLLOUT)
		r = hear(w);
	if (r == 0)
		return;
	if (r != -ENODATA && r != -ECONNRESET)
		log_warning("worker %d: %s", w->child.pid, strerror(-r));
	/* The worker's end of the pair is gone or talks nonsense; the exit follows. */
	aside_remove(w->b->loop, &w->ctl);
	account_ending(w, clock_now_ns());
	child_kill(&w->child);
}

/* ---- the end ---- */

static void describe_end(const struct worker *w, int status, char *buf, size_t room)
{
	if (w->why)
		snprintf(buf, room, "%s", w->why);
	else if (WIFSIGNALED(status))
		snprintf(buf, room,
			 w->killed ? "killed by operator" : "worker: signal %d",
			 WTERMSIG(status));
	else if (WEXITSTATUS(status) == 0)
		snprintf(buf, room, "ended");
	else if (WEXITSTATUS(status) == EXIT_BROKEN)
		snprintf(buf, room, "broken protocol");
	else if (WEXITSTATUS(status) == EXIT_HANGS)
		snprintf(buf, room, "drawing did not end");
	else if (WEXITSTATUS(status) == SANDBOX_EXIT)
		snprintf(buf, room, "worker: forbidden system call");
	else
		snprintf(buf, room, "worker: exit status %d", WEXITSTATUS(status));
}

static void post_ended(const struct worker *w, const struct session_record *h)
{
	struct json_object *e = event_of_guest(w->tenant, "session.ended", h->session);

	if (!e)
		return;
	reply_str(e, "name", h->name);
	reply_u64(e, "pid", h->pid);
	reply_u64(e, "time", h->duration_ns / 1000);
	reply_u64(e, "gpu.time", h->gpu_us);
	reply_str(e, "end", h->end);
	event_post(w->b, e);
}

/* A worker that served nobody: its end is weftd's trouble. */
static void post_died(const struct worker *w, int status)
{
	struct json_object *e;
	char end[48];

	if (w->killed || !status)
		return;
	describe_end(w, status, end, sizeof(end));
	e = event_new(w->b, "worker.died", NULL, 0);
	reply_u64(e, "worker.pid", (uint64_t)w->child.pid);
	reply_str(e, "state", state_names[w->state]);
	reply_str(e, "end", end);
	event_post(w->b, e);
}

static void record(struct worker *w, int status)
{
	struct broker *b = w->b;
	struct session_record *h = &b->history[b->n_history++ % HISTORY_MAX];
	const struct worker_page *c = w->count;

	refused_fini(&h->refused);
	*h = (struct session_record){
		.session = w->session,
		.pid = w->hello.pid,
		.duration_ns = clock_now_ns() - w->attached_ns,
		.calls = atomic_load(&c->calls),
		.posts = atomic_load(&c->posts),
		.launches = atomic_load(&c->launches),
		.to_device = atomic_load(&c->bytes_to_device),
		.from_device = atomic_load(&c->bytes_from_device),
		.peak = w->peak,
		.gpu_us = gpu_time(w),
	};
	memcpy(h->tenant, w->tenant->name, sizeof(h->tenant));
	memcpy(h->name, w->hello.name, sizeof(h->name));
	h->name[sizeof(h->name) - 1] = '\0';
	if (refused_read(c, &h->refused) < 0)
		log_error("out of memory");
	describe_end(w, status, h->end, sizeof(h->end));
	post_ended(w, h);
	if (!log_limit_ok(&w->tenant->session_limit, SESSION_LINES))
		return;
	if (status && !w->killed)
		log_warning("tenant %s session %llu: %s", h->tenant,
			    (unsigned long long)h->session, h->end);
	else
		log_info("tenant %s session %llu: %s", h->tenant,
			 (unsigned long long)h->session, h->end);
}

static void worker_ended(struct worker *w, int status)
{
	struct broker *b = w->b;

	aside_remove(b->loop, &w->ctl);
	filler_forget(w);
	mps_forget(w);
	if (w->state == WORKER_SESSION) {
		record(w, status);
		trace_session_ends(w);
		gpu_time_end(w);
		slices_due(b);
		usage_end(w);
		account_host_drop(w);
		reclaim_end(w);
		share_end(w);
		window_give_back(&w->tenant->window, w->slice);
		if (w->resume_id)
			b->resume_end(w);
	} else {
		post_died(w, status);
	}
	books_end(w);
	if (w->state == WORKER_SESSION)
		books_count(w->tenant);
	account_end(w);
	list_remove(&w->link);
	pool_of(w)->n_idle -= w->state != WORKER_SESSION;
	pool_of(w)->n_starting -= w->state == WORKER_STARTING;
	outbox_drop(&w->out);
	if (w->state == WORKER_STARTING && !w->killed)
		start_failed(b, w->kind);
	if (w->tenant) {
		b->on_session_end(w->tenant);
		tenant_try_release(w->tenant);
	}
	if (loop_defer(b->loop, worker_free, w) < 0)
		log_error("out of memory"); /* leaked rather than used after free */
	b->serve_guests(b);
}

void worker_exited(struct source *src, uint32_t events)
{
	struct worker *w = container_of(src, struct worker, child.exit);
	int status = child_reap(w->b, &w->child);

	worker_ended(w, status);
}

void worker_kill(struct worker *w)
{
	w->killed = true;
	account_ending(w, clock_now_ns());
	child_kill(&w->child);
}

void workers_fini(struct broker *b)
{
	struct worker *w, *tmp;

	b->stop = true;
	list_for_each (w, &b->workers, link)
		worker_kill(w);
	list_for_each_safe (w, tmp, &b->workers, link)
		worker_ended(w, child_reap(b, &w->child));
	for (unsigned i = 0; i < HISTORY_MAX; i++)
		refused_fini(&b->history[i].refused);
}
