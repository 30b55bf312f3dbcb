/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-gl with a guest that lies, up to virglrenderer, in whose place there is something that
 * checks: what comes there names a resource that is there, lies in it, and has the memory that
 * it says. Input, for each record:
 *
 *	1 byte		operation, from GL_OP_CAPS on
 *	1 byte		enum how
 *	2 bytes		words of the structure, if it says so; or of commands
 *	the structure, as it travels; commands
 *
 * What the driver answers is taken from the input's end. With REAL it is virglrenderer on Mesa's
 * rasteriser, whose defects are found as well.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <virgl/virglrenderer.h>

#include "base/log.h"
#include "base/macros.h"
#include "fake_lane.h"
#include "gl.h"
#include "gl/display.h"
#include "gl/serve.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum how {
	HOW_OTHER_WAY = 1, /* a call is posted, or the other way round */
	HOW_WORDS = 2,     /* the structure is as long as the record says */
	HOW_PAYLOAD =
		4, /* as many bytes as a transfer needs; of others, words of commands */
	HOW_WRONG = 8, /* one byte more */
};

#define RECORDS 128
#define LIMIT   (64ull << 20)
#define CHECK(x)                                                                         \
	do {                                                                             \
		if (!(x))                                                                \
			__builtin_trap();                                                \
	} while (0)

#ifndef REAL
static volatile uint8_t sink;

/* ---- the driver ---- */

#define SIZE_1 308u
#define SIZE_2 1380u
/* Resources that it makes. */
#define MADE_MAX RECORDS

static struct made {
	struct virgl_renderer_resource_create_args is;
	bool attached;
} made[MADE_MAX];
static struct virgl_renderer_callbacks *callbacks;
static void *cookie;
static uint32_t fences[RECORDS + 1];
static unsigned n_fences;
static bool late;              /* once */
static const uint8_t *answers; /* from the last one on, backwards */
static size_t n_answers;
static uint8_t answer(void)
{
	return n_answers ? answers[--n_answers] : 0;
}

static struct made *find_made(uint32_t handle)
{
	for (unsigned i = 0; i < MADE_MAX; i++) {
		if (made[i].is.handle == handle && handle)
			return &made[i];
	}
	return NULL;
}

virgl_debug_callback_type virgl_set_debug_callback(virgl_debug_callback_type cb)
{
	(void)cb;
	return NULL;
}

int virgl_renderer_init(void *c, int flags, struct virgl_renderer_callbacks *cb)
{
	(void)flags;
	cookie = c;
	callbacks = cb;
	return 0;
}

int virgl_renderer_context_create(uint32_t handle, uint32_t size, const char *name)
{
	return handle == 0 || strlen(name) != size;
}

void virgl_renderer_get_cap_set(uint32_t set, uint32_t *version, uint32_t *size)
{
	CHECK(set == 1 || set == 2);
	*version = 1;
	*size = set == 1 ? SIZE_1 : SIZE_2;
}

void virgl_renderer_fill_caps(uint32_t set, uint32_t version, void *caps)
{
	(void)version;
	memset(caps, 0xff, set == 1 ? SIZE_1 : SIZE_2);
}

int virgl_renderer_resource_create(struct virgl_renderer_resource_create_args *args,
				   struct iovec *iov, uint32_t n)
{
	uint8_t what = answer();

	CHECK(!iov && !n && args->handle && !find_made(args->handle));
	CHECK(args->width && args->height && args->depth &&
	      (args->array_size || !args->target));
	if (what & 1)
		return what & 2 ? ENOMEM : EINVAL;
	for (unsigned i = 0; i < MADE_MAX; i++) {
		if (!made[i].is.handle) {
			made[i] = (struct made){.is = *args};
			return 0;
		}
	}
	return ENOMEM;
}

void virgl_renderer_ctx_attach_resource(int ctx, int handle)
{
	struct made *m = find_made((uint32_t)handle);

	CHECK(ctx == 1 && m && !m->attached);
	m->attached = true;
}

void virgl_renderer_ctx_detach_resource(int ctx, int handle)
{
	struct made *m = find_made((uint32_t)handle);

	CHECK(ctx == 1 && m && m->attached);
	m->attached = false;
}

void virgl_renderer_resource_unref(uint32_t handle)
{
	struct made *m = find_made(handle);

	CHECK(m && !m->attached);
	m->is.handle = 0;
}

struct transfer_box {
	uint32_t x, y, z, w, h, d;
};

static uint32_t side(uint32_t n, uint32_t level)
{
	return MAX(n >> level, 1u);
}

