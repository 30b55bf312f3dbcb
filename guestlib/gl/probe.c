/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "gl.h"
#include "gl/probe.h"
#include "lane.h"
#include "link.h"

/* Numbers of virgl's. */
#define FORMAT_R8G8B8A8_UNORM 67
#define TARGET_2D             2
#define BIND_SAMPLER_VIEW     (1u << 3)
#define CAPS_SET_2            2

#define TEXTURE               1
#define SIDE                  512u
#define BYTES                 (4 * SIDE * SIDE)
#define READS                 9

/* The kernel has no larger ones. */
#define ERRNO_MAX 4095u

static const struct gl_transfer all = {.handle = TEXTURE, .w = SIDE, .h = SIDE, .d = 1};

/* Asks with a structure. Returns 0, -EPIPE: the host hung up, or the answer's errno. */
static int ask(struct lane *l, enum gl_op op, const void *body, uint32_t size,
	       struct lane_reply *reply)
{
	void *at = lane_begin(l, (uint16_t)op, size, 0, NULL);

	if (!at)
		return -EPIPE;
	memcpy(at, body, size);
	if (lane_call(l, reply) < 0 || reply->body_size < sizeof(struct wire_result))
		return -EPIPE;
	return -(int)MIN(((const struct wire_result *)reply->body)->result, ERRNO_MAX);
}

static uint8_t byte_at(uint32_t i)
{
	return (uint8_t)(i ^ i >> 10);
}

static int make_texture(struct lane *l)
{
	const struct gl_resource is = {.handle = TEXTURE,
				       .target = TARGET_2D,
				       .format = FORMAT_R8G8B8A8_UNORM,
				       .bind = BIND_SAMPLER_VIEW,
				       .width = SIDE,
				       .height = SIDE,
				       .depth = 1,
				       .array_size = 1};
	struct lane_reply reply;
	uint8_t *payload;
	void *at;
	int r = ask(l, GL_OP_RESOURCE_CREATE, &is, sizeof(is), &reply);

	if (r < 0)
		return r;
	at = lane_begin(l, GL_OP_TRANSFER_PUT, sizeof(all), BYTES, (void **)&payload);
	if (!at)
		return -EPIPE;
	memcpy(at, &all, sizeof(all));
	for (uint32_t i = 0; i < BYTES; i++)
		payload[i] = byte_at(i);
	return lane_post(l);
}

static int read_back(struct lane *l, uint64_t *ret_ns)
{
	uint64_t begin_ns = clock_now_ns();
	struct lane_reply reply;
	int r = ask(l, GL_OP_TRANSFER_GET, &all, sizeof(all), &reply);

	*ret_ns = clock_now_ns() - begin_ns;
	if (r == 0 && reply.payload_size != BYTES)
		r = -EPROTO;
	for (uint32_t i = 0; i < BYTES && r == 0; i++) {
		if (((const uint8_t *)reply.payload)[i] != byte_at(i))
			r = -EIO;
	}
	return r;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int try(struct lane *l, struct probe *ret)
{
	const struct gl_caps caps = {.set = CAPS_SET_2};
	uint64_t ns[READS];
	struct lane_reply reply;
	int r = ask(l, GL_OP_CAPS, &caps, sizeof(caps), &reply);

	if (r == 0)
		r = make_texture(l);
	for (unsigned i = 0; i < READS && r == 0; i++)
		r = read_back(l, &ns[i]);
	if (r < 0)
		return r;
	qsort(ns, READS, sizeof(*ns), compare);
	ret->read_ns = ns[READS / 2];
	return 0;
}

static const char *words(int error)
{
	switch (error) {
	case -EPIPE:
		return "the host hung up; weftd's log says why";
	case -EIO:
		return "what was drawn is not what came back";
	default:
		return strerror(-error);
	}
}

int probe(const char *address, struct probe *ret, char **ret_why)
{
	const struct link_opts opts = {.address = address, .graphics = true};
	struct lane *l = NULL;
	struct link *k;
	int r;

	*ret_why = NULL;
	r = link_connect(&opts, &k, ret_why);
	if (r < 0)
		return r;
	r = link_lane(k, &l);
	if (r == 0)
		r = try(l, ret);
	lane_free(l);
	link_free(k);
	if (r < 0)
		*ret_why = strdup(words(r));
	return r;
}
