/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/macros.h"
#include "resource.h"

/* Gallium's targets, as virgl has them. */
enum target {
	TARGET_BUFFER,
	TARGET_1D,
	TARGET_2D,
	TARGET_3D,
	TARGET_CUBE,
	TARGET_RECT,
	TARGET_1D_ARRAY,
	TARGET_2D_ARRAY,
	TARGET_CUBE_ARRAY,
	TARGET_NUM
};

/* More than any driver has, so that no product below overflows. */
#define SIDE_MAX    65536u
#define BUFFER_MAX  (1u << 31)
#define LEVELS_MAX  16u
#define SAMPLES_MAX 64u

static uint32_t at_level(uint32_t side, uint32_t level)
{
	return MAX(side >> level, 1u);
}

static bool sides_fit(const struct gl_resource *w)
{
	uint32_t most = w->target == TARGET_BUFFER ? BUFFER_MAX : SIDE_MAX;

	/* Mesa's fences are buffers of no layers. */
	if (w->target == TARGET_BUFFER &&
	    (w->height != 1 || w->depth != 1 || w->array_size > 1 || w->last_level))
		return false;
	return w->width && w->width <= most && w->height && w->height <= SIDE_MAX &&
	       w->depth && w->depth <= SIDE_MAX &&
	       (w->array_size || w->target == TARGET_BUFFER) && w->array_size <= SIDE_MAX;
}

/* Layers that a resource has. */
static uint32_t layers_of(const struct gl_resource *w)
{
	return MAX(w->array_size, 1u);
}

int resource_check(const struct resources *rs, const struct gl_resource *want,
		   struct gl_format *ret_format, uint64_t *ret_bytes)
{
	uint64_t sum = 0;

	if (!want->handle || want->target >= TARGET_NUM || !sides_fit(want) ||
	    want->last_level >= LEVELS_MAX || want->nr_samples > SAMPLES_MAX ||
	    !gl_format(want->format, ret_format))
		return -EINVAL;
	if (resource_find(rs, want->handle))
		return -EEXIST;
	if (rs->n >= GL_RESOURCES_MAX)
		return -ENOSPC;
	for (uint32_t l = 0; l <= want->last_level; l++) {
		uint64_t layer = gl_row(ret_format, at_level(want->width, l)) *
				 gl_rows(ret_format, at_level(want->height, l));

		/* At most 2^37 times 2^16: a row of 2^16 pixels has 2^21 bytes. */
		sum += layer * at_level(want->depth, l);
	}
	if (sum > UINT64_MAX / SIDE_MAX / SAMPLES_MAX)
		return -EINVAL;
	*ret_bytes = ALIGN_UP(sum * layers_of(want) * MAX(want->nr_samples, 1u),
			      (uint64_t)RESOURCE_GRAIN);
	return 0;
}

int resource_add(struct resources *rs, const struct gl_resource *is,
		 const struct gl_format *f, uint64_t bytes)
{
	struct resource *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->by_handle.key = is->handle;
	r->format = *f;
	r->is = *is;
	r->bytes = bytes;
	tree_insert(&rs->all, &r->by_handle);
	rs->n++;
	rs->bytes += bytes;
	return 0;
}

struct resource *resource_find(const struct resources *rs, uint32_t handle)
{
	struct tree_node *n = tree_at_least(&rs->all, handle);

	return n && n->key == handle ? container_of(n, struct resource, by_handle) : NULL;
}

uint64_t resource_remove(struct resources *rs, struct resource *r)
{
	uint64_t bytes = r->bytes;

	tree_remove(&rs->all, &r->by_handle);
	rs->n--;
	rs->bytes -= bytes;
	free(r);
	return bytes;
}

static bool lies_in(uint32_t at, uint32_t n, uint32_t side)
{
	return n && at < side && n <= side - at;
}

/* Begins at the edge of a block, and ends at one or with the level. */
static bool on_edges(uint32_t at, uint32_t n, uint32_t block, uint32_t side)
{
	return at % block == 0 && (n % block == 0 || at + n == side);
}

/* Layers of a level: of a volume they shrink with it. */
static uint32_t layers(const struct gl_resource *is, uint32_t level)
{
	if (is->target == TARGET_3D)
		return at_level(is->depth, level);
	return layers_of(is);
}

int resource_box(const struct resource *r, const struct gl_transfer *t, struct box *ret)
{
	const struct gl_resource *is = &r->is;
	const struct gl_format *f = &r->format;
	uint32_t w, h;
	uint64_t row, layer;

	if (t->level > is->last_level)
		return -EINVAL;
	w = at_level(is->width, t->level);
	h = at_level(is->height, t->level);
	if (!lies_in(t->x, t->w, w) || !lies_in(t->y, t->h, h) ||
	    !lies_in(t->z, t->d, layers(is, t->level)) ||
	    !on_edges(t->x, t->w, f->w, w) || !on_edges(t->y, t->h, f->h, h))
		return -EINVAL;
	row = gl_row(f, t->w);
	layer = row * gl_rows(f, t->h);
	if (layer > WIRE_PAYLOAD_MAX || layer * t->d > WIRE_PAYLOAD_MAX)
		return -EINVAL;
	*ret = (struct box){.stride = (uint32_t)row,
			    .layer_stride = (uint32_t)layer,
			    .bytes = (uint32_t)(layer * t->d)};
	return 0;
}
