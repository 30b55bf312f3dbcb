/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events that sessions of one tenant share. A worker hands over a descriptor
 * and gets a random name for it; the guest passes the name on, and the worker of another
 * session of that tenant gets the descriptor for the name.
 *
 * Shared memory is charged once: to the session that made it and, when that has freed it
 * or has ended, to the tenant until the last other session lets go.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/keep/books.h"
#include "broker/memory/adopt.h"
#include "broker/memory/ledger.h"
#include "broker/share.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/share.h"

/* Each part holds a descriptor of weftd's; b->shares_max is for all tenants together, of
 * which each leaves at least as many as it has: there is always room for one more. */
#define SHARES_TENANT_MAX 8192u
#define EVENT_SEALS       (F_SEAL_SHRINK | F_SEAL_GROW)
#define OPENS_MAX         4096 /* of one share by one worker */

struct share {
	struct list link;        /* tenant.shares */
	struct book_share *book; /* once it is complete; NULL: nobody will know of it */
	/* Another weftd had it: its maker has said that it has it, too. */
	bool adopted, told;
	struct tenant *t;
	struct worker *maker; /* NULL: it has let go */
	uint8_t name[16];
	unsigned kind;          /* enum share_kind */
	uint64_t here, evicted; /* bytes */
	/* Bytes on the tenant's account, once the maker has let go. */
	uint64_t held, held_evicted;
	unsigned n, n_parts; /* so many have come */
	struct share_file {
		int fd;
		uint64_t bytes;
	} * part;
	struct list users;
};

struct share_user {
	struct list link; /* share.users */
	struct worker *w;
	unsigned n;
};

/* Takes as long whatever the guess. */
static bool same_name(const uint8_t *a, const uint8_t *b)
{
	uint8_t diff = 0;

	for (unsigned i = 0; i < 16; i++)
		diff |= a[i] ^ b[i];
	return !diff;
}

static struct share *find(const struct tenant *t, const uint8_t *name)
{
	struct share *s, *found = NULL;

	list_for_each (s, &t->shares, link) {
		if (same_name(s->name, name))
			found = s;
	}
	return found;
}

static struct share_user *find_user(struct share *s, const struct worker *w)
{
	struct share_user *u;

	list_for_each (u, &s->users, link) {
		if (u->w == w)
			return u;
	}
	return NULL;
}

static void share_free(struct share *s)
{
	struct share_user *u, *next;

	if (s->book)
		book_share_drop(s->book);
	list_for_each_safe (u, next, &s->users, link) {
		list_remove(&u->link);
		free(u);
	}
	for (unsigned i = 0; i < s->n_parts; i++)
		closep(&s->part[i].fd);
	list_remove(&s->link);
	s->t->n_shares -= s->n_parts;
	s->t->b->n_shares -= s->n_parts;
	free(s->part);
	free(s);
}

/* Ends it once nobody is left. */
static void share_try_end(struct share *s)
{
	if (s->maker || !list_empty(&s->users) || s->t->n_resuming)
		return;
	account_share_end(s->t, s->held);
	evicted_share_end(s->t, s->held_evicted);
	share_free(s);
}

/* ---- making one ---- */

static bool has_room(const struct tenant *t, unsigned n_parts)
{
	uint64_t all = (uint64_t)t->b->n_shares + n_parts;
	uint64_t own = (uint64_t)t->n_shares + n_parts;

	return own <= SHARES_TENANT_MAX && all + own <= t->b->shares_max;
}

/* True of a file that a worker may hand over. Memory is of the kind the driver makes, but
 * no socket and nobody's file; an event is a page that we write to. */
static bool is_right_file(unsigned kind, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (kind == SHARE_MEMORY && fd < 0)
		return true; /* nobody can open it */
	if (fstat(fd, &st) < 0)
		return false;
	if (kind == SHARE_EVENT)
		return seals >= 0 && (seals & EVENT_SEALS) == EVENT_SEALS &&
		       !(seals & F_SEAL_WRITE) &&
		       st.st_size >= (off_t)sizeof(struct share_event);
	return !S_ISSOCK(st.st_mode) && (seals >= 0 || !S_ISREG(st.st_mode)) &&
	       !S_ISDIR(st.st_mode);
}

/* Without parts yet. */
static int share_new(struct tenant *t, struct worker *w, const struct share_part *x,
		     struct share **ret_s)
{
	struct share *s;

