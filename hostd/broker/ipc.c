/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sessions of one tenant share. A worker hands over a descriptor and gets a random
 * name for it; the guest passes the name on, and the worker of another session of that
 * tenant gets the descriptor for the name.
 *
 * Shared memory is charged once: to the session that made it and, when that has freed it
 * or has ended, to the tenant until the last other session lets go.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/fd.h"
#include "broker/broker.h"
#include "session/session.h"

/* Each holds a descriptor of weftd's; b->shares_max is for all tenants together. */
#define SHARES_TENANT_MAX 1024
#define OPENS_MAX         4096 /* of one share by one worker */

struct share {
	struct list link; /* tenant.shares */
	struct tenant *t;
	struct worker *maker; /* NULL: it has let go */
	uint8_t name[16];
	unsigned kind; /* enum sess_ipc_kind */
	uint64_t bytes;
	uint64_t held; /* of the tenant's account, once the maker has let go */
	int fd;
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

/* Ends it once nobody is left. */
static void share_try_end(struct share *s)
{
	if (s->maker || !list_empty(&s->users))
		return;
	account_share_end(s->t, s->held);
	closep(&s->fd);
	list_remove(&s->link);
	s->t->n_shares--;
	s->t->b->n_shares--;
	free(s);
}

int ipc_export(struct worker *w, const struct sess_ipc *x, int fd, uint8_t *ret_name)
{
	struct tenant *t = w->tenant;
	struct share *s;

	if (t->n_shares >= SHARES_TENANT_MAX || t->b->n_shares >= t->b->shares_max)
		return -EMFILE;
	if (x->kind >= SESS_IPC_KINDS || x->bytes > w->charged)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	if (getrandom(s->name, sizeof(s->name), 0) != sizeof(s->name)) {
		free(s);
		return -EIO;
	}
	s->t = t;
	s->maker = w;
	s->kind = x->kind;
	s->bytes = x->bytes;
	s->fd = fd;
	list_init(&s->users);
	list_append(&t->shares, &s->link);
	t->n_shares++;
	t->b->n_shares++;
	memcpy(ret_name, s->name, sizeof(s->name));
	return 0;
}

int ipc_open(struct worker *w, const uint8_t *name, unsigned kind, struct sess_ipc *ret_x)
{
	struct share *s = find(w->tenant, name);
	struct share_user *u;

	/* Without its maker it is only kept for those who have it. */
	if (!s || s->kind != kind || !s->maker)
		return -EINVAL;
	if (s->maker == w)
		return -EDEADLK;
	u = find_user(s, w);
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
	ret_x->kind = s->kind;
	ret_x->bytes = s->bytes;
	ret_x->fd = s->fd;
	return 0;
}

void ipc_close(struct worker *w, const uint8_t *name)
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
	/* What nobody else has is freed, the rest is the tenant's. */
	s->held = account_share(s->maker, s->bytes);
	s->maker = NULL;
	share_try_end(s);
}

void ipc_drop(struct worker *w, const uint8_t *name)
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

	static_assert(offsetof(struct sess_ipc_event, done) == 0, "written here");
	if (pwrite(s->fd, &all, sizeof(all), 0) != sizeof(all))
		log_debug("an event of a session that has ended: %m");
}

void ipc_end(struct worker *w)
{
	struct share *s, *tmp;

	list_for_each_safe (s, tmp, &w->tenant->shares, link) {
		struct share_user *u = find_user(s, w);

		if (u) {
			list_remove(&u->link);
			free(u);
		}
		if (s->maker == w) {
			if (s->kind == SESS_IPC_EVENT)
				all_done(s);
			let_go(s);
		} else if (u)
			share_try_end(s);
	}
}
