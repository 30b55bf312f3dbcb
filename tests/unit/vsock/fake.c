/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "handover.h"
#include "fake.h"

#define RING_GPA(i) (0x10000u + (i)*0x10000u)
/* Receive buffers lie across the seam of the two regions, packets of the guest above. */
#define RX_GPA (FAKE_SPLIT - 100 * FAKE_RX_BUF - 50)
#define TX_GPA (2u << 20)

/* Tests are single-threaded but for the one that hands over. */
static struct fake *current;

static int fake_connect(void *ctx, uint32_t port)
{
	struct fake *f = current;
	int p[2];

	if (f->refuse || port != FAKE_PORT)
		return f->refuse ? -f->refuse : -ENOENT;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, p) < 0)
		return -errno;
	cr_assert(f->n_host < FAKE_MAX_CONNS);
	f->host[f->n_host++] = p[1];
	return p[0];
}

void fake_init(struct fake *f, const char *handover)
{
	int p[2];

	memset(f, 0, sizeof(*f));
	current = f;
	f->s = calloc(1, sizeof(*f->s));
	cr_assert_eq(server_init(f->s, FAKE_CID), 0);
	f->s->dev.connect = fake_connect;
	f->memfd = fd_memfd("fake-ram", FAKE_RAM);
	f->ram = mmap(NULL, FAKE_RAM, PROT_READ | PROT_WRITE, MAP_SHARED, f->memfd, 0);
	cr_assert_neq(f->ram, MAP_FAILED);
	f->tx_buf = TX_GPA;
	f->buf_alloc = FAKE_BUF_ALLOC;
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++) {
		struct fake_ring *r = &f->ring[i];

		r->gpa = RING_GPA(i);
		r->desc = (void *)(f->ram + r->gpa);
		r->avail = (void *)(f->ram + r->gpa + 0x4000);
		r->used = (void *)(f->ram + r->gpa + 0x8000);
		r->kick = eventfd(0, EFD_NONBLOCK);
		r->call = eventfd(0, EFD_NONBLOCK);
	}
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
	f->front = p[0];
	if (handover) {
		f->s->handover_fd = handover_listen(handover);
		cr_assert_geq(f->s->handover_fd, 0);
	}
	cr_assert_eq(server_start(f->s), 0);
	cr_assert_eq(server_adopt_front(f->s, p[1]), 0);
}

void fake_fini(struct fake *f)
{
	server_fini(f->s);
	free(f->s);
	for (unsigned i = 0; i < f->n_host; i++)
		closep(&f->host[i]);
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++) {
		close(f->ring[i].kick);
		close(f->ring[i].call);
	}
	munmap(f->ram, FAKE_RAM);
	close(f->memfd);
	close(f->front);
}

void fake_steps(struct fake *f)
{
	for (unsigned i = 0; i < 50; i++)
		cr_assert_eq(server_step(f->s, 0), 0);
}

void fake_send(struct fake *f, uint32_t request, const void *payload, uint32_t size,
	       const int *fds, unsigned n_fds)
{
	fake_call(f, request, 0, payload, size, fds, n_fds, NULL);
}

int fake_call(struct fake *f, uint32_t request, uint32_t flags, const void *payload,
	      uint32_t size, const int *fds, unsigned n_fds, void *reply)
{
	char buf[1024];
	struct vu_hdr h = {.request = request, .flags = VU_VERSION | flags, .size = size};
	ssize_t n;

	memcpy(buf, &h, sizeof(h));
	if (size)
		memcpy(buf + sizeof(h), payload, size);
	if (fd_send(f->front, buf, sizeof(h) + size, fds, n_fds) < 0)
		return -1;
	fake_steps(f);
	n = recv(f->front, buf, sizeof(buf), MSG_DONTWAIT);
	if (n < (ssize_t)sizeof(h))
		return -1;
	memcpy(&h, buf, sizeof(h));
	cr_assert_eq(h.request, request);
	cr_assert_eq(h.flags, VU_VERSION | VU_F_REPLY);
	cr_assert_eq((size_t)n, sizeof(h) + h.size);
	if (reply)
		memcpy(reply, buf + sizeof(h), h.size);
	return (int)h.size;
}

