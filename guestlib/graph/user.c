/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: something of the program's that graphs keep alive. The destructor runs
 * when the last reference goes. What was instantiated from a graph holds what the graph
 * held, until it is destroyed.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "object/hostfunc.h"
#include "graph/user.h"

struct user_ref {
	struct list link; /* graph.users */
	struct user_object *object;
	uint64_t count;
};

void user_drop(struct user_object *o, uint64_t count)
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

CUresult graph_users_hold(struct list *users, struct user_object *o, uint64_t count)
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

bool graph_users_release(struct list *users, const struct user_object *o, uint64_t count)
{
	struct user_ref *u = find(users, o);

	if (!u || count > u->count)
		return false;
	u->count -= count;
	if (!u->count) {
		list_remove(&u->link);
		free(u);
	}
	return true;
}

void graph_users_drop(struct list *users)
{
	struct user_ref *u, *tmp;

	list_for_each_safe (u, tmp, users, link) {
		list_remove(&u->link);
		user_drop(u->object, u->count);
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
		CUresult r = graph_users_hold(to, u->object, u->count);

		if (r)
			return r;
		atomic_fetch_add_explicit(&u->object->refs, u->count,
					  memory_order_relaxed);
	}
	return CUDA_SUCCESS;
}
