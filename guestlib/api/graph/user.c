/* SPDX-License-Identifier: Apache-2.0 */
/* User objects: made by the program, kept alive by it and by graphs. */
#include <stdlib.h>

#include "graph/graph.h"
#include "graph/user.h"

static struct user_object *lookup(CUuserObject object)
{
	return guest_object((uintptr_t)object, HANDLE_USER_OBJECT);
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *ret, void *ptr, CUhostFn destroy,
				    unsigned int refs, unsigned int flags)
{
	struct user_object *o;
	CUresult r = guest_status();

	if (r)
		return r;
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
	CUresult r = guest_status();

	if (r)
		return r;
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
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	o = lookup(object);
	if (!o || !count || count > o->refs)
		return CUDA_ERROR_INVALID_VALUE;
	user_drop(o, count);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object,
					 unsigned int count, unsigned int flags)
{
	struct user_object *o;
	struct graph *g;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	g = graph_lookup(graph);
	o = lookup(object);
	if (!g || !o || !count || count > INT32_MAX ||
	    (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_users_hold(&g->users, o, count);
	if (r == CUDA_SUCCESS && !(flags & CU_GRAPH_USER_OBJECT_MOVE))
		o->refs += count;
	return r;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object,
					  unsigned int count)
{
	struct user_object *o;
	struct graph *g;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	g = graph_lookup(graph);
	o = lookup(object);
	if (!g || !o || !count || !graph_users_release(&g->users, o, count))
		return CUDA_ERROR_INVALID_VALUE;
	user_drop(o, count);
	return CUDA_SUCCESS;
}
