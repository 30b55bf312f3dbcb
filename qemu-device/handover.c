/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/sockfile.h"
#include "handover.h"
#include "server.h"

/* Byte by which the successor confirms that it has everything. */
#define ACK              'k'

#define HANDOVER_MAX_FDS 3

struct record {
	struct handover_msg m;
	char data[HANDOVER_MAX_DATA];
	int fds[HANDOVER_MAX_FDS];
};

static int unix_socket(const char *path, struct sockaddr_un *ret_addr)
{
	int fd, r = sockfile_address(path, ret_addr);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

static int set_timeouts(int fd)
{
	struct timeval t = {.tv_sec = HANDOVER_TIMEOUT_MS / 1000};

	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) < 0)
		return -errno;
	return 0;
}

int handover_listen(const char *path)
{
	struct sockaddr_un a;
	_cleanup_close_ int fd = unix_socket(path, &a);
	mode_t old;
	int r;

	if (fd < 0)
		return fd;
	r = sockfile_clear(path, false);
	if (r < 0)
		return r;
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	umask(old);
	if (r < 0)
		return r;
	if (listen(fd, 1) < 0)
		return -errno;
	return fd_steal(&fd);
}

/* Sends one record; fds[i] < 0 is left out and marked so. */
static int put(int to, struct handover_msg *m, const void *data, const int *fds,
	       unsigned n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * HANDOVER_MAX_FDS)];
	} ctl = {0};
	struct iovec iov[2] = {{m, sizeof(*m)}, {(void *)data, m->n_data}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = data ? 2 : 1};
	int real[HANDOVER_MAX_FDS];
	unsigned n_real = 0;

	m->version = HANDOVER_VERSION;
	for (unsigned i = 0; i < n; i++) {
		if (fds[i] < 0)
			continue;
		m->fd_mask |= 1u << i;
		real[n_real++] = fds[i];
	}
	if (n_real) {
		struct cmsghdr *c;

		msg.msg_control = ctl.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_real);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_real);
		memcpy(CMSG_DATA(c), real, sizeof(int) * n_real);
	}
	return sendmsg(to, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int put_queue(int to, const struct vu *v, unsigned i)
{
	const struct vq *q = &v->q[i];
	int fds[] = {q->kick_fd, q->call_fd, q->err_fd};
	struct handover_msg m = {
		.kind = HANDOVER_QUEUE,
		.arg = {i, q->num, q->desc_uva, q->avail_uva, q->used_uva, q->last_avail,
			q->used_idx, q->used_known, q->started, q->enabled, q->broken,
			v->has_base[i], v->base[i]},
	};

	return put(to, &m, NULL, fds, ARRAY_SIZE(fds));
}

static int put_conn(int to, const struct conn *c)
{
	struct handover_msg m = {
		.kind = HANDOVER_CONN,
		.arg = {c->guest_port, c->host_port, c->state, c->peer_buf_alloc,
			c->peer_fwd_cnt, c->tx_cnt, c->fwd_cnt, c->told_fwd_cnt, c->ctl,
			c->shut_guest, c->shut_host, c->can_read, c->hung_up,
			c->write_dead, c->asked, c->buf_len},
	};
	int r = put(to, &m, NULL, &c->fd, 1);

	for (uint32_t at = 0; r == 0 && at < c->buf_len; at += HANDOVER_MAX_DATA) {
		struct handover_msg d = {
			.kind = HANDOVER_DATA,
			.n_data = MIN(c->buf_len - at, HANDOVER_MAX_DATA),
		};

		r = put(to, &d, c->buf + c->buf_off + at, NULL, 0);
	}
	return r;
}

/* The device without its connections. */
static int put_device(int to, const struct server *s)
{
	const struct vu *v = &s->dev.vu;
	int listen[] = {s->listen_fd, s->handover_fd};
	struct handover_msg l = {.kind = HANDOVER_LISTEN};
	struct handover_msg f = {
		.kind = HANDOVER_FRONT,
		.arg = {v->cid, v->features, v->protocol_features},
	};
	int r = put(to, &l, NULL, listen, ARRAY_SIZE(listen));

	if (r == 0)
		r = put(to, &f, NULL, &v->fd, 1);
	for (unsigned i = 0; r == 0 && i < v->mem.n; i++) {
		const struct gmem_region *g = &v->mem.r[i];
		struct handover_msg m = {
			.kind = HANDOVER_REGION,
			.arg = {g->gpa, g->size, g->uva, g->mmap_off},
		};

		r = put(to, &m, NULL, &g->fd, 1);
	}
	for (unsigned i = 0; r == 0 && i < VU_NUM_QUEUES; i++)
		r = put_queue(to, v, i);
	return r;
}

static int put_end(int to)
{
	struct handover_msg m = {.kind = HANDOVER_END};

	return put(to, &m, NULL, NULL, 0);
}

int handover_snapshot(struct server *s)
{
	int r = put_device(s->supervisor_fd, s);

	return r < 0 ? r : put_end(s->supervisor_fd);
}

static int put_everything(int to, struct server *s)
{
	struct vsock *d = &s->dev;
	int r = put_device(to, s);

	for (unsigned i = 0; r == 0 && i < CONN_MAX; i++) {
		if (d->conns.slots[i].state != CONN_FREE)
			r = put_conn(to, &d->conns.slots[i]);
	}
	for (unsigned i = 0; r == 0 && i < d->n_orphans; i++) {
		const struct vsock_orphan *o =
			&d->orphans[(d->orphan_head + i) % VSOCK_MAX_ORPHANS];
		struct handover_msg m = {
			.kind = HANDOVER_ORPHAN,
			.arg = {o->src_cid, o->src_port, o->dst_port, o->type},
		};

		r = put(to, &m, NULL, NULL, 0);
	}
	return r < 0 ? r : put_end(to);
}

int handover_offer(struct server *s)
{
	_cleanup_close_ int fd = accept4(s->handover_fd, NULL, NULL, SOCK_CLOEXEC);
	struct ucred u = {0};
	socklen_t len = sizeof(u);
	char ack = 0;
	int r;

	if (fd < 0)
		return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &len) < 0)
		return -errno;
	if (u.uid != 0 && u.uid != geteuid()) {
		log_warning("user %u may not take the device over", u.uid);
		return -EPERM;
	}
	r = set_timeouts(fd);
	if (r == 0)
		r = put_everything(fd, s);
	if (r == 0 && recv(fd, &ack, 1, 0) < 0)
		r = -errno;
	if (r == 0 && ack != ACK)
		r = -EPROTO;
	if (r < 0)
		log_warning("process %d did not take the device over: %s", u.pid,
			    strerror(-r));
	else
		log_info("process %d took the device over", u.pid);
	return r;
}

