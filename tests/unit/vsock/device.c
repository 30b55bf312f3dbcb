/* SPDX-License-Identifier: Apache-2.0 */
/* The device as a guest sees it: connections, credit, ends of life, hand-over. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "handover.h"
#include "fake.h"

static struct fake f;
static char path[64];

static void setup(void)
{
	snprintf(path, sizeof(path), "handover-%d.sock", getpid());
	fake_init(&f, path);
	fake_start(&f);
}

static void teardown(void)
{
	fake_fini(&f);
	unlink(path);
}

TestSuite(vsock_device, .init = setup, .fini = teardown, .timeout = 60);

static void fill(char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1103515245 + 12345;
		p[i] = (char)(seed >> 16);
	}
}

static bool at_eof(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_DONTWAIT) == 0;
}

Test(vsock_device, carries_bytes_both_ways)
{
	struct vsock_hdr h;
	char buf[FAKE_RX_BUF];
	int host = fake_open(&f, 1000);

	fake_packet(&f, 1000, VSOCK_OP_RW, 0, "hello", 5);
	cr_assert_eq(recv(host, buf, sizeof(buf), MSG_DONTWAIT), 5);
	cr_assert_eq(memcmp(buf, "hello", 5), 0);
	cr_assert_eq(send(host, "good day", 8, 0), 8);
	cr_assert(fake_take(&f, &h, buf));
	cr_assert_eq(h.op, VSOCK_OP_RW);
	cr_assert_eq(h.len, 8);
	cr_assert_eq(memcmp(buf, "good day", 8), 0);
	cr_assert_eq(h.fwd_cnt, 5, "the packet carries credit");
	cr_assert_eq(h.buf_alloc, CONN_BUF_ALLOC);
	cr_assert_not(fake_take(&f, &h, buf));
}

Test(vsock_device, refuses_unused_ports)
{
	f.refuse = ECONNREFUSED;
	fake_packet(&f, 1000, VSOCK_OP_REQUEST, 0, NULL, 0);
	fake_expect(&f, 1000, VSOCK_OP_RST);
	cr_assert_eq(f.s->dev.conns.n, 0);
}

Test(vsock_device, waits_for_a_full_backlog)
{
	struct vsock_hdr h;

	f.refuse = EAGAIN;
	for (uint32_t port = 1000; port < 1100; port++)
		fake_packet(&f, port, VSOCK_OP_REQUEST, 0, NULL, 0);
	cr_assert_not(fake_take(&f, &h, NULL));
	cr_assert_eq(f.s->dev.conns.n, 100);
	/* Credit, a second REQUEST, data: nothing disturbs the wait. */
	fake_packet(&f, 1000, VSOCK_OP_CREDIT_UPDATE, 0, NULL, 0);
	fake_packet(&f, 1001, VSOCK_OP_REQUEST, 0, NULL, 0);
	fake_packet(&f, 1002, VSOCK_OP_RW, 0, "x", 1);
	cr_assert_not(fake_take(&f, &h, NULL));
	/* Two that the guest does not want any more. */
	fake_packet(&f, 1003, VSOCK_OP_RST, 0, NULL, 0);
	fake_packet(&f, 1004, VSOCK_OP_SHUTDOWN, VSOCK_SHUTDOWN_BOTH, NULL, 0);
	fake_expect(&f, 1004, VSOCK_OP_RST);
	f.refuse = 0;
	/* Sleeps, but not for ever. */
	for (unsigned n = 0; n < 98;) {
		cr_assert_eq(server_step(f.s, -1), 0);
		if (fake_take(&f, &h, NULL)) {
			cr_assert_eq(h.op, VSOCK_OP_RESPONSE);
			n++;
		}
	}
	cr_assert_eq(f.n_host, 98);
}

Test(vsock_device, gives_up_on_a_full_backlog)
{
	uint64_t start = clock_now_ns(), took;
	struct vsock_hdr h;

	f.refuse = EAGAIN;
	fake_packet(&f, 1000, VSOCK_OP_REQUEST, 0, NULL, 0);
	while (!fake_take(&f, &h, NULL))
		cr_assert_eq(server_step(f.s, -1), 0);
	took = (clock_now_ns() - start) / NSEC_PER_MSEC;
	cr_assert_eq(h.op, VSOCK_OP_RST);
	cr_assert(took >= 1500, "after %llu ms", (unsigned long long)took);
	cr_assert_eq(f.s->dev.conns.n, 0);
	f.refuse = 0;
	fake_open(&f, 1000);
}

