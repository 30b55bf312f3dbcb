/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "conn.h"

#define CONN_HASH 4096

/* First size of a buffer; it doubles up to CONN_BUF_ALLOC. */
#define BUF_MIN (16u << 10)

int conn_table_init(struct conn_table *t)
{
	memset(t, 0, sizeof(*t));
	t->slots = calloc(CONN_MAX, sizeof(*t->slots));
	t->hash = calloc(CONN_HASH, sizeof(*t->hash));
	if (!t->slots || !t->hash) {
		free(t->slots);
		free(t->hash);
		memset(t, 0, sizeof(*t));
		return -ENOMEM;
	}
	for (uint32_t i = CONN_MAX; i > 0; i--) {
		t->slots[i - 1].next = t->free_head;
		t->slots[i - 1].fd = -1;
		t->free_head = i;
	}
	return 0;
}

void conn_table_fini(struct conn_table *t)
{
	for (unsigned i = 0; t->slots && i < CONN_MAX; i++) {
		closep(&t->slots[i].fd);
		free(t->slots[i].buf);
	}
	free(t->slots);
	free(t->hash);
	memset(t, 0, sizeof(*t));
}

static uint32_t *hash_head(struct conn_table *t, uint32_t guest_port, uint32_t host_port)
{
	uint64_t k = ((uint64_t)host_port << 32 | guest_port) * 0x9e3779b97f4a7c15ull;

	return &t->hash[(k >> 40) % CONN_HASH];
}

struct conn *conn_find(struct conn_table *t, uint32_t guest_port, uint32_t host_port)
{
	uint32_t i = *hash_head(t, guest_port, host_port);

	while (i) {
		struct conn *c = &t->slots[i - 1];

		if (c->guest_port == guest_port && c->host_port == host_port)
			return c;
		i = c->next;
	}
	return NULL;
}

struct conn *conn_new(struct conn_table *t, uint32_t guest_port, uint32_t host_port)
{
	uint32_t *head = hash_head(t, guest_port, host_port);
	uint32_t i = t->free_head;
	struct conn *c;
	uint32_t gen;

	if (!i)
		return NULL;
	c = &t->slots[i - 1];
	t->free_head = c->next;
	gen = (c->gen + 1) & CONN_GEN_MASK;
	memset(c, 0, sizeof(*c));
	list_init(&c->ready);
	c->gen = gen;
	c->fd = -1;
	c->guest_port = guest_port;
	c->host_port = host_port;
	c->state = CONN_OPEN;
	c->next = *head;
	*head = i;
	t->n++;
	return c;
}

static void buf_drop(struct conn_table *t, struct conn *c)
{
	t->buffered -= c->buf_cap;
	free(c->buf);
	c->buf = NULL;
	c->buf_off = c->buf_len = c->buf_cap = 0;
}

void conn_close_fd(struct conn_table *t, struct conn *c)
{
	buf_drop(t, c);
	closep(&c->fd);
	c->fd = -1;
	c->can_read = false;
}

void conn_free(struct conn_table *t, struct conn *c)
{
	uint32_t *p = hash_head(t, c->guest_port, c->host_port);
	uint32_t i = conn_index(t, c) + 1;

	conn_close_fd(t, c);
	list_remove(&c->ready);
	while (*p != i)
		p = &t->slots[*p - 1].next;
	*p = c->next;
	c->state = CONN_FREE;
	c->next = t->free_head;
	t->free_head = i;
	t->n--;
}

static int buf_grow(struct conn_table *t, struct conn *c, uint32_t need)
{
	uint32_t cap = MAX(c->buf_cap, BUF_MIN);
	char *p;

	while (cap < need)
		cap *= 2;
	if (cap > c->buf_cap) {
		if (t->buffered + (cap - c->buf_cap) > CONN_BUDGET)
			return -ENOBUFS;
		p = realloc(c->buf, cap);
		if (!p)
			return -ENOMEM;
		t->buffered += cap - c->buf_cap;
		c->buf = p;
		c->buf_cap = cap;
	}
	return 0;
}

int conn_buffer(struct conn_table *t, struct conn *c, const struct iovec *iov, unsigned n)
{
	uint64_t add = 0;
	int r;

	for (unsigned i = 0; i < n; i++)
		add += iov[i].iov_len;
	if (c->buf_len + add > CONN_BUF_ALLOC)
		return -ENOBUFS;
	r = buf_grow(t, c, c->buf_len + (uint32_t)add);
	if (r < 0)
		return r;
	if (c->buf_off + c->buf_len + add > c->buf_cap) {
		memmove(c->buf, c->buf + c->buf_off, c->buf_len);
		c->buf_off = 0;
	}
	for (unsigned i = 0; i < n; i++) {
		memcpy(c->buf + c->buf_off + c->buf_len, iov[i].iov_base, iov[i].iov_len);
		c->buf_len += (uint32_t)iov[i].iov_len;
	}
	return 0;
}

int conn_flush(struct conn_table *t, struct conn *c)
{
	while (c->buf_len) {
		ssize_t n = send(c->fd, c->buf + c->buf_off, c->buf_len,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		c->fwd_cnt += (uint32_t)n;
		c->buf_off += (uint32_t)n;
		c->buf_len -= (uint32_t)n;
	}
	if (c->buf)
		buf_drop(t, c);
	return 0;
}