/* The memory is touched to its last byte; a row, and a layer, have no more than they may. */
static int transfer(uint32_t handle, uint32_t ctx, uint32_t level, uint32_t stride,
		    uint32_t layer_stride, const struct virgl_box *box, uint64_t offset,
		    const struct iovec *iov, int n, bool writes)
{
	const struct transfer_box *b = (const void *)box;
	const struct made *m = find_made(handle);
	uint8_t *bytes = iov->iov_base;
	uint64_t z;

	CHECK(m && m->attached && ctx == 1 && n == 1 && !offset);
	CHECK(level <= m->is.last_level && b->w && b->h && b->d);
	z = m->is.target == 3 ? side(m->is.depth, level) : MAX(m->is.array_size, 1u);
	CHECK((uint64_t)b->x + b->w <= side(m->is.width, level) &&
	      (uint64_t)b->y + b->h <= side(m->is.height, level) &&
	      (uint64_t)b->z + b->d <= z);
	CHECK((uint64_t)layer_stride * b->d == iov->iov_len &&
	      layer_stride % stride == 0 && layer_stride / stride <= b->h);
	for (size_t i = 0; i < iov->iov_len; i++) {
		if (writes)
			bytes[i] = 1;
		else
			sink = bytes[i];
	}
	return answer() & 1;
}

int virgl_renderer_transfer_write_iov(uint32_t handle, uint32_t ctx, int level,
				      uint32_t stride, uint32_t layer_stride,
				      struct virgl_box *box, uint64_t offset,
				      struct iovec *iov, unsigned n)
{
	return transfer(handle, ctx, (uint32_t)level, stride, layer_stride, box, offset,
			iov, (int)n, false);
}

int virgl_renderer_transfer_read_iov(uint32_t handle, uint32_t ctx, uint32_t level,
				     uint32_t stride, uint32_t layer_stride,
				     struct virgl_box *box, uint64_t offset,
				     struct iovec *iov, int n)
{
	return transfer(handle, ctx, level, stride, layer_stride, box, offset, iov, n,
			true);
}

int virgl_renderer_submit_cmd(void *words, int ctx, int n)
{
	CHECK(ctx == 1 && n > 0);
	for (int i = 0; i < n; i++)
		((volatile uint32_t *)words)[i]++;
	return answer() & 1;
}

int virgl_renderer_create_fence(int id, uint32_t ctx)
{
	CHECK(ctx == 1);
	if (answer() & 1)
		return -1;
	fences[n_fences++] = (uint32_t)id;
	return 0;
}

void virgl_renderer_poll(void)
{
	if (!late && answer() & 1) {
		late = true;
		return;
	}
	for (unsigned i = 0; i < n_fences; i++)
		callbacks->write_fence(cookie, fences[i]);
	n_fences = 0;
}

void *display_context(int major, int minor, bool shared)
{
	(void)shared;
	return major + minor ? &cookie : NULL;
}

void display_context_free(void *context)
{
	(void)context;
}

int display_current(void *context)
{
	(void)context;
	return 0;
}

static void driver_begin(const uint8_t *data, size_t size)
{
	answers = data;
	n_answers = size;
	n_fences = 0;
	late = false;
}

static void driver_end(void)
{
}
#else
static void driver_begin(const uint8_t *data, size_t size)
{
	static bool opened;
	const char *why;

	(void)data;
	(void)size;
	if (!opened)
		CHECK(display_open(-1, 1, &why) == 0);
	opened = true;
}

/* The next input has a context of its own. */
static void driver_end(void)
{
	virgl_renderer_context_destroy(1);
}
#endif

/* ---- weftd ---- */

int msg_send(int sock, const struct msg *m, int fd0, int fd1)
{
	(void)sock;
	(void)fd0;
	(void)fd1;
	CHECK(m->type == MSG_COMPUTES);
	return 0;
}

static uint64_t charged;

static int charge(void *arg, uint64_t bytes)
{
	(void)arg;
	if (bytes > LIMIT - charged)
		return -EDQUOT;
	charged += bytes;
	return 0;
}

static void uncharge(void *arg, uint64_t bytes)
{
	(void)arg;
	CHECK(bytes <= charged);
	charged -= bytes;
}

/* ---- the guest ---- */

static struct input in;
static struct renderer *renderer;
static unsigned records, n_handles;
static uint32_t handles[RECORDS]; /* that it wanted */
static uint64_t body[WIRE_BODY_MAX / 8];
static uint8_t *payload; /* as large as it is said to be */