Test(vsock_device, answers_strays_but_not_resets)
{
	struct vsock_hdr h;

	fake_packet(&f, 1000, VSOCK_OP_RW, 0, "x", 1);
	fake_expect(&f, 1000, VSOCK_OP_RST);
	fake_packet(&f, 1000, VSOCK_OP_RST, 0, NULL, 0);
	cr_assert_not(fake_take(&f, &h, NULL));
	/* In the name of another VM: not even answered. */
	h = (struct vsock_hdr){.src_cid = FAKE_CID + 1,
			       .dst_cid = VSOCK_CID_HOST,
			       .src_port = 1,
			       .dst_port = FAKE_PORT,
			       .type = VSOCK_TYPE_STREAM,
			       .op = VSOCK_OP_REQUEST};
	fake_packet_hdr(&f, &h, NULL, 0);
	cr_assert_not(fake_take(&f, &h, NULL));
	cr_assert_eq(f.n_host, 0);
	/* To another VM, and of another type: refused at once. */
	h = (struct vsock_hdr){.src_cid = FAKE_CID,
			       .dst_cid = 43,
			       .src_port = 1,
			       .dst_port = 2,
			       .type = VSOCK_TYPE_STREAM,
			       .op = VSOCK_OP_REQUEST};
	fake_packet_hdr(&f, &h, NULL, 0);
	cr_assert(fake_take(&f, &h, NULL));
	cr_assert_eq(h.op, VSOCK_OP_RST);
	cr_assert_eq(h.src_cid, 43);
	h = (struct vsock_hdr){.src_cid = FAKE_CID,
			       .dst_cid = VSOCK_CID_HOST,
			       .src_port = 1,
			       .dst_port = FAKE_PORT,
			       .type = 2,
			       .op = VSOCK_OP_REQUEST};
	fake_packet_hdr(&f, &h, NULL, 0);
	fake_expect(&f, 1, VSOCK_OP_RST);
	cr_assert_eq(f.n_host, 0);
}

Test(vsock_device, guest_closes)
{
	int host = fake_open(&f, 1000);

	fake_packet(&f, 1000, VSOCK_OP_RW, 0, "last words", 10);
	fake_packet(&f, 1000, VSOCK_OP_SHUTDOWN, VSOCK_SHUTDOWN_BOTH, NULL, 0);
	fake_expect(&f, 1000, VSOCK_OP_RST);
	cr_assert_eq(f.s->dev.conns.n, 0);
	char buf[16];

	cr_assert_eq(recv(host, buf, sizeof(buf), MSG_DONTWAIT), 10);
	cr_assert(at_eof(host));
	fake_open(&f, 1000); /* the port may be used again */
}

Test(vsock_device, guest_closes_half)
{
	struct vsock_hdr h;
	char buf[FAKE_RX_BUF];
	int host = fake_open(&f, 1000);

	fake_packet(&f, 1000, VSOCK_OP_SHUTDOWN, VSOCK_SHUTDOWN_SEND, NULL, 0);
	cr_assert(at_eof(host));
	cr_assert_eq(send(host, "answer", 6, 0), 6);
	cr_assert(fake_take(&f, &h, buf));
	cr_assert_eq(h.op, VSOCK_OP_RW);
	close(host);
	f.host[0] = -1;
	cr_assert(fake_take(&f, &h, buf));
	cr_assert_eq(h.op, VSOCK_OP_SHUTDOWN);
	cr_assert_eq(h.flags, VSOCK_SHUTDOWN_BOTH);
	/* Sending after the end of sending is against the rules. */
	fake_packet(&f, 1001, VSOCK_OP_REQUEST, 0, NULL, 0);
	fake_expect(&f, 1001, VSOCK_OP_RESPONSE);
	fake_packet(&f, 1001, VSOCK_OP_SHUTDOWN, VSOCK_SHUTDOWN_SEND, NULL, 0);
	fake_packet(&f, 1001, VSOCK_OP_RW, 0, "x", 1);
	fake_expect(&f, 1001, VSOCK_OP_RST);
}

