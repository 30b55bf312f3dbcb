/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a session's objects: by handle, in and out. */
#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "session/command.h"
#include "session/object.h"
#include "ipc/wmem.h"

int obj_table_init(struct obj_table *t)
{
	return -pthread_mutex_init(&t->lock, NULL);
}

static struct sess_obj **slot_locked(struct obj_table *t, uint64_t h, bool make)
{
	uint32_t index = handle_index(h);
	struct obj_page **page = &t->pages[handle_type(h)][index >> OBJ_PAGE_BITS];

	if (!*page && make)
		*page = calloc(1, sizeof(**page));
	return *page ? &(*page)->slot[index & (OBJ_PAGE_SIZE - 1)] : NULL;
}

int obj_publish(struct session *s, struct sess_obj *o)
{
	struct obj_table *t = &s->objs;
	struct sess_obj **slot;
	int r = 0;

	if (handle_type(o->handle) != o->type || o->type == HANDLE_NONE)
		return -EPROTO;
	if (wmem_many(&s->accounts, &t->many, atomic_load(&t->live), OBJ_BYTES) < 0)
		return -ENOMEM;
	pthread_mutex_lock(&t->lock);
	slot = t->live < OBJ_LIVE_MAX ? slot_locked(t, o->handle, true) : NULL;
	if (!slot) {
		r = -ENOMEM;
	} else if (*slot) {
		r = -EPROTO;
	} else {
		*slot = o;
		t->live++;
		if (o->ctx)
			list_append(&o->ctx->objs, &o->in_ctx);
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

/* The slot of a live object of that very handle, or NULL. */
static struct sess_obj **lookup_locked(struct obj_table *t, enum handle_type type,
				       uint64_t h)
{
	struct sess_obj **slot;

	if (type == HANDLE_NONE || handle_type(h) != type)
		return NULL;
	slot = slot_locked(t, h, false);
	return slot && *slot && (*slot)->handle == h ? slot : NULL;
}

struct sess_obj *obj_find(struct session *s, enum handle_type type, uint64_t h)
{
	struct sess_obj **slot, *o = NULL;

	pthread_mutex_lock(&s->objs.lock);
	slot = lookup_locked(&s->objs, type, h);
	if (slot)
		o = obj_ref(*slot);
	pthread_mutex_unlock(&s->objs.lock);
	return o;
}

static struct sess_obj *take_locked(struct obj_table *t, struct sess_obj **slot)
{
	struct sess_obj *o = *slot;

	*slot = NULL;
	t->live--;
	/* Pairs with obj_taken(); seq_cst, with kept_lend(). */
	atomic_fetch_add(&t->taken, 1);
	list_remove(&o->in_ctx);
	return o;
}

struct sess_obj *obj_take(struct session *s, enum handle_type type, uint64_t h)
{
	struct sess_obj **slot, *o = NULL;

	pthread_mutex_lock(&s->objs.lock);
	slot = lookup_locked(&s->objs, type, h);
	if (slot)
		o = take_locked(&s->objs, slot);
	pthread_mutex_unlock(&s->objs.lock);
	if (o && atomic_load(&s->lent))
		kept_sweep(s);
	return o;
}

void obj_drop_ctx(struct session *s, struct sess_ctx *ctx)
{
	for (;;) {
		struct sess_obj *o = NULL;

		pthread_mutex_lock(&s->objs.lock);
		if (!list_empty(&ctx->objs)) {
			o = list_entry(ctx->objs.next, struct sess_obj, in_ctx);
			take_locked(&s->objs, slot_locked(&s->objs, o->handle, false));
		}
		pthread_mutex_unlock(&s->objs.lock);
		if (!o)
			break;
		obj_put(s, o);
	}
	if (atomic_load(&s->lent))
		kept_sweep(s);
}

/* Calls fn for each object of a type until it says true; that object, or NULL. */
static struct sess_obj *search_locked(struct obj_table *t, enum handle_type type,
				      bool (*fn)(const struct sess_obj *, unsigned),
				      unsigned arg)
{
	for (unsigned p = 0; p < OBJ_PAGES; p++) {
		struct obj_page *page = t->pages[type][p];

		for (unsigned i = 0; page && i < OBJ_PAGE_SIZE; i++) {
			if (page->slot[i] && fn(page->slot[i], arg))
				return page->slot[i];
		}
	}
	return NULL;
}

static bool any(const struct sess_obj *o, unsigned arg)
{
	return true;
}

static bool ctx_has_id(const struct sess_obj *o, unsigned id)
{
	return container_of(o, struct sess_ctx, obj)->id == id;
}

struct sess_obj *obj_any(struct session *s, enum handle_type type)
{
	struct sess_obj *o;

	pthread_mutex_lock(&s->objs.lock);
	o = search_locked(&s->objs, type, any, 0);
	if (o)
		obj_ref(o);
	pthread_mutex_unlock(&s->objs.lock);
	return o;
}

uint64_t obj_ctx_handle(struct session *s, unsigned id)
{
	struct sess_obj *o;
	uint64_t h;

	pthread_mutex_lock(&s->objs.lock);
	o = search_locked(&s->objs, HANDLE_CONTEXT, ctx_has_id, id);
	h = o ? o->handle : 0;
	pthread_mutex_unlock(&s->objs.lock);
	return h;
}

static void drop_page(struct session *s, struct obj_page *page)
{
	for (unsigned i = 0; page && i < OBJ_PAGE_SIZE; i++) {
		struct sess_obj *o = page->slot[i];

		if (!o)
			continue;
		page->slot[i] = NULL;
		list_remove(&o->in_ctx);
		obj_put(s, o);
	}
	free(page);
}

void obj_table_fini(struct session *s, struct obj_table *t)
{
	/* Contexts come last in destruction: others hold references on them. */
	for (unsigned type = HANDLE_NUM_TYPES; type-- > HANDLE_NONE;) {
		for (unsigned p = 0; p < OBJ_PAGES; p++)
			drop_page(s, steal(t->pages[type][p]));
	}
	pthread_mutex_destroy(&t->lock);
}