bool fake_connected(struct fake *f)
{
	return f->s->dev.vu.fd >= 0;
}

static void share_memory(struct fake *f)
{
	struct {
		uint32_t n, padding;
		uint64_t r[2][4];
	} t = {.n = 2,
	       .r = {{0, FAKE_SPLIT, FAKE_UVA, 0},
		     {FAKE_SPLIT, FAKE_RAM - FAKE_SPLIT, FAKE_UVA + FAKE_SPLIT,
		      FAKE_SPLIT}}};
	int fds[] = {f->memfd, f->memfd};

	fake_send(f, VU_SET_MEM_TABLE, &t, sizeof(t), fds, 2);
}

void fake_start_ring(struct fake *f, unsigned index, uint32_t base)
{
	struct fake_ring *r = &f->ring[index];
	uint32_t num[] = {index, FAKE_RING}, start[] = {index, base};
	uint32_t enable[] = {index, 1};
	uint64_t i = index;
	struct {
		uint32_t index, flags;
		uint64_t desc, used, avail, log;
	} a = {index,
	       0,
	       FAKE_UVA + r->gpa,
	       FAKE_UVA + r->gpa + 0x8000,
	       FAKE_UVA + r->gpa + 0x4000,
	       0};

	fake_send(f, VU_SET_VRING_NUM, num, sizeof(num), NULL, 0);
	fake_send(f, VU_SET_VRING_BASE, start, sizeof(start), NULL, 0);
	fake_send(f, VU_SET_VRING_ADDR, &a, sizeof(a), NULL, 0);
	fake_send(f, VU_SET_VRING_KICK, &i, sizeof(i), &r->kick, 1);
	fake_send(f, VU_SET_VRING_CALL, &i, sizeof(i), &r->call, 1);
	fake_send(f, VU_SET_VRING_ENABLE, enable, sizeof(enable), NULL, 0);
}

void fake_stop_ring(struct fake *f, unsigned index)
{
	uint32_t state[] = {index, 0}, reply[2];

	fake_send(f, VU_SET_VRING_ENABLE, state, sizeof(state), NULL, 0);
	cr_assert_eq(
		fake_call(f, VU_GET_VRING_BASE, 0, state, sizeof(state), NULL, 0, reply),
		8);
	cr_assert_eq(reply[1], (uint32_t)f->ring[index].avail_idx -
				       (uint16_t)(f->ring[index].avail_idx -
						  f->s->dev.vu.q[index].last_avail));
}

void fake_start(struct fake *f)
{
	uint64_t features = 1ull << VIRTIO_F_VERSION_1 | 1ull << VHOST_USER_F_PROTOCOL |
			    1ull << VIRTIO_F_INDIRECT_DESC;
	uint64_t protocol = 1ull << VU_PROTOCOL_F_CONFIG |
			    1ull << VU_PROTOCOL_F_REPLY_ACK | 1ull << VU_PROTOCOL_F_MQ |
			    1ull << VU_PROTOCOL_F_CONFIGURE_MEM_SLOTS;

	fake_send(f, VU_SET_PROTOCOL_FEATURES, &protocol, 8, NULL, 0);
	fake_send(f, VU_SET_OWNER, NULL, 0, NULL, 0);
	fake_send(f, VU_SET_FEATURES, &features, 8, NULL, 0);
	share_memory(f);
	fake_start_ring(f, VSOCK_RX, 0);
	fake_start_ring(f, VSOCK_TX, 0);
	cr_assert(fake_connected(f));
	fake_post(f, 48);
}

void fake_offer(struct fake *f, unsigned index, uint16_t head)
{
	struct fake_ring *r = &f->ring[index];
	uint64_t one = 1;

	r->avail->ring[r->avail_idx % FAKE_RING] = head;
	__atomic_store_n(&r->avail->idx, ++r->avail_idx, __ATOMIC_RELEASE);
	cr_assert_eq(write(r->kick, &one, sizeof(one)), 8);
}

