/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/keep/books.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/share.h"
#include "util/fdstore.h"

#define NAME       "books"
#define MAGIC      0x6b6f6f62u

#define HEAD_BYTES 4096u
#define WORKERS_AT HEAD_BYTES
#define TENANTS_AT (WORKERS_AT + BOOKS_WORKERS_MAX * BOOKS_RECORD)
#define SHARES_AT  (TENANTS_AT + BOOKS_TENANTS_MAX * BOOKS_RECORD)
#define BYTES      (SHARES_AT + BOOKS_SHARES_MAX * BOOKS_RECORD)

/* Counts of tenants are noted so long after something has happened. */
#define NOTE_NS (100 * NSEC_PER_MSEC)

static struct {
	uint8_t *at; /* NULL: there are none */
	uint64_t noted_ns;
	unsigned free_share; /* none below is free */
} books;

static void *record(unsigned first, unsigned i)
{
	return books.at + first + (size_t)i * BOOKS_RECORD;
}

/* Returns the record after the last one that was ever used, or NULL: there is no room. */
static void *one_more(unsigned first, unsigned max, uint32_t *n)
{
	return *n < max ? record(first, (*n)++) : NULL;
}

struct book_head *books_head(void)
{
	return (void *)books.at;
}

struct book_worker *books_worker(unsigned i)
{
	return books.at && i < MIN(books_head()->n_workers, BOOKS_WORKERS_MAX)
		       ? record(WORKERS_AT, i)
		       : NULL;
}

static struct book_tenant *books_tenant(unsigned i)
{
	return books.at && i < MIN(books_head()->n_tenants, BOOKS_TENANTS_MAX)
		       ? record(TENANTS_AT, i)
		       : NULL;
}

struct book_share *books_share(unsigned i)
{
	return books.at && i < MIN(books_head()->n_shares, BOOKS_SHARES_MAX)
		       ? record(SHARES_AT, i)
		       : NULL;
}

/* ---- opening ---- */

static int map(int fd)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	books.at = p;
	return 0;
}

/* Only what is used takes memory. */
static int make(void)
{
	_cleanup_close_ int fd = fd_memfd("weft-books", BYTES);
	int r = fd < 0 ? fd : map(fd);

	if (r < 0)
		return r;
	*books_head() =
		(struct book_head){.magic = MAGIC, .version = BOOKS_VERSION, .times = 1};
	return fdstore_put(NAME, fd);
}

/* Returns 0 or -errno: they are of no use. */
static int go_on_with(int fd)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)BYTES)
		return -EPROTONOSUPPORT;
	r = map(fd);
	if (r < 0)
		return r;
	if (books_head()->magic != MAGIC || books_head()->version != BOOKS_VERSION) {
		books_close();
		return -EPROTONOSUPPORT;
	}
	books_head()->times++;
	return 0;
}

int books_open(void)
{
	_cleanup_close_ int fd = -1;

	if (!fdstore_is_open())
		return 0;
	fd = fdstore_take(NAME);
	if (fd < 0)
		return make();
	if (go_on_with(fd) == 0)
		return 0;
	log_error("the sessions of the weftd before this one end: it was of a version "
		  "whose "
		  "books this one cannot read");
	fdstore_remove(NAME);
	return make();
}

void books_close(void)
{
	if (books.at)
		munmap(books.at, BYTES);
	books.at = NULL;
}

/* ---- workers ---- */

static const char *const kept_fds[] = {"ctl", "page", "pid", "out"};

static void fd_name(char *buf, size_t room, const struct book_worker *k, const char *what)
{
	snprintf(buf, room, "worker.%" PRIu64 ".%s", k->key, what);
}

int book_worker_fd(const struct book_worker *k, const char *what)
{
	char name[64];

	fd_name(name, sizeof(name), k, what);
	return fdstore_take(name);
}

static int put(const struct book_worker *k, const char *what, int fd)
{
	char name[64];

	fd_name(name, sizeof(name), k, what);
	return fdstore_put(name, fd);
}

void book_worker_drop(struct book_worker *k)
{
	char name[64];

	for (unsigned i = 0; i < ARRAY_SIZE(kept_fds); i++) {
		fd_name(name, sizeof(name), k, kept_fds[i]);
		fdstore_remove(name);
	}
	k->key = 0;
}

static struct book_worker *free_worker(void)
{
	struct book_worker *k;

	for (unsigned i = 0; (k = books_worker(i)); i++) {
		if (!k->key)
			return k;
	}
	return books.at
		       ? one_more(WORKERS_AT, BOOKS_WORKERS_MAX, &books_head()->n_workers)
		       : NULL;
}

