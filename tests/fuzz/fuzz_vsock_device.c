/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest that does anything with its rings, and hosts that come and go. The input is a
 * series of steps: an operation, then its operands.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/fd.h"
#include "input.h"
#include "server.h"

#define RAM       (256u << 10)
#define NUM       16u
#define RING(i)   ((i)*0x1000u)
#define RX_BUFS   0x4000u
#define RX_LEN    1024u
#define TX_BUFS   0x10000u
#define MAX_HOSTS 64
#define MAX_STEPS 512
#define UVA       0x10000000ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct server s;
static char *ram;
static int ram_fd = -1;
static int hosts[MAX_HOSTS];
static unsigned n_hosts;
static uint16_t avail[VU_NUM_QUEUES];

static int fuzz_connect(void *ctx, uint32_t port)
{
	int p[2];

	if (n_hosts == MAX_HOSTS || port > 4)
		return -ECONNREFUSED;
	if (port == 4)
		return -EAGAIN;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p) < 0)
		return -errno;
	hosts[n_hosts++] = p[1];
	return p[0];
}

static void offer(unsigned index, uint16_t head)
{
	struct vq_avail *a = (void *)(ram + RING(index) + 0x400);
	uint64_t one = 1;

	a->ring[avail[index] % NUM] = head;
	a->idx = ++avail[index];
	if (s.dev.vu.q[index].kick_fd >= 0 &&
	    write(s.dev.vu.q[index].kick_fd, &one, sizeof(one)) < 0)
		abort();
}

static void set_desc(unsigned index, unsigned slot, uint64_t addr, uint32_t len,
		     uint16_t flags)
{
	struct vq_desc *d = (void *)(ram + RING(index));

	d[slot] = (struct vq_desc){addr, len, flags, (uint16_t)((slot + 1) % NUM)};
}

static void packet(struct input *in)
{
	unsigned slot = avail[VSOCK_TX] * 2u % NUM;
	struct vsock_hdr h = {
		.src_cid = 42,
		.dst_cid = VSOCK_CID_HOST,
		.src_port = take(in) & 7,
		.dst_port = take(in) & 7,
		.type = VSOCK_TYPE_STREAM,
		.op = take(in),
		.flags = take(in),
		.len = take_bytes(in, 2),
		.buf_alloc = take(in) << 10,
		.fwd_cnt = take_bytes(in, 2),
	};

	memcpy(ram + TX_BUFS, &h, sizeof(h));
	set_desc(VSOCK_TX, slot, TX_BUFS, sizeof(h), h.len ? VQ_DESC_F_NEXT : 0);
	set_desc(VSOCK_TX, slot + 1, TX_BUFS + 64, h.len, 0);
	offer(VSOCK_TX, (uint16_t)slot);
}

static void post(void)
{
	unsigned slot = avail[VSOCK_RX] % NUM;

	set_desc(VSOCK_RX, slot, RX_BUFS + slot * RX_LEN, RX_LEN, VQ_DESC_F_WRITE);
	offer(VSOCK_RX, (uint16_t)slot);
}

static void poke(struct input *in)
{
	uint32_t at = take_bytes(in, 2) * 4;
	uint32_t n = MIN((size_t)(take(in) & 63), in->n);

	if (at + n <= RAM)
		memcpy(ram + at, in->p, n);
	in->p += n;
	in->n -= n;
}

static void host_step(struct input *in)
{
	static char buf[8192];
	unsigned what = take(in);
	int *fd;

	if (!n_hosts)
		return;
	fd = &hosts[(what >> 3) % n_hosts];
	if (*fd < 0)
		return;
	if ((what & 7) < 3)
		(void)!send(*fd, buf, take_bytes(in, 2) % sizeof(buf),
			    MSG_DONTWAIT | MSG_NOSIGNAL);
	else if ((what & 7) < 6)
		(void)!recv(*fd, buf, sizeof(buf), MSG_DONTWAIT);
	else if ((what & 7) == 6)
		shutdown(*fd, SHUT_WR);
	else
		closep(fd), *fd = -1;
}

static void start(void)
{
	struct vu *v = &s.dev.vu;

	if (gmem_add(&v->mem, 0, RAM, UVA, 0, dup(ram_fd)) < 0)
		abort();
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++) {
		struct vq *q = &v->q[i];

		q->num = NUM;
		q->desc_uva = UVA + RING(i);
		q->avail_uva = UVA + RING(i) + 0x400;
		q->used_uva = UVA + RING(i) + 0x800;
		q->kick_fd = eventfd(0, EFD_NONBLOCK);
		q->started = q->enabled = true;
		q->notify_off = true;
		if (vq_map(q, &v->mem) < 0)
			abort();
		v->ops->ring_ready(v->ctx, i);
		avail[i] = 0;
	}
}

static void run(struct input *in)
{
	for (unsigned i = 0; i < MAX_STEPS && in->n; i++) {
		switch (take(in) & 7) {
		case 0:
			poke(in);
			break;
		case 1:
		case 2:
			packet(in);
			break;
		case 3:
			offer(VSOCK_TX, (uint16_t)take_bytes(in, 2));
			break;
		case 4:
			offer(VSOCK_RX, (uint16_t)take_bytes(in, 2));
			break;
		case 5:
			post();
			break;
		default:
			host_step(in);
		}
		if (server_step(&s, 0) < 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	if (ram_fd < 0) {
		log_set_level(LOG_LVL_ERROR);
		ram_fd = fd_memfd("fuzz", RAM);
		ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_SHARED, ram_fd, 0);
		if (ram == MAP_FAILED || server_init(&s, 42) < 0)
			abort();
		s.dev.connect = fuzz_connect;
	}
	memset(ram, 0, RAM);
	start();
	run(&in);
	/* Our own invariants, whatever the guest did. */
	if (s.dev.conns.buffered > CONN_BUDGET || s.dev.n_orphans > VSOCK_MAX_ORPHANS)
		abort();
	vu_detach(&s.dev.vu);
	if (s.dev.conns.n || s.dev.conns.buffered || !list_empty(&s.dev.ready) ||
	    !list_empty(&s.dev.waiting))
		abort();
	for (unsigned i = 0; i < n_hosts; i++)
		closep(&hosts[i]);
	n_hosts = 0;
	return 0;
}