Test(vsock_device, host_closes)
{
	struct vsock_hdr h;
	char buf[FAKE_RX_BUF];
	int host = fake_open(&f, 1000);

	cr_assert_eq(send(host, "bye", 3, 0), 3);
	close(host);
	f.host[0] = -1;
	cr_assert(fake_take(&f, &h, buf));
	cr_assert_eq(h.op, VSOCK_OP_RW);
	cr_assert(fake_take(&f, &h, buf));
	cr_assert_eq(h.op, VSOCK_OP_SHUTDOWN);
	cr_assert_eq(h.flags, VSOCK_SHUTDOWN_BOTH);
	cr_assert_eq(f.s->dev.conns.n, 1, "kept until the guest agrees");
	fake_packet(&f, 1000, VSOCK_OP_RST, 0, NULL, 0);
	cr_assert_eq(f.s->dev.conns.n, 0);
	cr_assert_not(fake_take(&f, &h, buf));
}

Test(vsock_device, host_closes_half)
{
	struct vsock_hdr h;
	char buf[8];
	int host = fake_open(&f, 1000);

	shutdown(host, SHUT_WR);
	cr_assert(fake_take(&f, &h, NULL));
	cr_assert_eq(h.op, VSOCK_OP_SHUTDOWN);
	cr_assert_eq(h.flags, VSOCK_SHUTDOWN_SEND);
	fake_packet(&f, 1000, VSOCK_OP_RW, 0, "still", 5);
	cr_assert_eq(recv(host, buf, sizeof(buf), MSG_DONTWAIT), 5);
	close(host);
	f.host[0] = -1;
	cr_assert(fake_take(&f, &h, NULL));
	cr_assert_eq(h.op, VSOCK_OP_SHUTDOWN);
	cr_assert_eq(h.flags, VSOCK_SHUTDOWN_BOTH);
}

Test(vsock_device, never_exceeds_the_guests_credit)
{
	static char data[100000], got[100000];
	char buf[FAKE_RX_BUF];
	struct vsock_hdr h;
	uint32_t total = 0;
	bool asked = false;
	int host;

	f.buf_alloc = 10000;
	host = fake_open(&f, 1000);
	fill(data, sizeof(data), 1);
	cr_assert_eq(send(host, data, sizeof(data), 0), (ssize_t)sizeof(data));
	while (total < sizeof(data)) {
		cr_assert(fake_take(&f, &h, buf), "stuck at %u", total);
		if (h.op == VSOCK_OP_CREDIT_REQUEST) {
			asked = true;
			cr_assert_eq(total, f.fwd_cnt + 10000, "asked with credit left");
			f.fwd_cnt = total - 100; /* some is still unread */
			fake_packet(&f, 1000, VSOCK_OP_CREDIT_UPDATE, 0, NULL, 0);
			continue;
		}
		cr_assert_eq(h.op, VSOCK_OP_RW);
		memcpy(got + total, buf, h.len);
		total += h.len;
		cr_assert_leq(total - f.fwd_cnt, 10000u);
	}
	cr_assert(asked);
	cr_assert_eq(memcmp(data, got, sizeof(data)), 0);
}

Test(vsock_device, keeps_what_a_slow_host_does_not_take)
{
	static char data[64 << 10], got[CONN_BUF_ALLOC * 4];
	struct vsock_hdr h;
	uint32_t sent = 0, told = 0, read_bytes = 0;
	int host = fake_open(&f, 1000);

	fill(data, sizeof(data), 2);
	/* The socket takes some, the device keeps the rest, and credit runs out. */
	while (sent + sizeof(data) - told <= CONN_BUF_ALLOC) {
		fake_packet(&f, 1000, VSOCK_OP_RW, 0, data, sizeof(data));
		sent += sizeof(data);
		while (fake_take(&f, &h, NULL)) {
			cr_assert_eq(h.op, VSOCK_OP_CREDIT_UPDATE);
			told = h.fwd_cnt;
		}
	}
	cr_assert_gt(f.s->dev.conns.buffered, 0);
	cr_assert_leq(f.s->dev.conns.buffered, CONN_BUF_ALLOC);
	while (read_bytes < sent) {
		ssize_t n = recv(host, got + read_bytes, sizeof(got) - read_bytes,
				 MSG_DONTWAIT);

		cr_assert_gt(n, 0, "lost at %u of %u", read_bytes, sent);
		read_bytes += (uint32_t)n;
		fake_steps(&f);
	}
	for (uint32_t at = 0; at < sent; at += sizeof(data))
		cr_assert_eq(memcmp(got + at, data, sizeof(data)), 0);
	while (fake_take(&f, &h, NULL))
		told = h.fwd_cnt;
	cr_assert_leq(sent - told, CONN_BUF_ALLOC / 4, "credit is told in time");
	cr_assert_eq(f.s->dev.conns.buffered, 0);
}

