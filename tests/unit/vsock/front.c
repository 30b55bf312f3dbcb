/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a front end may and may not make, and rings that break the rules. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "connector.h"
#include "fake.h"

static struct fake f;

static void setup(void)
{
	fake_init(&f, NULL);
}

static void setup_started(void)
{
	fake_init(&f, NULL);
	fake_start(&f);
}

static void teardown(void)
{
	fake_fini(&f);
}

TestSuite(vsock_front, .init = setup, .fini = teardown, .timeout = 30);
TestSuite(vsock_ring, .init = setup_started, .fini = teardown, .timeout = 30);

Test(vsock_front, offers_what_qemu_asks_for)
{
	uint64_t u;

	cr_assert_eq(fake_call(&f, VU_GET_FEATURES, 0, NULL, 0, NULL, 0, &u), 8);
	cr_assert_eq(u, 1ull << 28 | 1ull << 30 | 1ull << 32);
	cr_assert_eq(fake_call(&f, VU_GET_PROTOCOL_FEATURES, 0, NULL, 0, NULL, 0, &u), 8);
	cr_assert(u & 1 << VU_PROTOCOL_F_CONFIG);
	cr_assert(u & 1 << VU_PROTOCOL_F_CONFIGURE_MEM_SLOTS);
	cr_assert_eq(fake_call(&f, VU_GET_QUEUE_NUM, 0, NULL, 0, NULL, 0, &u), 8);
	cr_assert_eq(u, 2);
	cr_assert_eq(fake_call(&f, VU_GET_MAX_MEM_SLOTS, 0, NULL, 0, NULL, 0, &u), 8);
	cr_assert_eq(u, GMEM_MAX_REGIONS);
}

Test(vsock_front, configuration_is_the_cid)
{
	struct {
		uint32_t offset, size, flags;
		uint8_t data[16];
	} c = {.size = 8}, r;
	uint64_t cid;

	cr_assert_eq(fake_call(&f, VU_GET_CONFIG, 0, &c, 20, NULL, 0, &r), 20);
	memcpy(&cid, r.data, 8);
	cr_assert_eq(cid, FAKE_CID);
	c.offset = 4;
	c.size = 8;
	cr_assert_eq(fake_call(&f, VU_GET_CONFIG, 0, &c, 20, NULL, 0, &r), 0, "refused");
	c.offset = UINT32_MAX;
	cr_assert_eq(fake_call(&f, VU_GET_CONFIG, 0, &c, 20, NULL, 0, &r), 0);
	cr_assert(fake_connected(&f));
	c.size = 9; /* says more than it brings */
	fake_send(&f, VU_GET_CONFIG, &c, 20, NULL, 0);
	cr_assert_not(fake_connected(&f));
}

struct bad {
	char what[40];
	uint32_t request;
	uint32_t size;
	uint32_t n_fds;
	uint64_t u[34];
};

