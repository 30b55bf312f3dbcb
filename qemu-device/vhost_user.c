/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "vhost_user.h"

#define BIT(n) (1ull << (n))

/*
 * QEMU asks for the configuration space (CONFIG) without fail; memory slots one by one
 * lift its limit of eight regions, and with REPLY_ACK it waits until they are mapped.
 */
#define OFFERED_PROTOCOL                                                                 \
	(BIT(VU_PROTOCOL_F_MQ) | BIT(VU_PROTOCOL_F_REPLY_ACK) |                          \
	 BIT(VU_PROTOCOL_F_CONFIG) | BIT(VU_PROTOCOL_F_RESET_DEVICE) |                   \
	 BIT(VU_PROTOCOL_F_CONFIGURE_MEM_SLOTS))
#define OFFERED_FEATURES                                                                 \
	(BIT(VIRTIO_F_INDIRECT_DESC) | BIT(VHOST_USER_F_PROTOCOL) |                      \
	 BIT(VIRTIO_F_VERSION_1))

#define VRING_INDEX_MASK 0xffu
#define VRING_NO_FD      BIT(8)

/* Regions in a SET_MEM_TABLE; newer front ends with more use ADD_MEM_REG. */
#define TABLE_MAX_REGIONS 8

static const char *const request_names[] = {
	[VU_GET_FEATURES] = "GET_FEATURES",
	[VU_SET_FEATURES] = "SET_FEATURES",
	[VU_SET_OWNER] = "SET_OWNER",
	[VU_RESET_OWNER] = "RESET_OWNER",
	[VU_SET_MEM_TABLE] = "SET_MEM_TABLE",
	[VU_SET_VRING_NUM] = "SET_VRING_NUM",
	[VU_SET_VRING_ADDR] = "SET_VRING_ADDR",
	[VU_SET_VRING_BASE] = "SET_VRING_BASE",
	[VU_GET_VRING_BASE] = "GET_VRING_BASE",
	[VU_SET_VRING_KICK] = "SET_VRING_KICK",
	[VU_SET_VRING_CALL] = "SET_VRING_CALL",
	[VU_SET_VRING_ERR] = "SET_VRING_ERR",
	[VU_GET_PROTOCOL_FEATURES] = "GET_PROTOCOL_FEATURES",
	[VU_SET_PROTOCOL_FEATURES] = "SET_PROTOCOL_FEATURES",
	[VU_GET_QUEUE_NUM] = "GET_QUEUE_NUM",
	[VU_SET_VRING_ENABLE] = "SET_VRING_ENABLE",
	[VU_GET_CONFIG] = "GET_CONFIG",
	[VU_SET_CONFIG] = "SET_CONFIG",
	[VU_RESET_DEVICE] = "RESET_DEVICE",
	[VU_GET_MAX_MEM_SLOTS] = "GET_MAX_MEM_SLOTS",
	[VU_ADD_MEM_REG] = "ADD_MEM_REG",
	[VU_REM_MEM_REG] = "REM_MEM_REG",
};
static_assert(ARRAY_SIZE(request_names) == VU_NUM_REQUESTS, "a name for the last");

static const char *request_name(uint32_t request)
{
	if (request >= ARRAY_SIZE(request_names) || !request_names[request])
		return "?";
	return request_names[request];
}

struct vu_vring_state {
	uint32_t index;
	uint32_t num;
};

struct vu_vring_addr {
	uint32_t index;
	uint32_t flags;
	uint64_t desc, used, avail, log;
};

struct vu_region {
	uint64_t gpa, size, uva, mmap_off;
};

struct vu_mem_table {
	uint32_t n;
	uint32_t padding;
	struct vu_region r[TABLE_MAX_REGIONS];
};

struct vu_mem_reg {
	uint64_t padding;
	struct vu_region r;
};

struct vu_config {
	uint32_t offset;
	uint32_t size;
	uint32_t flags;
	uint8_t data[];
};

static_assert(sizeof(struct vu_hdr) == 12, "vhost-user ABI");
static_assert(sizeof(struct vu_vring_addr) == 40, "vhost-user ABI");
static_assert(sizeof(struct vu_mem_table) == 264, "vhost-user ABI");
static_assert(sizeof(struct vu_mem_reg) == 40, "vhost-user ABI");

void vu_init(struct vu *v, uint64_t cid, const struct vu_ops *ops, void *ctx)
{
	memset(v, 0, sizeof(*v));
	v->ops = ops;
	v->ctx = ctx;
	v->cid = cid;
	v->fd = -1;
	gmem_init(&v->mem);
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++)
		vq_init(&v->q[i]);
}

static void drop_message(struct vu *v)
{
	for (unsigned i = 0; i < v->n_fds; i++)
		closep(&v->fds[i]);
	v->n_fds = 0;
	v->have = 0;
}