Test(vsock_device, tells_credit_by_the_smaller_window)
{
	static char data[4096];
	struct vsock_hdr h;

	/* A guest that bounds itself by its own 8 KiB must hear of every 2 KiB. */
	f.buf_alloc = 8192;
	fake_open(&f, 1000);
	fake_packet(&f, 1000, VSOCK_OP_RW, 0, data, 2048);
	cr_assert(fake_take(&f, &h, NULL));
	cr_assert_eq(h.op, VSOCK_OP_CREDIT_UPDATE);
	cr_assert_eq(h.fwd_cnt, 2048);
}

Test(vsock_device, resets_a_guest_that_overruns_its_credit)
{
	static char data[64 << 10];
	struct vsock_hdr h = {0};

	fake_open(&f, 1000);
	for (unsigned i = 0; i < 64 && h.op != VSOCK_OP_RST; i++) {
		fake_packet(&f, 1000, VSOCK_OP_RW, 0, data, sizeof(data));
		while (h.op != VSOCK_OP_RST && fake_take(&f, &h, NULL))
			;
	}
	cr_assert_eq(h.op, VSOCK_OP_RST);
	cr_assert_eq(f.s->dev.conns.n, 0);
	cr_assert_eq(f.s->dev.conns.buffered, 0);
}

Test(vsock_device, answers_credit_requests)
{
	struct vsock_hdr h;

	fake_open(&f, 1000);
	fake_packet(&f, 1000, VSOCK_OP_CREDIT_REQUEST, 0, NULL, 0);
	fake_expect(&f, 1000, VSOCK_OP_CREDIT_UPDATE);
	cr_assert_not(fake_take(&f, &h, NULL));
}

Test(vsock_device, resets_senseless_operations)
{
	const uint16_t ops[] = {VSOCK_OP_INVALID, VSOCK_OP_REQUEST, VSOCK_OP_RESPONSE, 8,
				99};

	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
		fake_open(&f, 1000 + i);
		fake_packet(&f, 1000 + i, ops[i], 0, NULL, 0);
		fake_expect(&f, 1000 + i, VSOCK_OP_RST);
	}
	cr_assert_eq(f.s->dev.conns.n, 0);
}

Test(vsock_device, survives_a_dead_host_writer)
{
	struct vsock_hdr h;
	int host = fake_open(&f, 1000);

	/* The host answers and leaves without reading: the answer must still arrive. */
	cr_assert_eq(send(host, "no", 2, 0), 2);
	close(host);
	f.host[0] = -1;
	fake_packet(&f, 1000, VSOCK_OP_RW, 0, "anybody?", 8);
	cr_assert(fake_take(&f, &h, NULL));
	cr_assert_eq(h.op, VSOCK_OP_RW);
	cr_assert_eq(h.len, 2);
	cr_assert(fake_take(&f, &h, NULL));
	cr_assert(h.op == VSOCK_OP_SHUTDOWN || h.op == VSOCK_OP_RST);
}

Test(vsock_device, bounds_the_number_of_connections)
{
	struct vsock_hdr h;

	for (unsigned i = 0; i < CONN_MAX; i++) {
		fake_packet(&f, 10000 + i, VSOCK_OP_REQUEST, 0, NULL, 0);
		cr_assert(fake_take(&f, &h, NULL));
		if (h.op != VSOCK_OP_RESPONSE)
			cr_skip_test("only %u descriptors here", i); /* RLIMIT_NOFILE */
	}
	fake_packet(&f, 1, VSOCK_OP_REQUEST, 0, NULL, 0);
	fake_expect(&f, 1, VSOCK_OP_RST);
	fake_packet(&f, 10000, VSOCK_OP_RST, 0, NULL, 0);
	fake_open(&f, 1);
}