ParameterizedTestParameters(vsock_front, bad_message_ends_the_connection)
{
	static struct bad p[] = {
		{"unknown request", 200, 0, 0, {0}},
		{"features not offered", VU_SET_FEATURES, 8, 0, {1ull << 63}},
		{"features cut off", VU_SET_FEATURES, 4, 0, {0}},
		{"protocol features not offered",
		 VU_SET_PROTOCOL_FEATURES,
		 8,
		 0,
		 {1 << 1}},
		{"ring number out of range", VU_SET_VRING_NUM, 8, 0, {64ull << 32 | 2}},
		{"ring size zero", VU_SET_VRING_NUM, 8, 0, {0}},
		{"ring size not a power of two", VU_SET_VRING_NUM, 8, 0, {63ull << 32}},
		{"ring size too large", VU_SET_VRING_NUM, 8, 0, {65536ull << 32}},
		{"ring base too large", VU_SET_VRING_BASE, 8, 0, {65536ull << 32}},
		{"ring outside memory", VU_SET_VRING_ADDR, 40, 0, {0, FAKE_UVA}},
		{"ring addresses with a log", VU_SET_VRING_ADDR, 40, 0, {1ull << 32}},
		{"kick without a descriptor", VU_SET_VRING_KICK, 8, 0, {0}},
		{"kick by polling", VU_SET_VRING_KICK, 8, 0, {1 << 8}},
		{"kick with two descriptors", VU_SET_VRING_KICK, 8, 2, {0}},
		{"call of ring 7", VU_SET_VRING_CALL, 8, 1, {7}},
		{"enable 2", VU_SET_VRING_ENABLE, 8, 0, {2ull << 32}},
		{"base of ring 2", VU_GET_VRING_BASE, 8, 0, {2}},
		{"memory without descriptor", VU_SET_MEM_TABLE, 40, 0, {1, 0, 4096}},
		{"memory with too many", VU_SET_MEM_TABLE, 40, 2, {1, 0, 4096}},
		{"memory table cut off", VU_SET_MEM_TABLE, 40, 2, {2, 0, 4096}},
		{"nine regions", VU_SET_MEM_TABLE, 264, 8, {9}},
		{"empty region", VU_SET_MEM_TABLE, 40, 1, {1, 0, 0, FAKE_UVA, 0}},
		{"region beyond its file",
		 VU_SET_MEM_TABLE,
		 40,
		 1,
		 {1, 0, FAKE_RAM + 4096, FAKE_UVA, 0}},
		{"region beyond its file, at an offset",
		 VU_SET_MEM_TABLE,
		 40,
		 1,
		 {1, 0, FAKE_RAM, FAKE_UVA, 4096}},
		{"region wraps in the guest",
		 VU_SET_MEM_TABLE,
		 40,
		 1,
		 {1, -4096ull, 8192, FAKE_UVA, 0}},
		{"region wraps in the front end",
		 VU_SET_MEM_TABLE,
		 40,
		 1,
		 {1, 0, 8192, -4096ull, 0}},
		{"region wraps in its file",
		 VU_SET_MEM_TABLE,
		 40,
		 1,
		 {1, 0, 8192, FAKE_UVA, -4096ull}},
		{"regions overlap",
		 VU_SET_MEM_TABLE,
		 72,
		 2,
		 {2, 0, 8192, FAKE_UVA, 0, 4096, 8192, FAKE_UVA + 8192, 0}},
		{"region added without descriptor",
		 VU_ADD_MEM_REG,
		 40,
		 0,
		 {0, 0, 4096, FAKE_UVA, 0}},
		{"region removed that is not there",
		 VU_REM_MEM_REG,
		 40,
		 0,
		 {0, 0, 4096, FAKE_UVA, 0}},
	};

	return cr_make_param_array(struct bad, p, ARRAY_SIZE(p));
}

ParameterizedTest(struct bad *p, vsock_front, bad_message_ends_the_connection)
{
	int fds[8];

	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = f.memfd;
	fake_send(&f, p->request, p->u, p->size, fds, p->n_fds);
	cr_assert_not(fake_connected(&f), "%s", p->what);
	cr_assert_eq(f.s->dev.vu.mem.n, 0);
}

Test(vsock_front, bad_version_and_size_end_the_connection)
{
	struct vu_hdr h = {.request = VU_GET_FEATURES, .flags = 2, .size = 0};

	cr_assert_eq(fd_write_full(f.front, &h, sizeof(h)), 0);
	fake_steps(&f);
	cr_assert_not(fake_connected(&f));
	fake_fini(&f);
	fake_init(&f, NULL);
	h.flags = VU_VERSION;
	h.size = VU_MAX_PAYLOAD + 1;
	cr_assert_eq(fd_write_full(f.front, &h, sizeof(h)), 0);
	fake_steps(&f);
	cr_assert_not(fake_connected(&f));
}

Test(vsock_front, messages_may_come_in_pieces)
{
	struct {
		struct vu_hdr h;
		uint64_t u;
	} __attribute__((packed))
	m = {{VU_SET_FEATURES, VU_VERSION, 8}, 1ull << VIRTIO_F_VERSION_1};

	for (size_t i = 0; i < sizeof(m); i++) {
		cr_assert_eq(f.s->dev.vu.features, 0);
		cr_assert_eq(fd_write_full(f.front, (char *)&m + i, 1), 0);
		fake_steps(&f);
	}
	cr_assert_eq(f.s->dev.vu.features, 1ull << VIRTIO_F_VERSION_1);
	cr_assert(vu_idle(&f.s->dev.vu));
}

Test(vsock_front, refusals_are_acknowledged)
{
	uint64_t protocol = 1ull << VU_PROTOCOL_F_REPLY_ACK, u = 9;
	uint64_t region[] = {0, 0, 4096, FAKE_UVA, 0};

	fake_send(&f, VU_SET_PROTOCOL_FEATURES, &protocol, 8, NULL, 0);
	cr_assert_eq(fake_call(&f, VU_SET_OWNER, VU_F_NEED_REPLY, NULL, 0, NULL, 0, &u),
		     8);
	cr_assert_eq(u, 0);
	cr_assert_eq(fake_call(&f, VU_REM_MEM_REG, VU_F_NEED_REPLY, region,
			       sizeof(region), NULL, 0, &u),
		     8);
	cr_assert_eq(u, 1);
	cr_assert(fake_connected(&f));
}

