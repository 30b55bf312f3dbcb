/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "gl.h"
#include "gl/client.h"
#include "gl/memory.h"
#include "gl/vtest.h"
#include "lane.h"
#include "link.h"

#define NAME_MAX_BYTES (1u << 20)
/* Bytes of a capability set. */
#define CAPS_MAX (WIRE_PAYLOAD_MAX / 4)

struct client {
	int sock;
	struct link *link;
	struct lane *lane; /* NULL: it has not begun */
	struct memories memories;
	bool works; /* something was submitted since the host had nothing to do last */
};

/* ---- the driver's side ---- */

static int take(struct client *c, void *buf, size_t size)
{
	return fd_read_full(c->sock, buf, size);
}

static int say(struct client *c, uint32_t id, uint32_t word)
{
	const uint32_t text[] = {1, id, word};

	return fd_write_full(c->sock, text, sizeof(text));
}

/* Reads what is of no use. */
static int skip(struct client *c, size_t size)
{
	char buf[256];
	int r = 0;

	for (size_t n; size && r == 0; size -= n) {
		n = MIN(size, sizeof(buf));
		r = take(c, buf, n);
	}
	return r;
}

/* ---- the host's side ---- */

/* Begins a call or post that has a structure of `size` bytes, filled in from `body`. */
static int begin(struct client *c, enum gl_op op, const void *body, uint32_t size,
		 uint32_t payload_size, void **ret_payload)
{
	void *at = lane_begin(c->lane, (uint16_t)op, size, payload_size, ret_payload);

	if (!at)
		return -EPIPE;
	if (size)
		memcpy(at, body, size);
	return 0;
}

/* Returns the errno of the answer, negative. */
static int call(struct client *c, struct lane_reply *ret)
{
	int r = lane_call(c->lane, ret);

	if (r == 0 && ret->body_size < sizeof(struct wire_result))
		return -EPROTO;
	return r;
}

static uint32_t result_of(const struct lane_reply *reply)
{
	return ((const struct wire_result *)reply->body)->result;
}

/* ---- messages ---- */

static uint32_t pid_of(int sock)
{
	struct ucred who = {0};
	socklen_t size = sizeof(who);

	(void)getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &size);
	return (uint32_t)MAX(who.pid, 0);
}

/* The last part of a path, cut to what a hello has room for. */
static void name_of(const char *path, char *ret, size_t room)
{
	const char *slash = strrchr(path, '/');

	snprintf(ret, room, "%s", slash && slash[1] ? slash + 1 : path);
}

static int on_renderer(struct client *c, uint32_t length)
{
	char path[256] = "", name[24];
	struct link_opts opts = {.graphics = true, .pid = pid_of(c->sock), .name = name};
	_cleanup_free_ char *why = NULL;
	size_t n = MIN(length, sizeof(path) - 1);
	int r;

	if (c->lane || length > NAME_MAX_BYTES)
		return -EPROTO;
	r = take(c, path, n);
	if (r == 0)
		r = skip(c, length - n);
	if (r < 0)
		return r;
	name_of(path, name, sizeof(name));
	r = link_connect(&opts, &c->link, &why);
	if (r < 0) {
		log_error("%s: no graphics: %s", name, why ? why : strerror(-r));
		return r;
	}
	return link_lane(c->link, &c->lane);
}

static int on_version(struct client *c)
{
	uint32_t version;
	int r = take(c, &version, sizeof(version));

	if (r < 0)
		return r;
	if (version < VTEST_VERSION) {
		log_error("this Mesa speaks version %u of vtest, and 2 is needed",
			  version);
		return -EPROTONOSUPPORT;
	}
	return say(c, VTEST_PROTOCOL_VERSION, VTEST_VERSION);
}

static int on_caps(struct client *c, uint32_t set)
{
	const struct gl_caps want = {.set = set};
	struct lane_reply reply;
	struct vtest_head head;
	int r = begin(c, GL_OP_CAPS, &want, sizeof(want), 0, NULL);

	if (r == 0)
		r = call(c, &reply);
	if (r < 0)
		return r;
	if (result_of(&reply) || !reply.payload_size || reply.payload_size > CAPS_MAX)
		return -EPROTO;
	/* As vtest's own server counts it: bytes, and one. */
	head = (struct vtest_head){.length = reply.payload_size + 1, .id = set};
	r = fd_write_full(c->sock, &head, sizeof(head));
	return r < 0 ? r : fd_write_full(c->sock, reply.payload, reply.payload_size);
}

/* Without a descriptor the driver takes it that there is no memory, and so does the program:
 * GL_OUT_OF_MEMORY. */
static int give_memory(struct client *c, int fd)
{
	return fd_send(c->sock, "", 1, &fd, fd >= 0);
}

static int create(struct client *c, const struct gl_resource *is)
{
	struct lane_reply reply;
	int r = begin(c, GL_OP_RESOURCE_CREATE, is, sizeof(*is), 0, NULL);

	if (r == 0)
		r = call(c, &reply);
	if (r < 0)
		return r;
	return result_of(&reply) ? -ENOMEM : 0;
}

static int unref(struct client *c, uint32_t handle)
{
	const struct gl_handle which = {.handle = handle};
	int r = begin(c, GL_OP_RESOURCE_UNREF, &which, sizeof(which), 0, NULL);

	return r < 0 ? r : lane_post(c->lane);
}

