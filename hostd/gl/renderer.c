/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
/* For the flag by which the thread that waits for fences tells of them. */
#define VIRGL_RENDERER_UNSTABLE_APIS
#include <virgl/virglrenderer.h>

#include "base/log.h"
#include "base/macros.h"
#include "gl/display.h"
#include "gl/renderer.h"

/* The one context of the process. */
#define CONTEXT 1
/* virgl_hw.h: in capability set 2, where the first word of capability bits lies, and two of
 * the bits. They let a driver have the host read resources' memory while it carries out
 * commands; here that memory is the guest's alone. */
#define CAPS_SET_2        2
#define CAPS_BITS_AT      392
#define CAP_TRANSFER      (1u << 17)
#define CAP_COPY_TRANSFER (1u << 26)
/* virgl_hw.h: uniform blocks of a shader, the nameless one included; of the GPU's,
 * virglrenderer keeps one back for itself. */
#define CAPS_BLOCKS_AT 296
#define BLOCKS_WANTED  15u
/* Queries are looked at so often while fences are waited for. */
#define LOOK_MS 5

struct renderer {
	struct resources resources;
	struct accounts accounts;
	struct meter *meter;
	_Atomic uint64_t bytes;
};

struct virgl_box {
	uint32_t x, y, z, w, h, d;
};

/* ---- virglrenderer's callbacks ---- */

static void write_fence(void *cookie, uint32_t fence)
{
	struct renderer *r = cookie;

	meter_fence_done(r->meter, fence);
}

static virgl_renderer_gl_context create_context(void *cookie, int scanout,
						struct virgl_renderer_gl_ctx_param *p)
{
	(void)cookie;
	(void)scanout;
	return display_context(p->major_ver, p->minor_ver, p->shared);
}

static void destroy_context(void *cookie, virgl_renderer_gl_context ctx)
{
	(void)cookie;
	display_context_free(ctx);
}

static int make_current(void *cookie, int scanout, virgl_renderer_gl_context ctx)
{
	(void)cookie;
	(void)scanout;
	return display_current(ctx);
}

static struct virgl_renderer_callbacks callbacks = {
	.version = 1,
	.write_fence = write_fence,
	.create_gl_context = create_context,
	.destroy_gl_context = destroy_context,
	.make_current = make_current,
};

/* The library's remarks, of which it has three for each program: no news. */
static void say(const char *fmt, va_list ap)
{
	char text[256];

	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_debug("virglrenderer: %s", text);
}

int renderer_open(struct meter *m, struct renderer **ret)
{
	const int flags = VIRGL_RENDERER_THREAD_SYNC | VIRGL_RENDERER_ASYNC_FENCE_CB;
	struct renderer *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->meter = m;
	virgl_set_debug_callback(say);
	if (virgl_renderer_init(r, flags, &callbacks)) {
		free(r);
		return -ENODEV;
	}
	*ret = r;
	return 0;
}

int renderer_begin(struct renderer *r, const struct accounts *accounts, const char *name)
{
	r->accounts = *accounts;
	return virgl_renderer_context_create(CONTEXT, (uint32_t)strlen(name), name) ? -EIO
										    : 0;
}

/* ---- capabilities ---- */

uint32_t renderer_caps_size(uint32_t set)
{
	uint32_t version, size = 0;

	if (set == 1 || set == CAPS_SET_2)
		virgl_renderer_get_cap_set(set, &version, &size);
	return size <= GL_CAPS_MAX ? size : 0;
}

/* OpenGL 4.3 asks for 14 blocks, which is what NVIDIA's has; with one less Mesa says 4.2. Few shaders
 * use all of them and what virglrenderer needs its own for, too: such a one does not link. */
static void tell_blocks(void *caps)
{
	uint32_t n;

	memcpy(&n, (char *)caps + CAPS_BLOCKS_AT, sizeof(n));
	n += n == BLOCKS_WANTED - 1;
	memcpy((char *)caps + CAPS_BLOCKS_AT, &n, sizeof(n));
}

void renderer_caps(uint32_t set, void *ret)
{
	uint32_t bits;

	virgl_renderer_fill_caps(set, 1, ret);
	tell_blocks(ret);
	if (set != CAPS_SET_2)
		return;
	memcpy(&bits, (char *)ret + CAPS_BITS_AT, sizeof(bits));
	bits &= ~(CAP_TRANSFER | CAP_COPY_TRANSFER);
	memcpy((char *)ret + CAPS_BITS_AT, &bits, sizeof(bits));
}