	if (!x->n_parts || x->kind >= SHARE_KINDS ||
	    (x->n_parts > 1 && x->kind != SHARE_MEMORY))
		return -EINVAL;
	if (!has_room(t, x->n_parts))
		return -EMFILE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->part = calloc(x->n_parts, sizeof(*s->part));
	if (!s->part || getrandom(s->name, sizeof(s->name), 0) != sizeof(s->name)) {
		int r = s->part ? -EIO : -ENOMEM;

		free(s->part);
		free(s);
		return r;
	}
	s->t = t;
	s->maker = w;
	s->kind = x->kind;
	s->n_parts = x->n_parts;
	for (unsigned i = 0; i < s->n_parts; i++)
		s->part[i].fd = -1;
	list_init(&s->users);
	list_append(&t->shares, &s->link);
	t->n_shares += s->n_parts;
	t->b->n_shares += s->n_parts;
	*ret_s = s;
	return 0;
}

/* For the next weftd; one that it does not know of is made again by what sessions say. */
static void note(struct share *s)
{
	struct book_share *k = s->maker->book ? books_share_new() : NULL;

	if (!k)
		return;
	*k = (struct book_share){.kind = s->kind,
				 .n_parts = s->n_parts,
				 .maker = s->maker->book->key,
				 .here = s->here,
				 .evicted = s->evicted};
	memcpy(k->name, s->name, sizeof(k->name));
	memcpy(k->tenant, s->t->name, sizeof(k->tenant));
	k->used = 1;
	s->book = k;
	/* An event whose maker ends while nobody is here is done: the next weftd writes
	 * that. */
	if (s->kind == SHARE_EVENT)
		book_event_keep(k, s->part->fd);
}

/* No more than the worker has, as far as it is believed. */
static bool is_its_own(const struct worker *w, const struct share *s,
		       const struct share_part *x)
{
	uint64_t has = x->evicted ? w->evicted : w->charged,
		 sum = x->evicted ? s->evicted : s->here;

	return sum <= has && x->bytes <= has - sum;
}

static int add_part(struct share *s, const struct share_part *x, int fd)
{
	struct worker *w = s->maker;

	if (!is_its_own(w, s, x))
		return -EINVAL;
	s->part[s->n].fd = fd;
	s->part[s->n++].bytes = x->bytes;
	*(x->evicted ? &s->evicted : &s->here) += x->bytes;
	if (s->n == s->n_parts) {
		w->evicted_shared += s->evicted;
		note(s);
	}
	return 0;
}

int share_export(struct worker *w, const struct share_part *x, int fd, uint8_t *name)
{
	struct share *s = x->part ? find(w->tenant, name) : NULL;
	int r = 0;

	if (!is_right_file(x->kind, fd))
		return -EINVAL;
	if (!x->part)
		r = share_new(w->tenant, w, x, &s);
	else if (!s || s->maker != w || s->n != x->part || s->n == s->n_parts)
		r = -EINVAL;
	if (r < 0)
		return r;
	r = add_part(s, x, fd);
	if (r < 0)
		share_free(s);
	else if (!x->part)
		memcpy(name, s->name, sizeof(s->name));
	return r;
}

/* ---- its users ---- */

static int add_user(struct share *s, struct worker *w)
{
	struct share_user *u = find_user(s, w);

	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		u->w = w;
		list_append(&s->users, &u->link);
	}
	if (u->n == OPENS_MAX)
		return -EMFILE;
	u->n++;
	return 0;
}

int share_open(struct worker *w, const uint8_t *name, struct share_part *x)
{
	struct share *s = find(w->tenant, name);
	int r = 0;

	/* Without its maker it is only kept for those who have it. */
	if (!s || s->kind != x->kind || !s->maker)
		return -EINVAL;
	if (s->maker == w)
		return -EDEADLK;
	if (s->n < s->n_parts || x->part >= s->n_parts)
		return -EINVAL;
	if (!x->part)
		r = add_user(s, w);
	else if (!find_user(s, w))
		r = -EINVAL;
	if (r < 0)
		return r;
	x->n_parts = s->n_parts;
	x->bytes = s->part[x->part].bytes;
	x->fd = s->part[x->part].fd;
	return 0;
}

void share_close(struct worker *w, const uint8_t *name)
{
	struct share *s = find(w->tenant, name);
	struct share_user *u = s ? find_user(s, w) : NULL;

	if (!u || --u->n)
		return;
	list_remove(&u->link);
	free(u);
	share_try_end(s);
}

static void let_go(struct share *s)
{
	struct worker *w = s->maker;

	if (s->n < s->n_parts) { /* nobody has it, and it is not freed by that */
		share_free(s);
		return;
	}
	/* Bytes that nobody else has are freed, the rest is the tenant's. */
	s->held = account_share(w, s->here);
	w->evicted_shared -= s->evicted;
	s->held_evicted = evicted_share(w, s->evicted);
	s->maker = NULL;
	if (s->book) {
		s->book->held = s->held;
		s->book->held_evicted = s->held_evicted;
		s->book->let_go = 1;
	}
	share_try_end(s);
}

void share_drop(struct worker *w, const uint8_t *name)
{
	struct share *s = find(w->tenant, name);

	if (s && s->maker == w)
		let_go(s);
}