static void stop_ring(struct vu *v, unsigned index)
{
	struct vq *q = &v->q[index];

	v->ops->ring_stop(v->ctx, index);
	q->started = false;
	q->used_known = false;
	q->broken = false;
	closep(&q->kick_fd);
	q->kick_fd = -1;
}

/* Back to the state before the first SET_VRING message; call descriptors stay. */
static void reset_rings(struct vu *v)
{
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++) {
		stop_ring(v, i);
		v->q[i].enabled = false;
		v->q[i].last_avail = 0;
		v->has_base[i] = false;
	}
	v->ops->reset(v->ctx);
}

void vu_attach(struct vu *v, int fd)
{
	v->fd = fd;
	v->features = 0;
	v->protocol_features = 0;
	drop_message(v);
}

void vu_detach(struct vu *v)
{
	reset_rings(v);
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++)
		vq_reset(&v->q[i]);
	gmem_clear(&v->mem);
	drop_message(v);
	closep(&v->fd);
	v->fd = -1;
	v->features = 0;
	v->protocol_features = 0;
}

/* Takes the only descriptor of the message. Returns it, or -EPROTO. */
static int take_one_fd(struct vu *v)
{
	int fd;

	if (v->n_fds != 1)
		return -EPROTO;
	fd = v->fds[0];
	v->n_fds = 0;
	return fd;
}

static int reply(struct vu *v, const void *payload, size_t size)
{
	unsigned char buf[sizeof(struct vu_hdr) + VU_MAX_PAYLOAD];
	struct vu_hdr h = {.request = v->hdr.request,
			   .flags = VU_VERSION | VU_F_REPLY,
			   .size = (uint32_t)size};
	ssize_t n;

	memcpy(buf, &h, sizeof(h));
	if (size)
		memcpy(buf + sizeof(h), payload, size);
	/* The front end waits for this; a full socket means that it broke the protocol.
	 */
	n = send(v->fd, buf, sizeof(h) + size, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	return (size_t)n == sizeof(h) + size ? 0 : -EPROTO;
}

static int reply_u64(struct vu *v, uint64_t value)
{
	return reply(v, &value, sizeof(value));
}

/* Copies a payload of exactly size bytes out. Returns 0 or -EPROTO. */
static int payload_get(const struct vu *v, void *ret, size_t size)
{
	if (v->hdr.size != size)
		return -EPROTO;
	memcpy(ret, v->payload, size);
	return 0;
}

/* A changed memory map moves the rings. */
static void remap_rings(struct vu *v)
{
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++) {
		if (vq_map(&v->q[i], &v->mem) == 0 && v->q[i].started)
			v->ops->ring_ready(v->ctx, i);
	}
}

static int set_mem_table(struct vu *v)
{
	struct vu_mem_table t = {0};
	int r = 0;

	if (v->hdr.size < 8 || v->hdr.size > sizeof(t))
		return -EPROTO;
	memcpy(&t, v->payload, v->hdr.size);
	if (t.n > TABLE_MAX_REGIONS || t.n != v->n_fds ||
	    v->hdr.size < 8 + t.n * sizeof(t.r[0]))
		return -EPROTO;
	gmem_clear(&v->mem);
	for (unsigned i = 0; i < t.n && r == 0; i++) {
		const struct vu_region *g = &t.r[i];

		r = gmem_add(&v->mem, g->gpa, g->size, g->uva, g->mmap_off, v->fds[i]);
		if (r == 0)
			v->fds[i] = -1;
	}
	remap_rings(v);
	return r;
}

static int change_mem_reg(struct vu *v, bool add)
{
	struct vu_mem_reg m;
	int r = payload_get(v, &m, sizeof(m));

	if (r < 0)
		return r;
	if (add) {
		_cleanup_close_ int fd = take_one_fd(v);

		if (fd < 0)
			return fd;
		r = gmem_add(&v->mem, m.r.gpa, m.r.size, m.r.uva, m.r.mmap_off, fd);
		if (r == 0)
			(void)fd_steal(&fd);
	} else {
		r = gmem_remove(&v->mem, m.r.gpa, m.r.size, m.r.uva);
	}
	remap_rings(v);
	return r;
}

/* The ring that a vring state message names. Returns 0 or -EPROTO. */
static int get_state(struct vu *v, struct vu_vring_state *ret_state, struct vq **ret_q)
{
	int r = payload_get(v, ret_state, sizeof(*ret_state));

	if (r < 0)
		return r;
	if (ret_state->index >= VU_NUM_QUEUES)
		return -EPROTO;
	*ret_q = &v->q[ret_state->index];
	return 0;
}