static int on_create(struct client *c)
{
	struct vtest_resource want;
	struct gl_resource is;
	_cleanup_close_ int fd = -1;
	int r = take(c, &want, sizeof(want));

	if (r < 0)
		return r;
	static_assert(sizeof(is) == offsetof(struct vtest_resource, size),
		      "the same fields");
	memcpy(&is, &want, sizeof(is));
	r = memory_find(&c->memories, is.handle) ? -EEXIST : create(c, &is);
	if (r == -EPIPE || r == -EPROTO)
		return r;
	if (r == 0) {
		r = memory_new(&c->memories, &is, want.size, &fd);
		if (r < 0 && unref(c, is.handle) < 0)
			return -EPIPE;
	}
	return want.size ? give_memory(c, fd) : 0;
}

static int on_unref(struct client *c)
{
	struct memory *m;
	uint32_t handle;
	int r = take(c, &handle, sizeof(handle));

	if (r < 0)
		return r;
	m = memory_find(&c->memories, handle);
	if (!m)
		return 0;
	memory_free(&c->memories, m);
	return unref(c, handle);
}

static int put(struct client *c, const struct memory *m, const struct memory_box *b,
	       uint32_t bytes)
{
	void *payload;
	int r = begin(c, GL_OP_TRANSFER_PUT, &b->t, sizeof(b->t), bytes, &payload);

	if (r < 0)
		return r;
	memory_pack(m, b, payload);
	c->works = true;
	return lane_post(c->lane);
}

static int get(struct client *c, const struct memory *m, const struct memory_box *b,
	       uint32_t bytes)
{
	struct lane_reply reply;
	int r = begin(c, GL_OP_TRANSFER_GET, &b->t, sizeof(b->t), 0, NULL);

	if (r == 0)
		r = call(c, &reply);
	if (r < 0)
		return r;
	if (result_of(&reply) == 0 && reply.payload_size == bytes)
		memory_unpack(m, b, reply.payload);
	return 0;
}

static int on_transfer(struct client *c,
		       int (*move)(struct client *c, const struct memory *m,
				   const struct memory_box *b, uint32_t bytes))
{
	struct vtest_transfer want;
	struct memory_box box, part;
	const struct memory *m;
	struct memory_walk walk;
	uint32_t bytes;
	int r = take(c, &want, sizeof(want));

	if (r < 0)
		return r;
	static_assert(sizeof(box.t) == offsetof(struct vtest_transfer, size),
		      "the same fields");
	memcpy(&box.t, &want, sizeof(box.t));
	box.offset = want.offset;
	m = memory_find(&c->memories, want.handle);
	if (!m || !memory_walk(m, &box, &walk)) {
		log_debug("a transfer of resource %u is none", want.handle);
		return 0;
	}
	while (r == 0 && (bytes = memory_next(m, &walk, &part)))
		r = move(c, m, &part, bytes);
	return r;
}

static int on_submit(struct client *c, uint32_t words)
{
	void *payload;
	int r;

	if (!words)
		return 0;
	if (words > WIRE_PAYLOAD_MAX / sizeof(uint32_t))
		return -EPROTO;
	c->works = true;
	r = begin(c, GL_OP_SUBMIT, NULL, 0, words * sizeof(uint32_t), &payload);
	if (r == 0)
		r = take(c, payload, words * sizeof(uint32_t));
	return r < 0 ? r : lane_post(c->lane);
}

/* Drivers ask several times about each picture. What is read back is read when it is there; so
 * without commands or data since the last answer there is nothing to ask the host. */
static int on_busy(struct client *c)
{
	struct vtest_busy_wait want;
	struct lane_reply reply;
	struct gl_wait wait;
	int r = take(c, &want, sizeof(want));

	if (r < 0)
		return r;
	if (!c->works)
		return say(c, VTEST_BUSY_WAIT, 0);
	wait = (struct gl_wait){.wait = want.flags & VTEST_BUSY_WAIT_WAITS};
	r = begin(c, GL_OP_WAIT, &wait, sizeof(wait), 0, NULL);
	if (r == 0)
		r = call(c, &reply);
	if (r < 0)
		return r;
	if (reply.body_size < sizeof(struct gl_busy))
		return -EPROTO;
	c->works = ((const struct gl_busy *)reply.body)->busy;
	return say(c, VTEST_BUSY_WAIT, c->works);
}

static int on_message(struct client *c, const struct vtest_head *h)
{
	if (h->id != VTEST_CREATE_RENDERER && !c->lane)
		return -EPROTO;
	switch (h->id) {
	case VTEST_CREATE_RENDERER:
		return on_renderer(c, h->length);
	case VTEST_PING:
		return fd_write_full(c->sock, h, sizeof(*h));
	case VTEST_PROTOCOL_VERSION:
		return on_version(c);
	case VTEST_GET_CAPS:
		return on_caps(c, 1);
	case VTEST_GET_CAPS2:
		return on_caps(c, 2);
	case VTEST_RESOURCE_CREATE2:
		return on_create(c);
	case VTEST_RESOURCE_UNREF:
		return on_unref(c);
	case VTEST_TRANSFER_PUT2:
		return on_transfer(c, put);
	case VTEST_TRANSFER_GET2:
		return on_transfer(c, get);
	case VTEST_SUBMIT:
		return on_submit(c, h->length);
	case VTEST_BUSY_WAIT:
		return on_busy(c);
	default:
		log_error("message %u of vtest is not known", h->id);
		return -EPROTO;
	}
}

void client_serve(int sock)
{
	struct client c = {.sock = sock};
	struct vtest_head h;
	int r;

	do {
		r = take(&c, &h, sizeof(h));
		if (r == 0)
			r = on_message(&c, &h);
	} while (r == 0);
	if (r != -ENODATA)
		log_debug("a connection ends: %s", strerror(-r));
	memories_fini(&c.memories);
	lane_free(c.lane);
	link_free(c.link);
	close(c.sock);
}