/* ---- resources ---- */

static void note_bytes(struct renderer *r)
{
	atomic_store_explicit(&r->bytes, r->resources.bytes, memory_order_relaxed);
}

static int make(const struct gl_resource *want)
{
	struct virgl_renderer_resource_create_args args = {
		.handle = want->handle,
		.target = want->target,
		.format = want->format,
		.bind = want->bind,
		.width = want->width,
		.height = want->height,
		.depth = want->depth,
		.array_size = want->array_size,
		.last_level = want->last_level,
		.nr_samples = want->nr_samples,
	};
	int e = virgl_renderer_resource_create(&args, NULL, 0);

	if (e)
		return e == ENOMEM ? -ENOMEM : -EINVAL;
	virgl_renderer_ctx_attach_resource(CONTEXT, (int)want->handle);
	return 0;
}

int renderer_create(struct renderer *r, const struct gl_resource *want)
{
	struct gl_format f;
	uint64_t bytes;
	int e = resource_check(&r->resources, want, &f, &bytes);

	if (e < 0)
		return e;
	if (r->accounts.charge(r->accounts.arg, bytes) < 0)
		return -EDQUOT;
	e = make(want);
	if (e == 0) {
		e = resource_add(&r->resources, want, &f, bytes);
		if (e < 0)
			virgl_renderer_resource_unref(want->handle);
	}
	if (e < 0)
		r->accounts.uncharge(r->accounts.arg, bytes);
	note_bytes(r);
	return e;
}

int renderer_unref(struct renderer *r, uint32_t handle)
{
	struct resource *is = resource_find(&r->resources, handle);

	if (!is)
		return -ENOENT;
	virgl_renderer_ctx_detach_resource(CONTEXT, (int)handle);
	virgl_renderer_resource_unref(handle);
	r->accounts.uncharge(r->accounts.arg, resource_remove(&r->resources, is));
	note_bytes(r);
	return 0;
}

uint64_t renderer_bytes(const struct renderer *r)
{
	return atomic_load_explicit(&r->bytes, memory_order_relaxed);
}

/* ---- transfers and drawing ---- */

/* Everything before it is done when it is. */
static void fence(struct renderer *r)
{
	uint32_t id = meter_fence(r->meter);

	if (virgl_renderer_create_fence((int)id, CONTEXT))
		meter_fence_done(r->meter, id);
}

int renderer_box(const struct renderer *r, const struct gl_transfer *t, struct box *ret)
{
	const struct resource *is = resource_find(&r->resources, t->handle);

	return is ? resource_box(is, t, ret) : -ENOENT;
}

static struct virgl_box box_of(const struct gl_transfer *t)
{
	return (struct virgl_box){t->x, t->y, t->z, t->w, t->h, t->d};
}

int renderer_put(struct renderer *r, const struct gl_transfer *t, const struct box *b,
		 void *data)
{
	struct iovec iov = {.iov_base = data, .iov_len = b->bytes};
	struct virgl_box box = box_of(t);

	if (virgl_renderer_transfer_write_iov(t->handle, CONTEXT, (int)t->level,
					      b->stride, b->layer_stride, &box, 0, &iov,
					      1))
		return -EIO;
	fence(r);
	return 0;
}

int renderer_get(struct renderer *r, const struct gl_transfer *t, const struct box *b,
		 void *data)
{
	struct iovec iov = {.iov_base = data, .iov_len = b->bytes};
	struct virgl_box box = box_of(t);

	(void)r;
	return virgl_renderer_transfer_read_iov(t->handle, CONTEXT, t->level, b->stride,
						b->layer_stride, &box, 0, &iov, 1)
		       ? -EIO
		       : 0;
}

int renderer_submit(struct renderer *r, uint32_t *words, uint32_t n)
{
	int e = virgl_renderer_submit_cmd(words, CONTEXT, (int)n);

	fence(r);
	return e ? -EIO : 0;
}

bool renderer_busy(struct renderer *r, bool wait)
{
	bool busy;

	do {
		virgl_renderer_poll();
		busy = meter_busy(r->meter, wait ? LOOK_MS : 0);
	} while (wait && busy);
	return busy;
}