static int set_vring_num(struct vu *v)
{
	struct vu_vring_state s;
	struct vq *q;
	int r = get_state(v, &s, &q);

	if (r < 0)
		return r;
	if (s.num == 0 || s.num > VQ_MAX_NUM || (s.num & (s.num - 1)) || q->started)
		return -EPROTO;
	q->num = s.num;
	q->desc = NULL; /* until the next SET_VRING_ADDR */
	return 0;
}

static int set_vring_base(struct vu *v)
{
	struct vu_vring_state s;
	struct vq *q;
	int r = get_state(v, &s, &q);

	if (r < 0)
		return r;
	if (s.num > UINT16_MAX || q->started)
		return -EPROTO;
	v->ops->ring_base(v->ctx, s.index,
			  v->has_base[s.index] && v->base[s.index] == s.num);
	q->last_avail = (uint16_t)s.num;
	return 0;
}

static int set_vring_addr(struct vu *v)
{
	struct vu_vring_addr a;
	struct vq *q;
	int r = payload_get(v, &a, sizeof(a));

	if (r < 0)
		return r;
	if (a.index >= VU_NUM_QUEUES || a.flags)
		return -EPROTO;
	q = &v->q[a.index];
	q->desc_uva = a.desc;
	q->avail_uva = a.avail;
	q->used_uva = a.used;
	if (!q->started)
		q->used_known = false;
	r = vq_map(q, &v->mem);
	if (r == 0 && q->started)
		v->ops->ring_ready(v->ctx, a.index);
	return r;
}

static int get_vring_base(struct vu *v)
{
	struct vu_vring_state s;
	struct vq *q;
	int r = get_state(v, &s, &q);

	if (r < 0)
		return r;
	if (q->desc)
		(void)vq_set_notify(q, true);
	stop_ring(v, s.index);
	v->has_base[s.index] = true;
	v->base[s.index] = q->last_avail;
	s.num = q->last_avail;
	return reply(v, &s, sizeof(s));
}

static int start_ring(struct vu *v, unsigned index, int fd)
{
	struct vq *q = &v->q[index];

	v->ops->ring_stop(v->ctx, index);
	closep(&q->kick_fd);
	q->kick_fd = fd;
	if (!q->started) {
		q->started = true;
		q->broken = false;
		q->notify_off = true; /* so that the first vq_set_notify() writes */
		q->pushed = 0;
	}
	if (!(v->features & BIT(VHOST_USER_F_PROTOCOL)))
		q->enabled = true;
	v->ops->ring_ready(v->ctx, index);
	return 0;
}

/* SET_VRING_KICK, SET_VRING_CALL and SET_VRING_ERR. */
static int set_vring_fd(struct vu *v)
{
	uint64_t u;
	unsigned index;
	int fd = -1;
	int r = payload_get(v, &u, sizeof(u));

	if (r < 0)
		return r;
	index = (unsigned)(u & VRING_INDEX_MASK);
	if (index >= VU_NUM_QUEUES)
		return -EPROTO;
	if (!(u & VRING_NO_FD)) {
		fd = take_one_fd(v);
		if (fd < 0)
			return fd;
	}
	switch (v->hdr.request) {
	case VU_SET_VRING_KICK:
		/* Without a descriptor we would have to poll: idle must cost nothing. */
		return fd < 0 ? -EPROTO : start_ring(v, index, fd);
	case VU_SET_VRING_CALL:
		closep(&v->q[index].call_fd);
		v->q[index].call_fd = fd;
		return 0;
	default:
		closep(&v->q[index].err_fd);
		v->q[index].err_fd = fd;
		return 0;
	}
}

static int set_vring_enable(struct vu *v)
{
	struct vu_vring_state s;
	struct vq *q;
	int r = get_state(v, &s, &q);

	if (r < 0)
		return r;
	if (s.num > 1)
		return -EPROTO;
	q->enabled = s.num;
	if (q->enabled)
		v->ops->ring_ready(v->ctx, s.index);
	return 0;
}

/* The configuration space is the guest's CID, 8 bytes, read-only. */
static int get_config(struct vu *v)
{
	unsigned char buf[VU_MAX_PAYLOAD];
	struct vu_config c;

	if (v->hdr.size < sizeof(c))
		return -EPROTO;
	memcpy(&c, v->payload, sizeof(c));
	if (c.size != v->hdr.size - sizeof(c))
		return -EPROTO;
	/* A refusal is an answer without payload. */
	if (c.offset > sizeof(v->cid) || c.size > sizeof(v->cid) - c.offset)
		return reply(v, NULL, 0);
	memcpy(buf, &c, sizeof(c));
	memcpy(buf + sizeof(c), (const char *)&v->cid + c.offset, c.size);
	return reply(v, buf, sizeof(c) + c.size);
}