Test(vsock_front, memory_may_change_while_rings_run)
{
	uint64_t region[] = {0, FAKE_RAM, 8192, FAKE_UVA + FAKE_RAM, 0};
	uint64_t ram[] = {0, 0, FAKE_SPLIT, FAKE_UVA, 0};

	fake_start(&f);
	fake_open(&f, 1000);
	fake_send(&f, VU_ADD_MEM_REG, region, sizeof(region), &f.memfd, 1);
	fake_open(&f, 1001);
	fake_send(&f, VU_REM_MEM_REG, region, sizeof(region), NULL, 0);
	fake_open(&f, 1002);
	/* The rings themselves go away, and come back. */
	fake_send(&f, VU_REM_MEM_REG, ram, sizeof(ram), NULL, 0);
	cr_assert_null(f.s->dev.vu.q[VSOCK_TX].desc);
	fake_packet(&f, 1003, VSOCK_OP_REQUEST, 0, NULL, 0);
	cr_assert_eq(f.n_host, 3);
	fake_send(&f, VU_ADD_MEM_REG, ram, sizeof(ram), &f.memfd, 1);
	fake_expect(&f, 1003, VSOCK_OP_RESPONSE);
}

Test(vsock_front, bounds_the_number_of_regions)
{
	uint64_t protocol = 1ull << VU_PROTOCOL_F_REPLY_ACK, u = 9;

	fake_send(&f, VU_SET_PROTOCOL_FEATURES, &protocol, 8, NULL, 0);
	for (uint64_t i = 0; i <= GMEM_MAX_REGIONS; i++) {
		uint64_t r[] = {0, i * 4096, 4096, FAKE_UVA + i * 4096, i * 4096};

		cr_assert_eq(fake_call(&f, VU_ADD_MEM_REG, VU_F_NEED_REPLY, r, sizeof(r),
				       &f.memfd, 1, &u),
			     8);
		cr_assert_eq(u, i == GMEM_MAX_REGIONS);
	}
}

Test(vsock_front, device_reset_closes_everything)
{
	char c;
	int host;

	fake_start(&f);
	host = fake_open(&f, 1000);
	fake_send(&f, VU_RESET_DEVICE, NULL, 0, NULL, 0);
	cr_assert(fake_connected(&f));
	cr_assert_eq(recv(host, &c, 1, MSG_DONTWAIT), 0);
	cr_assert_not(f.s->dev.vu.q[VSOCK_TX].started);
}

/* Chains that break the rules: each stops the queue, and nothing else happens. */
struct chain {
	char what[40];
	uint16_t head;
	uint16_t n;
	struct vq_desc d[4];
};

#define OK_HDR 2u << 20, sizeof(struct vsock_hdr)

ParameterizedTestParameters(vsock_ring, bad_chain_stops_the_queue)
{
	static struct chain p[] = {
		{"head out of range", FAKE_RING, 0, {{0}}},
		{"next out of range", 0, 1, {{OK_HDR, VQ_DESC_F_NEXT, FAKE_RING}}},
		{"loop of one", 0, 1, {{0, 0, VQ_DESC_F_NEXT, 0}}},
		{"loop of two",
		 0,
		 2,
		 {{OK_HDR, VQ_DESC_F_NEXT, 1}, {OK_HDR, VQ_DESC_F_NEXT, 0}}},
		{"beyond memory", 0, 1, {{FAKE_RAM - 10, 44, 0, 0}}},
		{"no such memory", 0, 1, {{1ull << 40, 44, 0, 0}}},
		{"address wraps", 0, 1, {{-20ull, 44, 0, 0}}},
		{"readable after writable",
		 0,
		 2,
		 {{OK_HDR, VQ_DESC_F_WRITE | VQ_DESC_F_NEXT, 1}, {OK_HDR, 0, 0}}},
		{"indirect with next",
		 0,
		 1,
		 {{OK_HDR, VQ_DESC_F_INDIRECT | VQ_DESC_F_NEXT, 1}}},
		{"indirect of odd size", 0, 1, {{2u << 20, 17, VQ_DESC_F_INDIRECT, 0}}},
		{"indirect empty", 0, 1, {{2u << 20, 0, VQ_DESC_F_INDIRECT, 0}}},
		{"indirect too long", 0, 1, {{2u << 20, 16 * 65, VQ_DESC_F_INDIRECT, 0}}},
		{"indirect outside memory",
		 0,
		 1,
		 {{FAKE_RAM, 16, VQ_DESC_F_INDIRECT, 0}}},
		{"indirect in the middle",
		 0,
		 2,
		 {{OK_HDR, VQ_DESC_F_NEXT, 1}, {2u << 20, 16, VQ_DESC_F_INDIRECT, 0}}},
	};

	return cr_make_param_array(struct chain, p, ARRAY_SIZE(p));
}

