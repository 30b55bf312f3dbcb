/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: sendmsg fcntl close */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/macros.h"
#include "ipc/share.h"
#include "worker/holdings.h"

struct held_host {
	struct list link; /* holdings.host */
	struct msg_has_host has;
};

/* One part of a share that was made here. */
struct held_share {
	struct list link; /* holdings.shares, in the order in which they were made */
	struct msg_ipc_export has;
	int fd; /* -1: none */
};

struct held_open {
	struct list link; /* holdings.opens */
	struct msg_has_open has;
};

void holdings_init(struct holdings *h)
{
	*h = (struct holdings){0};
	list_init(&h->host);
	list_init(&h->shares);
	list_init(&h->opens);
}

static void share_free(struct held_share *s)
{
	list_remove(&s->link);
	closep(&s->fd);
	free(s);
}

void holdings_fini(struct holdings *h)
{
	struct held_host *g, *g_next;
	struct held_share *s, *s_next;
	struct held_open *o, *o_next;

	list_for_each_safe (g, g_next, &h->host, link) {
		list_remove(&g->link);
		free(g);
	}
	list_for_each_safe (s, s_next, &h->shares, link)
		share_free(s);
	list_for_each_safe (o, o_next, &h->opens, link) {
		list_remove(&o->link);
		free(o);
	}
}

static bool same_name(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, 16);
}

/* ---- host memory ---- */

static void add_host(struct holdings *h, uint64_t bytes, uint64_t offset)
{
	struct held_host *g = malloc(sizeof(*g));

	if (!g) {
		h->lost = true;
		return;
	}
	g->has = (struct msg_has_host){.bytes = bytes, .window_offset = offset};
	list_append(&h->host, &g->link);
}

/* Outside a window all offsets are the same, and so are pieces of one size. */
static void remove_host(struct holdings *h, const struct msg_host_uncharge *m)
{
	struct held_host *g;

	list_for_each (g, &h->host, link) {
		if (g->has.bytes != m->bytes || g->has.window_offset != m->window_offset)
			continue;
		list_remove(&g->link);
		free(g);
		return;
	}
}

/* ---- shares ---- */

static void add_share(struct holdings *h, const struct msg_ipc_export *x, int fd,
		      const uint8_t *name)
{
	struct held_share *s = malloc(sizeof(*s));

	if (!s) {
		h->lost = true;
		return;
	}
	s->has = *x;
	memcpy(s->has.name, name, sizeof(s->has.name));
	s->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	h->lost |= fd >= 0 && s->fd < 0;
	list_append(&h->shares, &s->link);
}

/* A share that is complete takes its charge along. */
static void drop_share(struct holdings *h, const uint8_t *name)
{
	uint64_t here = 0, evicted = 0;
	unsigned n = 0, n_parts = 0;
	struct held_share *s, *next;

	list_for_each_safe (s, next, &h->shares, link) {
		if (!same_name(s->has.name, name))
			continue;
		n_parts = s->has.n_parts;
		n++;
		*(s->has.evicted ? &evicted : &here) += s->has.bytes;
		share_free(s);
	}
	if (n < n_parts)
		return;
	h->sums.device -= here;
	h->sums.evicted -= evicted;
}

static struct held_open *find_open(struct holdings *h, const uint8_t *name)
{
	struct held_open *o;

	list_for_each (o, &h->opens, link) {
		if (same_name(o->has.name, name))
			return o;
	}
	return NULL;
}

static void add_open(struct holdings *h, const struct msg_ipc_open *x)
{
	struct held_open *o = find_open(h, x->name);

	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o) {
			h->lost = true;
			return;
		}
		o->has.kind = x->kind;
		memcpy(o->has.name, x->name, sizeof(o->has.name));
		list_append(&h->opens, &o->link);
	}
	o->has.n++;
}

static void close_open(struct holdings *h, const uint8_t *name)
{
	struct held_open *o = find_open(h, name);

	if (!o || --o->has.n)
		return;
	list_remove(&o->link);
	free(o);
}

/* ---- messages ---- */