static int keep_fds(const struct worker *w)
{
	const struct book_worker *k = w->book;
	int r = put(k, "page", w->page_fd);

	if (r == 0)
		r = put(k, "pid", w->child.exit.fd);
	if (r == 0 && w->child.out.src.fd >= 0)
		r = put(k, "out", w->child.out.src.fd);
	/* Last: without it there is nothing. */
	return r == 0 ? put(k, "ctl", w->ctl.fd) : r;
}

static void enter(const struct worker *w, struct book_worker *k)
{
	*k = (struct book_worker){
		.pid = w->child.pid,
		.uid = w->child.uid,
		.version = w->version,
		.slice = w->slice,
		.in_window = w->in_window,
		.n_passed = w->n_passed,
		.session = w->session,
		.session_of_tenant = w->session_of_tenant,
		.attached_ns = w->attached_ns,
		.overhead = w->overhead,
		.charged = w->charged,
		.evicted = w->evicted,
		.wmem = w->wmem,
		.kind = w->kind,
		.hello = w->hello,
	};
	memcpy(k->token, w->token, sizeof(k->token));
	memcpy(k->tenant, w->tenant->name, sizeof(k->tenant));
	books_head()->next_session = w->b->next_session;
	if (w->tenant->book)
		w->tenant->book->next_session = w->tenant->next_session;
	k->key = ++books_head()->next_key; /* it counts from here on */
}

void books_begin(struct worker *w)
{
	struct book_worker *k = free_worker();
	int r;

	if (!k)
		return;
	enter(w, k);
	w->book = k;
	r = keep_fds(w);
	if (r == 0)
		return;
	log_warning("tenant %s session %" PRIu64 ": a weftd after this one will not have "
		    "it: %s",
		    w->tenant->name, w->session, strerror(-r));
	books_end(w);
}

void books_end(struct worker *w)
{
	if (!w->book)
		return;
	book_worker_drop(w->book);
	w->book = NULL;
}

/* ---- shares ---- */

struct book_share *books_share_new(void)
{
	struct book_share *k;

	for (; (k = books_share(books.free_share)); books.free_share++) {
		if (!k->used)
			return k;
	}
	return books.at ? one_more(SHARES_AT, BOOKS_SHARES_MAX, &books_head()->n_shares)
			: NULL;
}

static void event_name(char *buf, const struct book_share *k)
{
	buf += sprintf(buf, "event.");
	for (unsigned i = 0; i < sizeof(k->name); i++)
		buf += sprintf(buf, "%02x", k->name[i]);
}

void book_event_keep(const struct book_share *k, int fd)
{
	char name[64];

	event_name(name, k);
	if (fdstore_put(name, fd) < 0)
		log_debug("an event is not kept");
}

int book_event_fd(const struct book_share *k)
{
	char name[64];

	event_name(name, k);
	return fdstore_take(name);
}

void book_share_drop(struct book_share *k)
{
	char name[64];

	if (k->kind == SHARE_EVENT) {
		event_name(name, k);
		fdstore_remove(name);
	}
	k->used = 0;
	books.free_share =
		MIN(books.free_share,
		    (unsigned)(((uint8_t *)k - books.at - SHARES_AT) / BOOKS_RECORD));
}

/* ---- tenants ---- */

static_assert(REFUSAL_NUM <= BOOKS_REFUSALS_MAX, "there is room");

void books_count(const struct tenant *t)
{
	const struct usage *u = &t->ended;
	struct book_tenant *k = t->book;

	if (!k)
		return;
	books_head()->gpu_us = t->b->gpu_us;
	k->gpu_us = t->gpu_us;
	k->n_sessions = u->sessions;
	k->calls = u->calls;
	k->posts = u->posts;
	k->launches = u->launches;
	k->to_device = u->to_device;
	k->from_device = u->from_device;
	k->moved_out = u->moved_out;
	k->moved_in = u->moved_in;
	k->refused_others = u->refused_others;
	memcpy(k->refused, u->refused, sizeof(u->refused));
}

static void count_again(struct tenant *t, const struct book_tenant *k)
{
	t->gpu_us = k->gpu_us;
	t->ended = (struct usage){
		.sessions = k->n_sessions,
		.calls = k->calls,
		.posts = k->posts,
		.launches = k->launches,
		.to_device = k->to_device,
		.from_device = k->from_device,
		.moved_out = k->moved_out,
		.moved_in = k->moved_in,
		.refused_others = k->refused_others,
	};
	memcpy(t->ended.refused, k->refused, sizeof(t->ended.refused));
}