/* Receives one record. Its descriptors are the caller's. Returns 0 or -errno. */
static int get(int from, struct record *rec)
{
	int fds[HANDOVER_MAX_FDS];
	ssize_t n =
		fd_recv(from, rec, offsetof(struct record, fds), fds, HANDOVER_MAX_FDS);
	unsigned at = 0;

	for (unsigned i = 0; i < HANDOVER_MAX_FDS; i++)
		rec->fds[i] = -1;
	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return (int)n;
	for (unsigned i = 0; i < HANDOVER_MAX_FDS; i++) {
		if ((rec->m.fd_mask & (1u << i)) && at < HANDOVER_MAX_FDS)
			rec->fds[i] = fds[at++];
	}
	while (at < HANDOVER_MAX_FDS)
		closep(&fds[at++]);
	if ((size_t)n < sizeof(rec->m) || rec->m.version != HANDOVER_VERSION ||
	    (size_t)n != sizeof(rec->m) + rec->m.n_data)
		return -EPROTO;
	return 0;
}

/* Replaces a descriptor of an earlier record by that of a later one. */
static void take_fd(int *to, int *from)
{
	closep(to);
	*to = fd_steal(from);
}

static int take_queue(struct server *s, struct record *rec, int after_crash)
{
	const uint64_t *a = rec->m.arg;
	struct vu *v = &s->dev.vu;
	struct vq *q;

	if (a[0] >= VU_NUM_QUEUES || a[1] > VQ_MAX_NUM || (a[1] & (a[1] - 1)))
		return -EPROTO;
	q = &v->q[a[0]];
	q->num = (unsigned)a[1];
	q->desc_uva = a[2];
	q->avail_uva = a[3];
	q->used_uva = a[4];
	q->last_avail = (uint16_t)a[5];
	q->used_idx = (uint16_t)a[6];
	q->used_known = a[7] && !after_crash;
	q->started = a[8];
	q->enabled = a[9];
	q->broken = a[10];
	v->has_base[a[0]] = a[11];
	v->base[a[0]] = (uint16_t)a[12];
	take_fd(&q->kick_fd, &rec->fds[0]);
	take_fd(&q->call_fd, &rec->fds[1]);
	take_fd(&q->err_fd, &rec->fds[2]);
	q->notify_off = true;
	q->pushed = 1; /* a crash may have come before the interrupt */
	if (vq_map(q, &v->mem) < 0)
		return q->started ? -EFAULT : 0;
	/* Chains are given back in order: where the used ring ends, work begins. */
	if (after_crash && q->started)
		q->last_avail = q->used_idx;
	return 0;
}