ParameterizedTest(struct chain *p, vsock_ring, bad_chain_stops_the_queue)
{
	struct vsock_hdr h;

	memset(f.ram + (2u << 20), 0, 4096);
	memcpy(f.ring[VSOCK_TX].desc, p->d, sizeof(p->d));
	fake_offer(&f, VSOCK_TX, p->head);
	fake_steps(&f);
	cr_assert(f.s->dev.vu.q[VSOCK_TX].broken, "%s", p->what);
	cr_assert_not(fake_take(&f, &h, NULL));
	cr_assert(fake_connected(&f), "the front end is not to blame");
	/* A restart of the driver makes it whole. */
	for (unsigned i = 0; i < VU_NUM_QUEUES; i++) {
		fake_stop_ring(&f, i);
		memset(f.ram + f.ring[i].gpa, 0, 0x10000);
		f.ring[i].avail_idx = f.ring[i].used_seen = 0;
		fake_start_ring(&f, i, 0);
	}
	fake_post(&f, 48);
	fake_open(&f, 1000);
}

Test(vsock_ring, index_beyond_the_ring_stops_the_queue)
{
	f.ring[VSOCK_TX].avail_idx += FAKE_RING;
	fake_offer(&f, VSOCK_TX, 0);
	fake_steps(&f);
	cr_assert(f.s->dev.vu.q[VSOCK_TX].broken);
}

Test(vsock_ring, nested_indirect_stops_the_queue)
{
	struct vq_desc *t = (void *)(f.ram + (3u << 20));

	t[0] = (struct vq_desc){4u << 20, 16, VQ_DESC_F_INDIRECT, 0};
	f.ring[VSOCK_TX].desc[0] = (struct vq_desc){3u << 20, 16, VQ_DESC_F_INDIRECT, 0};
	fake_offer(&f, VSOCK_TX, 0);
	fake_steps(&f);
	cr_assert(f.s->dev.vu.q[VSOCK_TX].broken);
}

Test(vsock_ring, indirect_packets_work)
{
	struct vq_desc *t = (void *)(f.ram + (3u << 20));
	struct vsock_hdr h = {.src_cid = FAKE_CID,
			      .dst_cid = VSOCK_CID_HOST,
			      .src_port = 5,
			      .dst_port = FAKE_PORT,
			      .type = VSOCK_TYPE_STREAM,
			      .op = VSOCK_OP_REQUEST,
			      .buf_alloc = 1 << 18};

	/* The header in three pieces, one of them empty, one across the regions' seam. */
	memcpy(f.ram + FAKE_SPLIT - 10, &h, 20);
	memcpy(f.ram + (4u << 20), (char *)&h + 20, 24);
	t[0] = (struct vq_desc){FAKE_SPLIT - 10, 20, VQ_DESC_F_NEXT, 2};
	t[1] = (struct vq_desc){4u << 20, 24, 0, 0};
	t[2] = (struct vq_desc){4u << 20, 0, VQ_DESC_F_NEXT, 1};
	f.ring[VSOCK_TX].desc[0] = (struct vq_desc){3u << 20, 48, VQ_DESC_F_INDIRECT, 0};
	fake_offer(&f, VSOCK_TX, 0);
	fake_expect(&f, 5, VSOCK_OP_RESPONSE);
}

Test(vsock_ring, cut_off_packets_are_dropped)
{
	struct vsock_hdr h = {.src_cid = FAKE_CID,
			      .dst_cid = VSOCK_CID_HOST,
			      .src_port = 5,
			      .dst_port = FAKE_PORT,
			      .type = VSOCK_TYPE_STREAM,
			      .op = VSOCK_OP_REQUEST,
			      .len = 1};

	fake_packet_hdr(&f, &h, NULL, 0); /* claims a byte it does not bring */
	h.len = UINT32_MAX;
	fake_packet_hdr(&f, &h, "abc", 3);
	memcpy(f.ram + (2u << 20), &h, sizeof(h));
	f.ring[VSOCK_TX].desc[0] = (struct vq_desc){2u << 20, 43, 0, 0};
	fake_offer(&f, VSOCK_TX, 0); /* less than a header */
	fake_steps(&f);
	cr_assert_eq(f.n_host, 0);
	cr_assert_not(f.s->dev.vu.q[VSOCK_TX].broken);
	cr_assert_eq(f.ring[VSOCK_TX].used->idx, 3, "the guest has its buffers back");
}