static const uint8_t sizes[] = {
	[0] = sizeof(struct gl_caps),
	[GL_OP_RESOURCE_CREATE - GL_OP_CAPS] = sizeof(struct gl_resource),
	[GL_OP_RESOURCE_UNREF - GL_OP_CAPS] = sizeof(struct gl_handle),
	[GL_OP_TRANSFER_PUT - GL_OP_CAPS] = sizeof(struct gl_transfer),
	[GL_OP_TRANSFER_GET - GL_OP_CAPS] = sizeof(struct gl_transfer),
	[GL_OP_SUBMIT - GL_OP_CAPS] = 0,
	[GL_OP_WAIT - GL_OP_CAPS] = sizeof(struct gl_wait),
	[GL_OP_END - GL_OP_CAPS] = 8, /* there is none */
};

static bool is_posted(uint16_t op)
{
	return op == GL_OP_RESOURCE_UNREF || op == GL_OP_TRANSFER_PUT ||
	       op == GL_OP_SUBMIT;
}

static uint32_t payload_of(uint16_t op, uint8_t how, uint32_t words)
{
	struct box box;
	uint32_t n = 0;

	if (!(how & HOW_PAYLOAD))
		return how & HOW_WRONG ? 1 : 0;
	if (op == GL_OP_TRANSFER_PUT &&
	    renderer_box(renderer, (const struct gl_transfer *)body, &box) == 0)
		n = box.bytes;
	else
		n = 4 * words;
	return MIN(n + !!(how & HOW_WRONG), WIRE_PAYLOAD_MAX);
}

static void take_commands(uint32_t size)
{
	uint32_t n = (uint32_t)MIN(size, in.n);

	if (n)
		memcpy(payload, in.p, n);
	in.p += n;
	in.n -= n;
}

static int receive(struct lane *l, struct lane_msg *ret)
{
	uint8_t which, how;
	uint32_t words, size;
	uint16_t op;

	(void)l;
	free(payload);
	payload = NULL;
	if (!in.n || records++ == RECORDS)
		return -EPIPE;
	which = take(&in) % ARRAY_SIZE(sizes);
	how = take(&in);
	words = take_bytes(&in, 2);
	op = (uint16_t)(GL_OP_CAPS + which);
	size = how & HOW_WORDS ? MIN(8 * (words % 32), WIRE_BODY_MAX) : sizes[which];
	for (uint32_t i = 0; i < size / 4; i++)
		((uint32_t *)body)[i] = take_bytes(&in, 4);
	*ret = (struct lane_msg){
		.hdr = {.op = op,
			.fixed = (uint16_t)(size / 8),
			.flags = is_posted(op) != !!(how & HOW_OTHER_WAY) ? WIRE_F_ASYNC
									  : 0},
		.body = body,
		.body_size = size,
	};
	ret->payload_size = payload_of(op, how, words);
	if (ret->payload_size)
		ret->payload = payload = calloc(1, ret->payload_size);
	CHECK(!ret->payload_size || payload);
	if (op == GL_OP_SUBMIT)
		take_commands(ret->payload_size);
	if (op == GL_OP_RESOURCE_CREATE)
		handles[n_handles++] = (uint32_t)body[0];
	return 0;
}

static uint64_t replied[WIRE_BODY_MAX / 8];

static int reserve(struct lane *l, struct lane_out *out, void **ret_body)
{
	(void)l;
	CHECK(fake_payload(out) && wire_size(&out->hdr) <= sizeof(replied));
	*ret_body = replied;
	return 0;
}

static int publish(struct lane *l, struct lane_out *out)
{
	(void)l;
	CHECK(!(out->hdr.flags & WIRE_F_ASYNC));
	fake_said(out);
	return 0;
}

static const struct carrier_ops ops = {.name = "fuzz",
				       .reserve = reserve,
				       .publish = publish,
				       .receive = receive,
				       .fini = fake_fini};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct worker_page page;
	static struct meter meter;
	struct accounts accounts = {.charge = charge, .uncharge = uncharge};
	struct serve s = {.page = &page, .meter = &meter};

	log_set_level(LOG_LVL_ERROR);
	in = (struct input){data, size};
	records = n_handles = 0;
	driver_begin(data, size);
	if (!renderer)
		CHECK(meter_init(&meter, &page) == 0 &&
		      renderer_open(&meter, &renderer) == 0);
	CHECK(renderer_begin(renderer, &accounts, "fuzz") == 0);
	s.renderer = renderer;
	s.lane = fake_lane(&ops, NULL);
	(void)serve(&s);
	(void)renderer_busy(renderer, true);
	CHECK(charged == renderer_bytes(renderer) && charged == page.memory_bytes);
	for (unsigned i = 0; i < n_handles; i++)
		(void)renderer_unref(renderer, handles[i]);
	CHECK(!charged);
	page.memory_bytes = 0;
	driver_end();
	lane_free(s.lane);
	free(payload);
	payload = NULL;
	return 0;
}
