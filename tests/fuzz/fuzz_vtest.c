/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-guest-gl between a driver and a host that both say anything. Input: how many bytes the
 * driver says (2 bytes), these, and then for each answer of the host's 1 byte, enum lie, and
 * what that needs. What is asked of the host is checked: transfers are of resources that were
 * asked for, and carry what they say.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "fake_lane.h"
#include "gl.h"
#include "gl/client.h"
#include "gl_format.h"
#include "input.h"
#include "link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum lie {
	LIE_REFUSED = 1, /* an errno as the result */
	LIE_SHORT = 2,   /* no structure */
	LIE_SIZE = 4,    /* 2 bytes: bytes of payload; else as many as were asked for */
	LIE_GONE = 8,    /* none; the session has ended */
};

/* No driver's memory is larger here. */
#define MEMORY_MAX (16ul << 20)
#define KNOWN      256
#define CHECK(x)                                                                         \
	do {                                                                             \
		if (!(x))                                                                \
			__builtin_trap();                                                \
	} while (0)

static struct input in;
static struct lane *lane;
static struct gl_resource known[KNOWN]; /* asked for, and not ended */
static unsigned n_known;
static bool works; /* commands or data came after the host had nothing to do last */
static uint64_t body[WIRE_BODY_MAX / 8], answer[WIRE_BODY_MAX / 8];
static uint8_t *payload, *reserved;
static struct wire_hdr asked;
static uint32_t asked_bytes;

/* ---- what is asked of the host ---- */

static const struct gl_resource *find(uint32_t handle)
{
	for (unsigned i = n_known; i-- > 0;) {
		if (known[i].handle == handle)
			return &known[i];
	}
	return NULL;
}

static uint32_t bytes_of(const struct gl_transfer *t)
{
	const struct gl_resource *is = find(t->handle);
	struct gl_format f;
	uint64_t n;

	CHECK(is && gl_format(is->format, &f) && t->w && t->h && t->d);
	n = gl_row(&f, t->w) * gl_rows(&f, t->h) * t->d;
	CHECK(n && n <= WIRE_PAYLOAD_MAX);
	return (uint32_t)n;
}

static void look_at(const struct lane_out *out)
{
	asked = out->hdr;
	asked_bytes = 0;
	switch (out->hdr.op) {
	case GL_OP_CAPS:
		asked_bytes = 100;
		break;
	case GL_OP_RESOURCE_CREATE:
		if (n_known < KNOWN)
			memcpy(&known[n_known++], body, sizeof(*known));
		break;
	case GL_OP_TRANSFER_PUT:
	case GL_OP_TRANSFER_GET:
		works |= out->hdr.op == GL_OP_TRANSFER_PUT;
		if (n_known == KNOWN)
			break;
		asked_bytes = bytes_of((const struct gl_transfer *)body);
		CHECK(out->hdr.op == GL_OP_TRANSFER_GET ||
		      out->payload_size == asked_bytes);
		break;
	case GL_OP_SUBMIT:
		CHECK(out->payload_size && out->payload_size % 4 == 0);
		works = true;
		break;
	case GL_OP_WAIT:
		CHECK(works);
		break;
	default:
		break;
	}
}

/* ---- the host ---- */

static int reserve(struct lane *l, struct lane_out *out, void **ret_body)
{
	(void)l;
	CHECK(fake_payload(out));
	free(reserved);
	reserved = out->payload;
	memset(body, 0, sizeof(body));
	*ret_body = body;
	return 0;
}

static int publish(struct lane *l, struct lane_out *out)
{
	(void)l;
	look_at(out);
	fake_said(out);
	reserved = NULL;
	return 0;
}

static int receive(struct lane *l, struct lane_msg *ret)
{
	uint8_t lie = take(&in);
	uint32_t bytes = lie & LIE_SIZE ? take_bytes(&in, 2) : asked_bytes;

	(void)l;
	free(payload);
	payload = NULL;
	if (lie & LIE_GONE)
		return -EPIPE;
	memset(answer, 0, sizeof(answer));
	if (lie & LIE_REFUSED)
		answer[0] = ENOMEM;
	*ret = (struct lane_msg){
		.hdr = {.op = asked.op, .seq = asked.seq, .flags = WIRE_F_REPLY},
		.body = answer,
		.body_size = lie & LIE_SHORT ? 0 : 16,
		.payload_size = bytes};
	ret->hdr.fixed = (uint16_t)(ret->body_size / 8);
	if (asked.op == GL_OP_WAIT && ret->body_size)
		works = (uint32_t)answer[1]; /* struct gl_busy's */
	if (bytes)
		ret->payload = payload = calloc(1, bytes);
	return 0;
}

static const struct carrier_ops ops = {.name = "fuzz",
				       .reserve = reserve,
				       .publish = publish,
				       .receive = receive,
				       .fini = fake_fini};

int link_connect(const struct link_opts *opts, struct link **ret_link, char **ret_why)
{
	CHECK(opts->graphics && strlen(opts->name) < 256);
	*ret_link = (struct link *)&in;
	*ret_why = NULL;
	return 0;
}

int link_lane(struct link *k, struct lane **ret)
{
	static struct lane_tickets tickets;

	CHECK(k == (struct link *)&in && !lane);
	tickets = (struct lane_tickets){1};
	lane = fake_lane(&ops, &tickets);
	*ret = lane;
	return 0;
}

void link_free(struct link *k)
{
	CHECK(!k || k == (struct link *)&in);
}

/* ---- the driver ---- */

static void set_up(void)
{
	static bool done;

	if (done)
		return;
	done = true;
	log_set_level(LOG_LVL_NONE);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){MEMORY_MAX, MEMORY_MAX});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t says;
	int s[2];

	set_up();
	in = (struct input){data, size};
	says = take_bytes(&in, 2);
	says = MIN(says, in.n);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s) == 0);
	if (says && write(s[1], in.p, says) != (ssize_t)says)
		says = 0;
	shutdown(s[1], SHUT_WR);
	in.p += says;
	in.n -= says;
	works = false;
	n_known = 0;
	lane = NULL;
	client_serve(s[0]);
	close(s[1]);
	free(payload);
	free(reserved);
	payload = reserved = NULL;
	return 0;
}
