/* SPDX-License-Identifier: Apache-2.0 */
/* Life of the device and of its connections: their ends, and which of them are looked at. */
#include <string.h>

#include "vsock.h"

int vsock_init(struct vsock *s, uint64_t cid, const struct vu_ops *ops, void *ctx)
{
	memset(s, 0, sizeof(*s));
	vu_init(&s->vu, cid, ops, ctx);
	s->ctx = ctx;
	list_init(&s->ready);
	list_init(&s->waiting);
	return conn_table_init(&s->conns);
}

void vsock_fini(struct vsock *s)
{
	vu_detach(&s->vu);
	conn_table_fini(&s->conns);
}

void vsock_conn_ready(struct vsock *s, struct conn *c)
{
	if (list_empty(&c->ready))
		list_append(&s->ready, &c->ready);
}

void vsock_conn_reset(struct vsock *s, struct conn *c)
{
	conn_close_fd(&s->conns, c);
	if (c->state == CONN_WAITING)
		list_remove(&c->ready);
	c->state = CONN_RESET;
	c->ctl = 0;
	vsock_conn_ready(s, c);
}

void vsock_conn_forget(struct vsock *s, struct conn *c)
{
	uint32_t index = conn_index(&s->conns, c);

	conn_free(&s->conns, c);
	if (s->note)
		s->note(s->ctx, c, index);
}

void vsock_orphan_reset(struct vsock *s, const struct vsock_hdr *h)
{
	struct vsock_orphan *o;

	if (h->op == VSOCK_OP_RST || s->n_orphans == VSOCK_MAX_ORPHANS)
		return;
	o = &s->orphans[(s->orphan_head + s->n_orphans++) % VSOCK_MAX_ORPHANS];
	o->src_cid = h->dst_cid;
	o->src_port = h->dst_port;
	o->dst_port = h->src_port;
	o->type = h->type;
}

void vsock_drop_all(struct vsock *s)
{
	for (unsigned i = 0; s->conns.n && i < CONN_MAX; i++) {
		if (s->conns.slots[i].state != CONN_FREE)
			vsock_conn_forget(s, &s->conns.slots[i]);
	}
	s->n_orphans = 0;
}

void vsock_reset_all(struct vsock *s)
{
	for (unsigned i = 0; s->conns.n && i < CONN_MAX; i++) {
		if (s->conns.slots[i].state != CONN_FREE)
			vsock_conn_reset(s, &s->conns.slots[i]);
	}
}