Test(vsock_ring, receive_buffers_without_room_stop_the_queue)
{
	struct fake_ring *r = &f.ring[VSOCK_RX];

	for (unsigned i = 0; i < FAKE_RING; i++)
		r->desc[i].len = sizeof(struct vsock_hdr);
	fake_packet(&f, 1000, VSOCK_OP_RW, 0, "x", 1);
	cr_assert(f.s->dev.vu.q[VSOCK_RX].broken);
}

Test(vsock_ring, interrupts_only_when_asked)
{
	struct fake_ring *r = &f.ring[VSOCK_RX];
	uint64_t n;

	fake_open(&f, 1000);
	cr_assert_eq(read(r->call, &n, sizeof(n)), 8);
	r->avail->flags = VQ_AVAIL_F_NO_INTERRUPT;
	fake_open(&f, 1001);
	cr_assert_lt(read(r->call, &n, sizeof(n)), 0);
}

Test(vsock_ring, kicks_are_asked_for_only_when_needed)
{
	cr_assert_eq(f.ring[VSOCK_TX].used->flags, 0);
	cr_assert_eq(f.ring[VSOCK_RX].used->flags, VQ_USED_F_NO_NOTIFY);
}

Test(vsock_front, forwards_are_parsed)
{
	struct forward w = {0};
	char longest[200];

	cr_assert_eq(forward_add(&w, "/run/weft/vm1.sock"), 0);
	cr_assert_eq(w.e[0].port, FORWARD_DEFAULT_PORT);
	cr_assert_eq(forward_add(&w, "7=/run/other=1"), 0);
	cr_assert_eq(w.e[1].port, 7);
	cr_assert_eq(strcmp(w.e[1].path, "/run/other=1"), 0);
	cr_assert_eq(forward_add(&w, "7=/x"), -EEXIST);
	cr_assert_eq(forward_add(&w, "x=/x"), -EINVAL);
	cr_assert_eq(forward_add(&w, "4294967295=/x"), -EINVAL);
	cr_assert_eq(forward_add(&w, "8="), -EINVAL);
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	cr_assert_eq(forward_add(&w, longest), -ENAMETOOLONG);
	cr_assert_eq(forward_connect(&w, 9), -ENOENT);
	for (unsigned i = w.n; i < FORWARD_MAX; i++) {
		snprintf(longest, sizeof(longest), "%u=/x", 100 + i);
		cr_assert_eq(forward_add(&w, longest), 0);
	}
	cr_assert_eq(forward_add(&w, "99=/x"), -ENOSPC);
}

/* ---- the connector ---- */

static struct forward told;
static int asked[2]; /* the connector's end is the second */

static void *answer(void *arg)
{
	connector_run(&told, asked[1]);
	return NULL;
}

static int listen_at(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(a.sun_path, path);
	unlink(path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	return fd;
}

Test(vsock_connector, connects_to_what_was_configured)
{
	char path[] = "/tmp/weft-connector-XXXXXX", arg[64];
	int listener, fd, old;
	pthread_t t;
	struct {
		uint32_t id;
		int32_t result;
	} stale = {1, 0};

	close(mkstemp(path));
	snprintf(arg, sizeof(arg), "7=%s", path);
	cr_assert_eq(forward_add(&told, arg), 0);
	cr_assert_eq(forward_add(&told, "8=/tmp/weft-connector-nothing"), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, asked), 0);
	listener = listen_at(path);
	/* For a server that did not live to take it. */
	old = dup(listener);
	cr_assert_eq(fd_send(asked[1], &stale, sizeof(stale), &old, 1), 0);
	cr_assert_eq(pthread_create(&t, NULL, answer, NULL), 0);

	fd = connector_ask(asked[0], 7);
	cr_assert_geq(fd, 0);
	cr_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
	cr_assert_eq(write(fd, "x", 1), 1);
	cr_assert_eq(connector_ask(asked[0], 8), -ENOENT);
	cr_assert_eq(connector_ask(asked[0], 9), -ENOENT);
	close(asked[0]);
	pthread_join(t, NULL);
	unlink(path);
}

Test(vsock_connector, is_no_more)
{
	int p[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p), 0);
	close(p[1]);
	cr_assert_eq(connector_ask(p[0], 7), -ECONNREFUSED);
}