static int set_features(struct vu *v, uint64_t offered, uint64_t *ret_features)
{
	uint64_t f;
	int r = payload_get(v, &f, sizeof(f));

	if (r < 0)
		return r;
	if (f & ~offered)
		return -EPROTO;
	*ret_features = f;
	return 0;
}

static int handle(struct vu *v, bool *ret_replied)
{
	*ret_replied = true;
	switch (v->hdr.request) {
	case VU_GET_FEATURES:
		return reply_u64(v, OFFERED_FEATURES);
	case VU_GET_PROTOCOL_FEATURES:
		return reply_u64(v, OFFERED_PROTOCOL);
	case VU_GET_QUEUE_NUM:
		return reply_u64(v, VU_NUM_QUEUES);
	case VU_GET_MAX_MEM_SLOTS:
		return reply_u64(v, GMEM_MAX_REGIONS);
	case VU_GET_CONFIG:
		return get_config(v);
	case VU_GET_VRING_BASE:
		return get_vring_base(v);
	}
	*ret_replied = false;
	switch (v->hdr.request) {
	case VU_SET_FEATURES:
		return set_features(v, OFFERED_FEATURES, &v->features);
	case VU_SET_PROTOCOL_FEATURES:
		return set_features(v, OFFERED_PROTOCOL, &v->protocol_features);
	case VU_SET_OWNER:
		return 0;
	case VU_RESET_OWNER:
	case VU_RESET_DEVICE:
		reset_rings(v);
		return 0;
	case VU_SET_MEM_TABLE:
		return set_mem_table(v);
	case VU_ADD_MEM_REG:
		return change_mem_reg(v, true);
	case VU_REM_MEM_REG:
		return change_mem_reg(v, false);
	case VU_SET_VRING_NUM:
		return set_vring_num(v);
	case VU_SET_VRING_ADDR:
		return set_vring_addr(v);
	case VU_SET_VRING_BASE:
		return set_vring_base(v);
	case VU_SET_VRING_KICK:
	case VU_SET_VRING_CALL:
	case VU_SET_VRING_ERR:
		return set_vring_fd(v);
	case VU_SET_VRING_ENABLE:
		return set_vring_enable(v);
	default: /* SET_CONFIG too: nothing there can be set */
		return -EOPNOTSUPP;
	}
}

int vu_dispatch(struct vu *v)
{
	bool replied;
	int r;

	log_debug("vhost-user request %u, %s: %u bytes, %u descriptors", v->hdr.request,
		  request_name(v->hdr.request), v->hdr.size, v->n_fds);
	r = handle(v, &replied);
	if (!replied && (v->hdr.flags & VU_F_NEED_REPLY) &&
	    (v->protocol_features & BIT(VU_PROTOCOL_F_REPLY_ACK)) && r != -EPROTO)
		r = reply_u64(v, r == 0 ? 0 : 1);
	if (r < 0)
		log_debug("vhost-user request %u, %s, failed: %s", v->hdr.request,
			  request_name(v->hdr.request), strerror(-r));
	drop_message(v);
	return r;
}

/* Receives up to len bytes and any descriptors. Returns bytes, or -errno. */
static ssize_t receive_part(struct vu *v, void *buf, size_t len)
{
	int fds[VU_MAX_FDS];
	ssize_t n = fd_recv(v->fd, buf, len, fds, VU_MAX_FDS);

	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return n;
	for (unsigned i = 0; i < VU_MAX_FDS && fds[i] >= 0; i++) {
		if (v->n_fds < VU_MAX_FDS)
			v->fds[v->n_fds++] = fds[i];
		else
			close(fds[i]);
	}
	return n;
}

int vu_receive(struct vu *v)
{
	for (;;) {
		ssize_t n;
		int r;

		/* Exact sizes, so that descriptors stay with the message they came with.
		 */
		if (v->have < sizeof(v->hdr)) {
			n = receive_part(v, (char *)&v->hdr + v->have,
					 sizeof(v->hdr) - v->have);
			if (n < 0)
				return n == -EAGAIN ? 0 : (int)n;
			v->have += (size_t)n;
			if (v->have < sizeof(v->hdr))
				continue;
			if ((v->hdr.flags & VU_VERSION_MASK) != VU_VERSION ||
			    v->hdr.size > sizeof(v->payload))
				return -EPROTO;
		}
		while (v->have < sizeof(v->hdr) + v->hdr.size) {
			size_t at = v->have - sizeof(v->hdr);

			n = receive_part(v, v->payload + at, v->hdr.size - at);
			if (n < 0)
				return n == -EAGAIN ? 0 : (int)n;
			v->have += (size_t)n;
		}
		r = vu_dispatch(v);
		if (r < 0)
			return r;
	}
}