static struct book_tenant *find_tenant(const char *name)
{
	struct book_tenant *k;

	for (unsigned i = 0; (k = books_tenant(i)); i++) {
		if (!strcmp(k->name, name))
			return k;
	}
	return NULL;
}

void books_tenant_begin(struct tenant *t)
{
	struct book_tenant *k = find_tenant(t->name);

	t->book = k ? k : find_tenant("");
	if (!t->book && books.at)
		t->book =
			one_more(TENANTS_AT, BOOKS_TENANTS_MAX, &books_head()->n_tenants);
	if (k) {
		t->next_session = k->next_session;
		t->peak = k->peak;
		static_assert(offsetof(struct memory_events, frozen) == sizeof(k->events),
			      "are these");
		memcpy(&t->events, k->events, sizeof(k->events));
		t->events.frozen = k->frozen;
		t->events_told = t->events;
		t->draining = k->draining;
		count_again(t, k);
	} else if (t->book) {
		*t->book = (struct book_tenant){0};
		memcpy(t->book->name, t->name, sizeof(t->name));
	}
}

/* ---- listeners ---- */

static const char *const listener_fds[] = {"ctl", "pid", "out"};

static void listener_name(char *buf, size_t room, const struct tenant *t,
			  const char *what)
{
	snprintf(buf, room, "listener.%s.%s", t->name, what);
}

int book_listener_fd(const struct tenant *t, const char *what)
{
	char name[CONF_NAME_MAX + 32];

	listener_name(name, sizeof(name), t, what);
	return fdstore_take(name);
}

static int put_listener(const struct tenant *t, const char *what, int fd)
{
	char name[CONF_NAME_MAX + 32];

	listener_name(name, sizeof(name), t, what);
	return fd < 0 ? 0 : fdstore_put(name, fd);
}

/* Looks up the file that a listener is started from; 0: none. */
static void program(const struct broker *b, uint64_t *ret_ino, uint64_t *ret_time_ns)
{
	char path[4096];
	struct stat st;

	*ret_ino = *ret_time_ns = 0;
	snprintf(path, sizeof(path), "%s/weft-listener", b->libexec);
	if (stat(path, &st) < 0)
		return;
	*ret_ino = st.st_ino;
	*ret_time_ns =
		(uint64_t)st.st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec;
}

bool books_listener_is_new(const struct tenant *t)
{
	uint64_t ino, time_ns;

	program(t->b, &ino, &time_ns);
	return ino == t->book->listener_ino && time_ns == t->book->listener_time_ns;
}

void books_listener_begin(struct tenant *t)
{
	struct book_tenant *k = t->book;
	int r;

	if (!k)
		return;
	r = put_listener(t, "pid", t->listener.exit.fd);
	if (r == 0)
		r = put_listener(t, "out", t->listener.out.src.fd);
	if (r == 0)
		r = put_listener(t, "ctl", t->listener_ctl.fd);
	if (r < 0) {
		books_listener_end(t);
		return;
	}
	program(t->b, &k->listener_ino, &k->listener_time_ns);
	k->listener_uid = t->listener.uid;
	k->listener_version = MSG_VERSION;
	k->listener_pid = t->listener.pid;
}

void books_listener_end(struct tenant *t)
{
	char name[CONF_NAME_MAX + 32];

	if (!t->book || !t->book->listener_pid)
		return;
	t->book->listener_pid = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(listener_fds); i++) {
		listener_name(name, sizeof(name), t, listener_fds[i]);
		fdstore_remove(name);
	}
}

void books_tenant_end(struct tenant *t)
{
	/* The listener may take a moment to end; nobody goes on with it. */
	books_listener_end(t);
	if (t->book)
		t->book->name[0] = '\0';
	t->book = NULL;
}

uint64_t books_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	const struct tenant *t;
	const struct worker *w;

	if (!books.at)
		return UINT64_MAX;
	if (now_ns < books.noted_ns + NOTE_NS)
		return books.noted_ns + NOTE_NS;
	books.noted_ns = now_ns;
	books_head()->draining = b->draining;
	list_for_each (t, &b->tenants, link) {
		if (!t->book)
			continue;
		t->book->next_session = t->next_session;
		t->book->peak = t->peak;
		t->book->draining = t->draining;
		memcpy(t->book->events, &t->events, sizeof(t->book->events));
		t->book->frozen = t->events.frozen;
	}
	list_for_each (w, &b->workers, link) {
		if (!w->book)
			continue;
		w->book->peak = w->peak;
		w->book->granted_peak = w->granted_peak;
		w->book->was_evicted = w->was_evicted;
	}
	return UINT64_MAX;
}