static int take_conn(struct server *s, struct record *rec, struct conn **ret_conn)
{
	const uint64_t *a = rec->m.arg;
	struct conn *c;

	if (a[2] == CONN_FREE || a[2] >= CONN_NUM_STATES ||
	    (a[2] == CONN_OPEN) != (rec->fds[0] >= 0) ||
	    conn_find(&s->dev.conns, (uint32_t)a[0], (uint32_t)a[1]))
		return -EPROTO;
	c = conn_new(&s->dev.conns, (uint32_t)a[0], (uint32_t)a[1]);
	if (!c)
		return -ENOSPC;
	c->fd = fd_steal(&rec->fds[0]);
	c->state = (enum conn_state)a[2];
	c->peer_buf_alloc = (uint32_t)a[3];
	c->peer_fwd_cnt = (uint32_t)a[4];
	c->tx_cnt = (uint32_t)a[5];
	c->fwd_cnt = (uint32_t)a[6];
	c->told_fwd_cnt = (uint32_t)a[7];
	c->ctl = (uint8_t)a[8];
	c->shut_guest = (uint8_t)a[9];
	c->shut_host = (uint8_t)a[10];
	c->can_read = a[11];
	c->hung_up = a[12];
	c->write_dead = a[13];
	c->asked = a[14];
	*ret_conn = c;
	return 0;
}

static int take_orphan(struct server *s, const uint64_t *a)
{
	struct vsock_orphan *o;

	if (s->dev.n_orphans == VSOCK_MAX_ORPHANS)
		return -EPROTO;
	o = &s->dev.orphans[s->dev.n_orphans++];
	o->src_cid = a[0];
	o->src_port = (uint32_t)a[1];
	o->dst_port = (uint32_t)a[2];
	o->type = (uint16_t)a[3];
	return 0;
}

/* Returns 1 for the last record, 0, or -errno. last is the connection before. */
static int take(struct server *s, struct record *rec, int after_crash, struct conn **last)
{
	const uint64_t *a = rec->m.arg;
	struct vu *v = &s->dev.vu;
	int r;

	switch (rec->m.kind) {
	case HANDOVER_LISTEN:
		take_fd(&s->listen_fd, &rec->fds[0]);
		take_fd(&s->handover_fd, &rec->fds[1]);
		return 0;
	case HANDOVER_FRONT:
		v->cid = a[0];
		take_fd(&v->fd, &rec->fds[0]);
		v->features = a[1];
		v->protocol_features = a[2];
		return 0;
	case HANDOVER_REGION:
		r = gmem_add(&v->mem, a[0], a[1], a[2], a[3], rec->fds[0]);
		if (r == 0)
			(void)fd_steal(&rec->fds[0]);
		return r;
	case HANDOVER_QUEUE:
		return take_queue(s, rec, after_crash);
	case HANDOVER_CONN:
		return take_conn(s, rec, last);
	case HANDOVER_DATA: {
		struct iovec iov = {rec->data, rec->m.n_data};

		return *last ? conn_buffer(&s->dev.conns, *last, &iov, 1) : -EPROTO;
	}
	case HANDOVER_ORPHAN:
		return take_orphan(s, a);
	case HANDOVER_END:
		return 1;
	default:
		return -EPROTO;
	}
}

int handover_receive(struct server *s, int fd, int after_crash)
{
	_cleanup_free_ struct record *rec = malloc(sizeof(*rec));
	struct conn *last = NULL;
	int r;

	if (!rec)
		return -ENOMEM;
	do {
		r = get(fd, rec);
		if (r == 0)
			r = take(s, rec, after_crash, &last);
		for (unsigned i = 0; i < HANDOVER_MAX_FDS; i++)
			closep(&rec->fds[i]);
	} while (r == 0);
	return r < 0 ? r : 0;
}

int handover_ask(const char *path)
{
	struct sockaddr_un a;
	_cleanup_close_ int fd = unix_socket(path, &a);
	int r;

	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	r = set_timeouts(fd);
	return r < 0 ? r : fd_steal(&fd);
}

int handover_take(struct server *s, int fd)
{
	char ack = ACK;
	int r = handover_receive(s, fd, 0);

	if (r == 0 && send(fd, &ack, 1, MSG_NOSIGNAL) < 0)
		r = -errno;
	return r;
}
