/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "memory.h"

static int map(struct memory *m, uint64_t size, int *ret_fd)
{
	int fd = fd_memfd("weft-gl", size);
	void *at;

	if (fd < 0)
		return fd;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		int r = -errno;

		close(fd);
		return r;
	}
	m->at = at;
	m->size = size;
	*ret_fd = fd;
	return 0;
}

int memory_new(struct memories *ms, const struct gl_resource *is, uint64_t size,
	       int *ret_fd)
{
	struct memory *m;
	int r = 0;

	*ret_fd = -1;
	if (memory_find(ms, is->handle))
		return -EEXIST;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->by_handle.key = is->handle;
	m->is = *is;
	if (!gl_format(is->format, &m->format))
		r = -EINVAL;
	if (r == 0 && size)
		r = map(m, size, ret_fd);
	if (r < 0) {
		free(m);
		return r;
	}
	tree_insert(&ms->all, &m->by_handle);
	return 0;
}

struct memory *memory_find(const struct memories *ms, uint32_t handle)
{
	struct tree_node *n = tree_at_least(&ms->all, handle);

	return n && n->key == handle ? container_of(n, struct memory, by_handle) : NULL;
}

void memory_free(struct memories *ms, struct memory *m)
{
	tree_remove(&ms->all, &m->by_handle);
	if (m->at)
		munmap(m->at, m->size);
	free(m);
}

void memories_fini(struct memories *ms)
{
	struct tree_node *n;

	while ((n = tree_at_least(&ms->all, 0)))
		memory_free(ms, container_of(n, struct memory, by_handle));
}

/* ---- boxes ---- */

/* How the rows of a box lie. */
struct rows {
	uint64_t bytes, stride; /* of one; from one to the next */
	uint64_t n, layer;      /* in a layer; from one layer to the next */
};

static struct rows rows_of(const struct memory *m, const struct gl_transfer *t)
{
	const struct gl_format *f = &m->format;
	uint32_t level = MIN(t->level, 31u);
	uint64_t stride = gl_row(f, MAX(m->is.width >> level, 1u));

	return (struct rows){
		.bytes = gl_row(f, t->w),
		.stride = stride,
		.n = gl_rows(f, t->h),
		.layer = stride * gl_rows(f, MAX(m->is.height >> level, 1u)),
	};
}

static bool lies_in(const struct memory *m, const struct memory_box *b)
{
	struct rows r = rows_of(m, &b->t);
	uint64_t end;

	/* Rows in a layer, layers in the memory: no product below is larger than that. */
	if (!m->at || !b->t.w || !b->t.h || !b->t.d || r.bytes > r.stride ||
	    r.layer > m->size || r.n > r.layer / r.stride || b->t.d > m->size / r.layer)
		return false;
	end = b->offset + (b->t.d - 1) * r.layer + (r.n - 1) * r.stride + r.bytes;
	return end <= m->size;
}

bool memory_walk(const struct memory *m, const struct memory_box *b,
		 struct memory_walk *ret)
{
	*ret = (struct memory_walk){.box = *b};
	return lies_in(m, b);
}

/* As many whole layers as fit. */
static void take_layers(struct memory_walk *w, const struct rows *r, uint32_t n,
			struct memory_box *ret)
{
	ret->t.z += w->z;
	ret->t.d = MIN(n, w->box.t.d - w->z);
	ret->offset += w->z * r->layer;
	w->z += ret->t.d;
}

/* As many rows of a layer as fit, or blocks of a row. */
static void take_rows(struct memory_walk *w, const struct gl_format *f,
		      const struct rows *r, struct memory_box *ret)
{
	uint32_t n = (uint32_t)MIN(WIRE_PAYLOAD_MAX / r->bytes, r->n - w->row);
	uint32_t most = WIRE_PAYLOAD_MAX / f->bytes * f->w;

	ret->t.z += w->z;
	ret->t.d = 1;
	ret->t.y += w->row * f->h;
	ret->t.h = MIN(MAX(n, 1u) * f->h, w->box.t.h - w->row * f->h);
	ret->offset += w->z * r->layer + w->row * r->stride;
	if (!n) {
		ret->t.x += w->x;
		ret->t.w = MIN(most, w->box.t.w - w->x);
		ret->offset += gl_row(f, w->x);
		w->x += ret->t.w;
	}
	if (n || w->x >= w->box.t.w) {
		w->x = 0;
		w->row += MAX(n, 1u);
	}
	if (w->row >= r->n) {
		w->row = 0;
		w->z++;
	}
}

uint32_t memory_next(const struct memory *m, struct memory_walk *w,
		     struct memory_box *ret)
{
	struct rows r = rows_of(m, &w->box.t);
	uint64_t layers = WIRE_PAYLOAD_MAX / (r.bytes * r.n);

	if (w->z >= w->box.t.d)
		return 0;
	*ret = w->box;
	if (layers)
		take_layers(w, &r, (uint32_t)layers, ret);
	else
		take_rows(w, &m->format, &r, ret);
	r = rows_of(m, &ret->t);
	return (uint32_t)(r.bytes * r.n * ret->t.d);
}

static void copy(const struct memory *m, const struct memory_box *b, char *packed,
		 bool pack)
{
	struct rows r = rows_of(m, &b->t);

	for (uint32_t z = 0; z < b->t.d; z++) {
		char *at = m->at + b->offset + z * r.layer;
		uint64_t whole = r.stride == r.bytes ? r.n : 1;

		for (uint64_t y = 0; y < r.n; y += whole) {
			char *row = at + y * r.stride;

			memcpy(pack ? packed : row, pack ? row : packed, whole * r.bytes);
			packed += whole * r.bytes;
		}
	}
}

void memory_pack(const struct memory *m, const struct memory_box *b, void *packed)
{
	copy(m, b, packed, true);
}

void memory_unpack(const struct memory *m, const struct memory_box *b, const void *packed)
{
	copy(m, b, (char *)packed, false);
}
