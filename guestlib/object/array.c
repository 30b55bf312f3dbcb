/* SPDX-License-Identifier: Apache-2.0 */
/* Creating and destroying CUDA arrays, and what is known of them. */
#include <pthread.h>
#include <stdlib.h>

#include "object/array.h"
#include "calls.h"
#include "core/thread.h"

static pthread_mutex_t levels_lock = PTHREAD_MUTEX_INITIALIZER;

static struct guest_array *find(uint64_t h, bool mipmapped)
{
	struct guest_array *a = guest_object(h, HANDLE_ARRAY);

	return a && a->is_mipmapped == mipmapped ? a : NULL;
}

struct guest_array *guest_array(CUarray array)
{
	return find((uintptr_t)array, false);
}

struct guest_array *guest_mipmap(CUmipmappedArray array)
{
	return find((uintptr_t)array, true);
}

static CUresult send_create(struct guest_thread *t, uint64_t h,
			    const struct array_shape *s)
{
	struct array_create_cmd *cmd = begin_array_create(t);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->array = h;
	cmd->width = s->width;
	cmd->height = s->height;
	cmd->depth = s->depth;
	cmd->format = s->format;
	cmd->channels = s->channels;
	cmd->flags = s->flags;
	cmd->levels = s->levels;
	return guest_call(t, sizeof(struct array_create_rep), &reply);
}

static void drop(struct owned *o)
{
	struct guest_array *a = container_of(o, struct guest_array, owned);
	unsigned i;

	for (i = 0; i < ARRAY_LEVELS_MAX; i++) {
		if (!a->levels[i])
			continue;
		free(guest_object(a->levels[i], HANDLE_ARRAY));
		guest_handle_free(a->levels[i]);
	}
	guest_handle_free(a->root);
	free(a);
}

CUresult guest_array_new(struct guest_thread *t, const struct array_shape *s,
			 uint64_t *ret_handle)
{
	_cleanup_free_ struct guest_array *a = calloc(1, sizeof(*a));
	uint64_t h;
	CUresult r;

	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->shape = *s;
	a->is_mipmapped = s->levels;
	h = guest_handle_new(HANDLE_ARRAY, a);
	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->root = h;
	r = send_create(t, h, s);
	if (r) {
		guest_handle_free(h);
		return r;
	}
	owned_add(t->top, &steal(a)->owned, drop);
	*ret_handle = h;
	return CUDA_SUCCESS;
}

CUresult guest_array_destroy(struct guest_thread *t, struct guest_array *a)
{
	CUresult r = call_array_destroy(t, a->root);

	owned_remove(&a->owned);
	drop(&a->owned);
	return r;
}

static CUresult level_locked(struct guest_array *a, unsigned level, CUarray *ret_array)
{
	struct guest_array *l;
	uint64_t h = a->levels[level];

	if (!h) {
		l = calloc(1, sizeof(*l));
		h = l ? guest_handle_new(HANDLE_ARRAY, l) : 0;
		if (!h) {
			free(l);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		l->shape = array_level(&a->shape, level);
		l->root = a->root;
		l->level = level;
		l->is_level = true;
		a->levels[level] = h;
	}
	*ret_array = (CUarray)h;
	return CUDA_SUCCESS;
}

CUresult guest_mipmap_level(struct guest_array *a, unsigned level, CUarray *ret_array)
{
	CUresult r;

	pthread_mutex_lock(&levels_lock);
	r = level_locked(a, level, ret_array);
	pthread_mutex_unlock(&levels_lock);
	return r;
}