Test(vsock_device, waits_for_buffers_of_the_guest)
{
	struct vsock_hdr h;
	unsigned n = 0;

	/* More strays than the guest has buffers for, and than answers are kept. */
	for (unsigned i = 0; i < 1000; i++) {
		struct vq *q = &f.s->dev.vu.q[VSOCK_TX];

		fake_packet(&f, 5000 + i, VSOCK_OP_RW, 0, "x", 1);
		if ((uint16_t)(f.ring[VSOCK_TX].avail_idx - q->last_avail) >= 16)
			break;
	}
	cr_assert_eq(f.s->dev.n_orphans, VSOCK_MAX_ORPHANS);
	while (fake_take(&f, &h, NULL)) {
		cr_assert_eq(h.op, VSOCK_OP_RST);
		cr_assert_eq(h.dst_port, 5000 + n);
		n++;
	}
	cr_assert_eq(n, f.ring[VSOCK_TX].avail_idx, "every stray was answered");
}

Test(vsock_device, ends_connections_with_the_front_end)
{
	int host = fake_open(&f, 1000);

	shutdown(f.front, SHUT_RDWR);
	fake_steps(&f);
	cr_assert_not(fake_connected(&f));
	cr_assert(at_eof(host));
	cr_assert_eq(f.s->dev.vu.mem.n, 0);
}

Test(vsock_device, ends_connections_when_a_new_driver_starts)
{
	int host = fake_open(&f, 1000);

	fake_stop_ring(&f, VSOCK_RX);
	fake_stop_ring(&f, VSOCK_TX);
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++) {
		memset(f.ram + f.ring[i].gpa, 0, 0x10000);
		f.ring[i].avail_idx = f.ring[i].used_seen = 0;
	}
	fake_start_ring(&f, VSOCK_RX, 0);
	cr_assert(at_eof(host));
	fake_start_ring(&f, VSOCK_TX, 0);
	fake_post(&f, 48);
	fake_open(&f, 1000);
}

Test(vsock_device, keeps_connections_over_a_short_pause)
{
	struct vsock_hdr h;
	int host = fake_open(&f, 1000);

	fake_stop_ring(&f, VSOCK_RX);
	fake_stop_ring(&f, VSOCK_TX);
	cr_assert_eq(send(host, "wait", 4, 0), 4);
	fake_steps(&f);
	fake_start_ring(&f, VSOCK_RX, f.s->dev.vu.base[VSOCK_RX]);
	fake_start_ring(&f, VSOCK_TX, f.s->dev.vu.base[VSOCK_TX]);
	cr_assert(fake_take(&f, &h, NULL));
	cr_assert_eq(h.op, VSOCK_OP_RW);
	cr_assert_eq(h.len, 4);
}

Test(vsock_device, ends_connections_after_a_long_stop)
{
	int host;

	f.s->grace_ms = 500;
	host = fake_open(&f, 1000);
	fake_stop_ring(&f, VSOCK_RX);
	fake_stop_ring(&f, VSOCK_TX);
	cr_assert_not(at_eof(host));
	for (unsigned i = 0; i < 1000 && !at_eof(host); i++) {
		usleep(10000);
		fake_steps(&f);
	}
	cr_assert(at_eof(host));
	/* The driver comes back where it was: it hears that the connection is gone. */
	fake_start_ring(&f, VSOCK_RX, f.s->dev.vu.base[VSOCK_RX]);
	fake_start_ring(&f, VSOCK_TX, f.s->dev.vu.base[VSOCK_TX]);
	fake_expect(&f, 1000, VSOCK_OP_RST);
}

Test(vsock_device, moves_bulk_data_intact)
{
	static char out[300 << 10], in[300 << 10], buf[FAKE_RX_BUF];
	uint32_t up = 0, up_read = 0, down = 0, down_read = 0, told = 0, rng = 5;
	struct vsock_hdr h;
	int host = fake_open(&f, 1000);

	fill(out, sizeof(out), 3);
	while (up_read < sizeof(out) || down_read < sizeof(out)) {
		uint32_t n = MIN((uint32_t)sizeof(out) - up, 1 + (rng >> 16) % 65536);
		ssize_t r;

		rng = rng * 1103515245 + 12345;
		if (n && up + n - told <= CONN_BUF_ALLOC) {
			fake_packet(&f, 1000, VSOCK_OP_RW, 0, out + up, n);
			up += n;
		}
		r = send(host, out + down, MIN(sizeof(out) - down, (size_t)n),
			 MSG_DONTWAIT);
		down += r > 0 ? (uint32_t)r : 0;
		while (fake_take(&f, &h, buf)) {
			told = h.fwd_cnt;
			if (h.op == VSOCK_OP_RW) {
				cr_assert_eq(memcmp(buf, out + down_read, h.len), 0);
				down_read += h.len;
				f.fwd_cnt = down_read;
			}
		}
		fake_packet(&f, 1000, VSOCK_OP_CREDIT_UPDATE, 0, NULL, 0);
		while ((r = recv(host, in, sizeof(in), MSG_DONTWAIT)) > 0) {
			cr_assert_eq(memcmp(in, out + up_read, (size_t)r), 0);
			up_read += (uint32_t)r;
		}
	}
}