void fake_post(struct fake *f, unsigned n)
{
	struct fake_ring *r = &f->ring[VSOCK_RX];

	for (unsigned i = 0; i < n; i++) {
		uint16_t slot = r->avail_idx % FAKE_RING;

		r->desc[slot] = (struct vq_desc){.addr = RX_GPA + slot * FAKE_RX_BUF,
						 .len = FAKE_RX_BUF,
						 .flags = VQ_DESC_F_WRITE};
		fake_offer(f, VSOCK_RX, slot);
	}
}

void fake_packet_hdr(struct fake *f, const struct vsock_hdr *h, const void *data,
		     uint32_t len)
{
	struct fake_ring *r = &f->ring[VSOCK_TX];
	uint16_t slot = (uint16_t)(r->avail_idx * 2 % FAKE_RING);

	if (f->tx_buf + sizeof(*h) + len > FAKE_RAM)
		f->tx_buf = TX_GPA;
	memcpy(f->ram + f->tx_buf, h, sizeof(*h));
	r->desc[slot] = (struct vq_desc){.addr = f->tx_buf, .len = sizeof(*h)};
	f->tx_buf += (uint32_t)sizeof(*h);
	if (len) {
		memcpy(f->ram + f->tx_buf, data, len);
		r->desc[slot].flags = VQ_DESC_F_NEXT;
		r->desc[slot].next = slot + 1;
		r->desc[slot + 1] = (struct vq_desc){.addr = f->tx_buf, .len = len};
		f->tx_buf += len;
	}
	fake_offer(f, VSOCK_TX, slot);
	fake_steps(f);
}

void fake_packet(struct fake *f, uint32_t port, uint16_t op, uint32_t flags,
		 const void *data, uint32_t len)
{
	struct vsock_hdr h = {
		.src_cid = FAKE_CID,
		.dst_cid = VSOCK_CID_HOST,
		.src_port = port,
		.dst_port = FAKE_PORT,
		.len = len,
		.type = VSOCK_TYPE_STREAM,
		.op = op,
		.flags = flags,
		.buf_alloc = f->buf_alloc,
		.fwd_cnt = f->fwd_cnt,
	};

	fake_packet_hdr(f, &h, data, len);
}

bool fake_take(struct fake *f, struct vsock_hdr *ret_hdr, void *data)
{
	struct fake_ring *r = &f->ring[VSOCK_RX];
	const struct vq_used_elem *e;
	const char *p;

	fake_steps(f);
	if (__atomic_load_n(&r->used->idx, __ATOMIC_ACQUIRE) == r->used_seen)
		return false;
	e = &r->used->ring[r->used_seen++ % FAKE_RING];
	cr_assert_lt(e->id, FAKE_RING);
	p = f->ram + RX_GPA + e->id * FAKE_RX_BUF;
	memcpy(ret_hdr, p, sizeof(*ret_hdr));
	cr_assert_eq(e->len, sizeof(*ret_hdr) + ret_hdr->len);
	cr_assert_leq(e->len, FAKE_RX_BUF);
	if (data)
		memcpy(data, p + sizeof(*ret_hdr), ret_hdr->len);
	fake_post(f, 1);
	return true;
}

void fake_expect(struct fake *f, uint32_t port, uint16_t op)
{
	struct vsock_hdr h;

	cr_assert(fake_take(f, &h, NULL), "no packet, want op %u", op);
	cr_assert_eq(h.op, op, "op %u, want %u", h.op, op);
	cr_assert_eq(h.src_cid, VSOCK_CID_HOST);
	cr_assert_eq(h.dst_cid, FAKE_CID);
	cr_assert_eq(h.src_port, FAKE_PORT);
	cr_assert_eq(h.dst_port, port);
}

int fake_open(struct fake *f, uint32_t port)
{
	fake_packet(f, port, VSOCK_OP_REQUEST, 0, NULL, 0);
	fake_expect(f, port, VSOCK_OP_RESPONSE);
	return f->host[f->n_host - 1];
}