void holdings_told(struct holdings *h, const struct msg *m)
{
	struct msg_resumed *s = &h->sums;

	switch (m->type) {
	case MSG_RECLAIM:
		s->out_id = m->id;
		s->out_room = m->reclaim.host_room;
		break;
	case MSG_RESTORE:
		s->in_id = m->id;
		s->returning = m->restore.bytes;
		break;
	case MSG_NEED_GRANTED:
		s->returning = m->need_granted.bytes;
		s->in_id = s->returning ? m->id : 0;
		break;
	case MSG_RESIDENT_GRANTED:
		s->returning =
			m->resident_granted.result < 0 ? 0 : m->resident_granted.bytes;
		s->in_id = s->returning ? m->id : 0;
		break;
	default:
		break;
	}
}

static void left(struct msg_resumed *s, uint64_t bytes)
{
	s->device -= bytes;
	s->evicted += bytes;
	s->out_room -= MIN(bytes, s->out_room);
}

void holdings_said(struct holdings *h, const struct msg *m)
{
	struct msg_resumed *s = &h->sums;

	switch (m->type) {
	case MSG_LEFT:
		left(s, m->left.bytes);
		break;
	case MSG_RECLAIMED:
		left(s, m->moved.bytes);
		s->out_id = 0;
		s->out_room = 0;
		s->at_gate = m->moved.will_wait;
		break;
	case MSG_RESTORED:
		s->device += m->moved.bytes;
		s->evicted -= m->moved.bytes;
		s->in_id = 0;
		s->returning = 0;
		s->at_gate = m->moved.will_wait;
		break;
	case MSG_QUIESCED:
		s->at_gate = 0;
		break;
	case MSG_EVICTED_FREED:
		s->evicted -= m->evicted_freed.bytes;
		break;
	case MSG_HOST_UNCHARGE:
		remove_host(h, &m->host_uncharge);
		break;
	case MSG_IPC_CLOSE:
		close_open(h, m->ipc_close.name);
		break;
	default:
		break;
	}
}

void holdings_answered(struct holdings *h, const struct msg *asked, int sent_fd,
		       const struct msg *answer)
{
	switch (answer->type) {
	case MSG_CHARGED:
		if (answer->charged.result < 0)
			break;
		h->sums.device += answer->charged.bytes;
		h->sums.evicted += answer->charged.evicted;
		break;
	case MSG_WMEM_CHARGED:
		if (answer->wmem_charged.result == 0)
			h->sums.wmem += asked->wmem_charge.bytes;
		break;
	case MSG_HOST_CHARGED:
		if (answer->host_charged.result == 0)
			add_host(h, asked->host_charge.bytes,
				 answer->host_charged.window_offset);
		break;
	case MSG_IPC_EXPORTED:
		if (answer->ipc_exported.result == 0)
			add_share(h, &asked->ipc_export, sent_fd,
				  answer->ipc_exported.name);
		break;
	case MSG_IPC_OPENED:
		if (answer->ipc_opened.result == 0 && !asked->ipc_open.part)
			add_open(h, &asked->ipc_open);
		break;
	case MSG_IPC_DROPPED:
		drop_share(h, asked->ipc_drop.name);
		break;
	default:
		break;
	}
}

int holdings_tell(const struct holdings *h, int sock, uint32_t id, uint64_t session,
		  bool can_move)
{
	const struct held_share *s;
	const struct held_host *g;
	const struct held_open *o;
	struct msg m = {.id = id};
	int e = h->lost ? -ENOMEM : 0;

	m.type = MSG_HAS_HOST;
	list_for_each (g, &h->host, link) {
		m.has_host = g->has;
		e = e < 0 ? e : msg_send(sock, &m, -1, -1);
	}
	m.type = MSG_HAS_SHARE;
	list_for_each (s, &h->shares, link) {
		m.ipc_export = s->has;
		e = e < 0 ? e : msg_send(sock, &m, s->fd, -1);
	}
	m.type = MSG_HAS_OPEN;
	list_for_each (o, &h->opens, link) {
		m.has_open = o->has;
		e = e < 0 ? e : msg_send(sock, &m, -1, -1);
	}
	m.type = MSG_RESUMED;
	m.resumed = h->sums;
	m.resumed.session = session;
	m.resumed.can_move = can_move;
	return e < 0 ? e : msg_send(sock, &m, -1, -1);
}