/* Records of a session that has ended will not be done any more: nobody waits for them.
 */
static void all_done(const struct share *s)
{
	static const uint64_t all = UINT64_MAX;

	static_assert(offsetof(struct share_event, done) == 0, "written here");
	if (pwrite(s->part->fd, &all, sizeof(all), 0) != sizeof(all))
		log_debug("an event of a session that has ended: %m");
}

void share_end(struct worker *w)
{
	struct share *s, *tmp;

	list_for_each_safe (s, tmp, &w->tenant->shares, link) {
		struct share_user *u = find_user(s, w);

		if (u) {
			list_remove(&u->link);
			free(u);
		}
		if (s->maker == w) {
			if (s->kind == SHARE_EVENT)
				all_done(s);
			let_go(s);
		} else if (u)
			share_try_end(s);
	}
}

/* ---- shares of another weftd ---- */

int share_adopt(struct tenant *t, struct book_share *k, struct worker *maker)
{
	const struct share_part x = {.kind = k->kind, .n_parts = k->n_parts};
	struct share *s;
	int r = share_new(t, k->let_go ? NULL : maker, &x, &s);

	if (r < 0)
		return r;
	memcpy(s->name, k->name, sizeof(s->name));
	s->book = k;
	s->adopted = true;
	s->here = k->here;
	s->evicted = k->evicted;
	s->n = s->n_parts;
	if (s->kind == SHARE_EVENT)
		s->part->fd = book_event_fd(k);
	if (!s->maker) { /* it has let go, or has ended since */
		s->held = k->let_go ? k->held : k->here;
		s->held_evicted = k->let_go ? k->held_evicted : k->evicted;
		account_share_adopt(t, s->held, s->held_evicted);
	}
	return 0;
}

/* Takes back what its maker had let go of, and does not know that yet. */
static int take_back(struct share *s, struct worker *w)
{
	if (!s->adopted || !s->book || s->book->maker != w->book->key)
		return -EPROTO;
	account_share_back(w, s->held, s->held_evicted);
	s->held = s->held_evicted = 0;
	s->book->let_go = 0;
	s->maker = w;
	return 0;
}

/* A part of one that was not complete, or that nobody noted. */
static int make_again(struct worker *w, const struct msg_ipc_export *e,
		      const struct share_part *x, int fd, struct share *s)
{
	int r = 0;

	if (!s && e->part)
		return -EPROTO;
	if (!s)
		r = share_new(w->tenant, w, x, &s);
	if (r < 0)
		return r;
	if (s->maker != w || s->n != x->part || s->n == s->n_parts)
		return -EPROTO;
	memcpy(s->name, e->name, sizeof(s->name));
	s->told = true;
	return add_part(s, x, fd);
}

int share_tell(struct worker *w, const struct msg_ipc_export *e, int *fd)
{
	const struct share_part x = {.kind = e->kind,
				     .part = e->part,
				     .n_parts = e->n_parts,
				     .bytes = e->bytes,
				     .evicted = e->evicted};
	struct share *s = find(w->tenant, e->name);
	int r = 0;

	if (!is_right_file(e->kind, *fd))
		return -EPROTO;
	if (!s || !s->adopted) {
		r = make_again(w, e, &x, *fd, s);
		if (r == 0)
			fd_steal(fd);
		return r;
	}
	if (s->kind != e->kind || s->n_parts != e->n_parts || e->part >= s->n_parts ||
	    (s->part[e->part].fd >= 0 && s->kind == SHARE_MEMORY))
		return -EPROTO;
	if (!s->maker)
		r = take_back(s, w);
	if (r < 0 || s->maker != w)
		return -EPROTO;
	s->told = true;
	s->part[e->part].bytes = e->bytes;
	if (s->part[e->part].fd < 0)
		s->part[e->part].fd = fd_steal(fd);
	return 0;
}

int share_tell_open(struct worker *w, const struct msg_has_open *o)
{
	struct share *s = find(w->tenant, o->name);
	int r = 0;

	if (!s) /* nobody noted it */
		return 0;
	if (s->kind != o->kind || s->maker == w || o->n > OPENS_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < o->n && r == 0; i++)
		r = add_user(s, w);
	return r;
}

void share_told(struct worker *w)
{
	struct share *s, *tmp;

	w->evicted_shared = 0;
	list_for_each_safe (s, tmp, &w->tenant->shares, link) {
		if (s->maker != w)
			continue;
		if (!s->told) /* it was never told that it has made it */
			share_free(s);
		else if (s->n == s->n_parts)
			w->evicted_shared += s->evicted;
	}
}

void share_adopted(struct tenant *t)
{
	struct share *s, *tmp;

	list_for_each_safe (s, tmp, &t->shares, link)
		share_try_end(s);
}