static void *offer_thread(void *arg)
{
	struct server *old = arg;

	while (!old->handed_over)
		cr_assert_eq(server_step(old, 100), 0);
	return NULL;
}

Test(vsock_device, hands_everything_to_a_successor)
{
	static char data[64 << 10], got[64 << 10];
	char buf[FAKE_RX_BUF];
	struct server *old = f.s;
	uint32_t read_bytes = 0, sent = 0;
	struct vsock_hdr h;
	pthread_t t;
	int a, b, from;

	a = fake_open(&f, 1000);
	b = fake_open(&f, 1001);
	/* a has bytes waiting in the device, b a half-closed socket. */
	fill(data, sizeof(data), 9);
	while (!old->dev.conns.buffered) {
		fake_packet(&f, 1000, VSOCK_OP_RW, 0, data, sizeof(data));
		sent += sizeof(data);
	}
	fake_packet(&f, 1001, VSOCK_OP_SHUTDOWN, VSOCK_SHUTDOWN_SEND, NULL, 0);
	/* A third is not there yet. */
	f.refuse = EAGAIN;
	fake_packet(&f, 1003, VSOCK_OP_REQUEST, 0, NULL, 0);

	cr_assert_eq(pthread_create(&t, NULL, offer_thread, old), 0);
	f.s = calloc(1, sizeof(*f.s));
	cr_assert_eq(server_init(f.s, 3), 0);
	from = handover_ask(path);
	cr_assert_geq(from, 0);
	cr_assert_eq(handover_take(f.s, from), 0);
	close(from);
	f.s->dev.connect = old->dev.connect;
	cr_assert_eq(server_start(f.s), 0);
	pthread_join(t, NULL);
	/* As the old process would end: closed, not shut down. */
	closep(&old->dev.vu.fd);
	old->dev.vu.fd = -1;
	server_fini(old);
	free(old);

	cr_assert_eq(f.s->dev.vu.cid, FAKE_CID);
	cr_assert_eq(f.s->dev.conns.n, 3);
	while (read_bytes < sent) {
		ssize_t n = recv(a, got,
				 MIN(sizeof(got) - read_bytes % sizeof(got),
				     (size_t)(sent - read_bytes)),
				 MSG_DONTWAIT);

		cr_assert_gt(n, 0);
		cr_assert_eq(memcmp(got, data + read_bytes % sizeof(data), (size_t)n), 0);
		read_bytes += (uint32_t)n;
		fake_steps(&f);
	}
	cr_assert_eq(send(b, "late", 4, 0), 4);
	do {
		cr_assert(fake_take(&f, &h, buf));
	} while (h.op == VSOCK_OP_CREDIT_UPDATE);
	cr_assert_eq(h.op, VSOCK_OP_RW);
	cr_assert_eq(h.dst_port, 1001);
	f.refuse = 0;
	while (!fake_take(&f, &h, buf))
		cr_assert_eq(server_step(f.s, -1), 0);
	cr_assert_eq(h.op, VSOCK_OP_RESPONSE);
	cr_assert_eq(h.dst_port, 1003);
	fake_open(&f, 1002);
}

Test(vsock_device, keeps_the_device_when_a_successor_fails)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd, host = fake_open(&f, 1000);

	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strcpy(un.sun_path, path);
	cr_assert_eq(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	close(fd);
	fake_steps(&f);
	cr_assert_not(f.s->handed_over);
	fake_packet(&f, 1000, VSOCK_OP_RW, 0, "on", 2);
	char buf[4];

	cr_assert_eq(recv(host, buf, sizeof(buf), MSG_DONTWAIT), 2);
}
