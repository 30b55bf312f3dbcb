// SPDX-License-Identifier: Apache-2.0
/*
 * User objects: something of the program's that graphs keep alive. The destructor runs
 * when the last reference goes. What was instantiated from a graph holds what the graph
 * held, until it is destroyed.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "object/hostfunc.h"
#include "graph/graph.h"

struct user_object {
	uint64_t handle;
	_Atomic uint64_t refs; /* also dropped without the lock */
	CUhostFn destroy;
	void *ptr;
};

struct user_ref {
	struct list link; /* graph.users */
	struct user_object *object;
	uint64_t count;
};

static void drop(struct user_object *o, uint64_t count)
{
	/* acq_rel: whoever drops the last has seen all that others did with it */
	if (atomic_fetch_sub_explicit(&o->refs, count, memory_order_acq_rel) != count)
		return;
	guest_handle_free(o->handle);
	o->destroy(o->ptr);
	free(o);
}

static struct user_ref *find(const struct list *users, const struct user_object *o)
{
	struct user_ref *u;

	list_for_each (u, users, link) {
		if (u->object == o)
			return u;
	}
	return NULL;
}

static CUresult hold(struct list *users, struct user_object *o, uint64_t count)
{
	struct user_ref *u = find(users, o);

	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return CUDA_ERROR_OUT_OF_MEMORY;
		u->object = o;
		list_append(users, &u->link);
	}
	u->count += count;
	return CUDA_SUCCESS;
}

void graph_users_drop(struct list *users)
{
	struct user_ref *u, *tmp;

	list_for_each_safe (u, tmp, users, link) {
		list_remove(&u->link);
		drop(u->object, u->count);
		free(u);
	}
}

/* On the helper thread, where nothing may be waited for; the list is nobody else's. */
static void CUDA_CB drop_now(void *arg)
{
	struct list *users = arg;

	graph_users_drop(users);
	free(users);
}

void graph_users_drop_later(struct guest_thread *t, struct list *users, uint64_t stream)
{
	struct list *later;

	if (list_empty(users))
		return;
	later = malloc(sizeof(*later));
	if (later) {
		struct user_ref *u, *tmp;

		list_init(later);
		list_for_each_safe (u, tmp, users, link) {
			list_remove(&u->link);
			list_append(later, &u->link);
		}
		if (hostfunc_post(t, drop_now, later, stream) == CUDA_SUCCESS)
			return;
		users = later;
	}
	graph_users_drop(users);
	free(later);
}

CUresult graph_users_copy(struct list *to, const struct list *from)
{
	struct user_ref *u;

	list_for_each (u, from, link) {
		CUresult r = hold(to, u->object, u->count);

		if (r)
			return r;
		atomic_fetch_add_explicit(&u->object->refs, u->count,
					  memory_order_relaxed);
	}
	return CUDA_SUCCESS;
}

static struct user_object *lookup(CUuserObject object)
{
	return guest_object((uintptr_t)object, HANDLE_USER_OBJECT);
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *ret, void *ptr, CUhostFn destroy,
				    unsigned int refs, unsigned int flags)
{
	struct user_object *o;

	graph_enter();
	if (!ret || !destroy || !refs || refs > INT32_MAX ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	o = calloc(1, sizeof(*o));
	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	o->ptr = ptr;
	o->destroy = destroy;
	o->refs = refs;
	o->handle = guest_handle_new(HANDLE_USER_OBJECT, o);
	if (!o->handle) {
		free(o);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = (CUuserObject)(uintptr_t)o->handle;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	struct user_object *o;

	graph_enter();
	graph_scope();
	o = lookup(object);
	if (!o || !count || count > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	o->refs += count;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	struct user_object *o;

	graph_enter();
	graph_scope();
	o = lookup(object);
	if (!o || !count || count > o->refs)
		return CUDA_ERROR_INVALID_VALUE;
	drop(o, count);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object,
					 unsigned int count, unsigned int flags)
{
	struct user_object *o;
	struct graph *g;
	CUresult r;

	graph_enter();
	graph_scope();
	g = graph_lookup(graph);
	o = lookup(object);
	if (!g || !o || !count || count > INT32_MAX ||
	    (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
		return CUDA_ERROR_INVALID_VALUE;
	r = hold(&g->users, o, count);
	if (r == CUDA_SUCCESS && !(flags & CU_GRAPH_USER_OBJECT_MOVE))
		o->refs += count;
	return r;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object,
					  unsigned int count)
{
	struct user_object *o;
	struct user_ref *u;
	struct graph *g;

	graph_enter();
	graph_scope();
	g = graph_lookup(graph);
	o = lookup(object);
	u = g && o ? find(&g->users, o) : NULL;
	if (!u || !count || count > u->count)
		return CUDA_ERROR_INVALID_VALUE;
	u->count -= count;
	if (!u->count) {
		list_remove(&u->link);
		free(u);
	}
	drop(o, count);
	return CUDA_SUCCESS;
}
