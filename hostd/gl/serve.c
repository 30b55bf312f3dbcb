/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "gl/serve.h"

/* A record's structure, copied: zeros where the guest's is shorter. */
static int body(const struct serve *s, struct lane_msg *m, void *ret, uint32_t size)
{
	if (lane_fit_msg(s->lane, m, size) < 0)
		return -EPROTO;
	memcpy(ret, m->body, size);
	return 0;
}

/* Answers with a result alone. */
static int answer(struct serve *s, int result)
{
	struct wire_result *a = lane_reply_begin(s->lane, 0, sizeof(*a), 0, NULL);

	if (!a)
		return -EPIPE;
	a->result = (uint32_t)-result;
	return lane_reply(s->lane);
}

static int on_caps(struct serve *s, struct lane_msg *m)
{
	struct wire_result *a;
	struct gl_caps want;
	void *payload;
	uint32_t size;

	if (body(s, m, &want, sizeof(want)) < 0)
		return -EPROTO;
	size = renderer_caps_size(want.set);
	if (!size)
		return answer(s, -EINVAL);
	a = lane_reply_begin(s->lane, 0, sizeof(*a), size, &payload);
	if (!a)
		return -EPIPE;
	renderer_caps(want.set, payload);
	return lane_reply(s->lane);
}

static void count_memory(struct serve *s)
{
	uint64_t bytes = renderer_bytes(s->renderer);

	atomic_store(&s->page->memory_bytes, bytes);
	atomic_store(&s->page->pinned_bytes, bytes);
	if (bytes > atomic_load(&s->page->memory_peak_bytes))
		atomic_store(&s->page->memory_peak_bytes, bytes);
}

static int on_create(struct serve *s, struct lane_msg *m)
{
	struct gl_resource want;
	int r;

	if (body(s, m, &want, sizeof(want)) < 0)
		return -EPROTO;
	r = renderer_create(s->renderer, &want);
	if (r < 0)
		log_debug("resource %u (target %u, format %u, bind 0x%x, %ux%ux%u, %u "
			  "layers): %s",
			  want.handle, want.target, want.format, want.bind, want.width,
			  want.height, want.depth, want.array_size, strerror(-r));
	count_memory(s);
	return answer(s, r);
}

/* A program's mistake in what has no answer is its own matter: nothing happens. */
static void shrug(const char *what, uint32_t handle, int r)
{
	if (r < 0)
		log_debug("%s of resource %u: %s", what, handle, strerror(-r));
}

static int on_unref(struct serve *s, struct lane_msg *m)
{
	struct gl_handle which;

	if (body(s, m, &which, sizeof(which)) < 0)
		return -EPROTO;
	shrug("end", which.handle, renderer_unref(s->renderer, which.handle));
	count_memory(s);
	return 0;
}

static int on_put(struct serve *s, struct lane_msg *m)
{
	struct gl_transfer t;
	struct box box;
	int r;

	if (body(s, m, &t, sizeof(t)) < 0)
		return -EPROTO;
	r = renderer_box(s->renderer, &t, &box);
	if (r == 0 && box.bytes != m->payload_size)
		return -EPROTO;
	if (r == 0)
		r = renderer_put(s->renderer, &t, &box, (void *)m->payload);
	if (r == 0)
		atomic_fetch_add(&s->page->bytes_to_device, box.bytes);
	shrug("transfer", t.handle, r);
	return 0;
}

static int on_get(struct serve *s, struct lane_msg *m)
{
	struct wire_result *a;
	struct gl_transfer t;
	struct box box;
	void *payload;
	int r;

	if (body(s, m, &t, sizeof(t)) < 0)
		return -EPROTO;
	r = renderer_box(s->renderer, &t, &box);
	if (r < 0)
		return answer(s, r);
	a = lane_reply_begin(s->lane, 0, sizeof(*a), box.bytes, &payload);
	if (!a)
		return -EPIPE;
	r = renderer_get(s->renderer, &t, &box, payload);
	if (r == 0)
		atomic_fetch_add(&s->page->bytes_from_device, box.bytes);
	a->result = (uint32_t)-r;
	return lane_reply(s->lane);
}

/* Commands may still change where they lie, hence the copy. */
static int on_submit(struct serve *s, struct lane_msg *m)
{
	static uint32_t words[WIRE_PAYLOAD_MAX / sizeof(uint32_t)];

	if (!m->payload_size || m->payload_size % sizeof(*words))
		return -EPROTO;
	memcpy(words, m->payload, m->payload_size);
	atomic_fetch_add(&s->page->launches, 1);
	atomic_store(&s->page->last_submit_ns, clock_now_ns());
	if (renderer_submit(s->renderer, words, m->payload_size / sizeof(*words)) < 0)
		log_debug("commands were refused");
	return 0;
}

static int on_wait(struct serve *s, struct lane_msg *m)
{
	struct gl_wait want;
	struct gl_busy *a;
	bool busy;

	if (body(s, m, &want, sizeof(want)) < 0)
		return -EPROTO;
	busy = renderer_busy(s->renderer, want.wait);
	a = lane_reply_begin(s->lane, 0, sizeof(*a), 0, NULL);
	if (!a)
		return -EPIPE;
	a->busy = busy;
	return lane_reply(s->lane);
}

static const struct handler {
	int (*fn)(struct serve *s, struct lane_msg *m);
	bool posted, payload;
	bool draws; /* gives the device work */
} handlers[] = {
	[0] = {on_caps, false, false, false},
	[GL_OP_RESOURCE_CREATE - GL_OP_CAPS] = {on_create, false, false, true},
	[GL_OP_RESOURCE_UNREF - GL_OP_CAPS] = {on_unref, true, false, false},
	[GL_OP_TRANSFER_PUT - GL_OP_CAPS] = {on_put, true, true, true},
	[GL_OP_TRANSFER_GET - GL_OP_CAPS] = {on_get, false, false, true},
	[GL_OP_SUBMIT - GL_OP_CAPS] = {on_submit, true, true, true},
	[GL_OP_WAIT - GL_OP_CAPS] = {on_wait, false, false, false},
};
static_assert(ARRAY_SIZE(handlers) == GL_OP_END - GL_OP_CAPS, "a handler for each");

static int handle(struct serve *s, struct lane_msg *m)
{
	uint32_t i = (uint32_t)m->hdr.op - GL_OP_CAPS;
	const struct handler *h;
	int r;

	if (i >= ARRAY_SIZE(handlers))
		return -EPROTO;
	h = &handlers[i];
	if (h->posted != !!(m->hdr.flags & WIRE_F_ASYNC) ||
	    h->payload != (m->payload_size > 0))
		return -EPROTO;
	atomic_fetch_add_explicit(h->posted ? &s->page->posts : &s->page->calls, 1,
				  memory_order_relaxed);
	if (h->draws)
		meter_begin(s->meter);
	atomic_store_explicit(&s->since_ns, clock_now_ns(), memory_order_relaxed);
	r = h->fn(s, m);
	atomic_store_explicit(&s->since_ns, 0, memory_order_relaxed);
	if (h->draws)
		meter_end(s->meter);
	return r;
}

int serve(struct serve *s)
{
	struct lane_msg m;
	int r;

	do {
		r = lane_recv(s->lane, &m);
		if (r == 0)
			r = handle(s, &m);
	} while (r == 0);
	return r == -EPROTO ? r : 0;
}
