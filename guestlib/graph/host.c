/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: nodes that run in this process
 *
 * Host functions, and copies from and to the program's memory: only this process can see
 * it, and a copy must see it when its turn comes, not when the graph is launched. Both
 * are host functions to the worker: the graph stands while the helper thread
 * (object/hostfunc.c) runs the function, or copies from or to the stage, which the device copies
 * to or from. Nothing may be asked of the driver meanwhile, as a launch may hold its
 * locks. Only where no memory can be shared with the device the copy goes through a
 * stream of its own.
 *
 * A record never changes; giving a node other parameters gives it another record. It
 * lives while a node has it or a launch will still run it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "object/hostfunc.h"
#include "copy/array_copy.h"
#include "calls.h"
#include "object/context.h"
#include "graph/exec.h"
#include "graph/host.h"
#include "graph/op.h"
#include "core/thread.h"

struct graph_host {
	struct list link;
	uint64_t id;
	unsigned refs;
	CUcontext ctx;
	struct exec_stage *in; /* a reference, or NULL */
	void *stage;
	struct graph_op op;
};

/* Lock of records and the things they refer to. Not the graphs' lock, under which the
 * worker may be waited for: the worker may wait for a node that runs here. Taken within
 * the graphs' lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list records = {&records, &records};

struct graph_host *graph_host_new(const struct graph_op *op, CUcontext ctx,
				  struct exec_stage *in, void *stage)
{
	struct graph_host *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->refs = 1;
	h->ctx = ctx;
	h->stage = stage;
	h->in = in;
	h->op = *op; /* these kinds own nothing */
	h->id = hostfunc_number();
	if (in)
		exec_stage_ref(in);
	pthread_mutex_lock(&lock);
	list_append(&records, &h->link);
	pthread_mutex_unlock(&lock);
	return h;
}

uint64_t graph_host_id(const struct graph_host *h)
{
	return h->id;
}

void graph_host_arm(struct graph_host *h)
{
	pthread_mutex_lock(&lock);
	h->refs++;
	pthread_mutex_unlock(&lock);
}

/* True if that was the last; it cannot be found any more. */
static bool drop(struct graph_host *h)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = !--h->refs;
	if (last)
		list_remove(&h->link);
	pthread_mutex_unlock(&lock);
	return last;
}

void graph_host_put(struct graph_host *h)
{
	if (!h || !drop(h))
		return;
	if (h->in)
		exec_stage_put(h->in);
	free(h);
}

static struct graph_host *find(uint64_t id)
{
	struct graph_host *h, *found = NULL;

	pthread_mutex_lock(&lock);
	list_for_each (h, &records, link) {
		if (h->id == id) {
			found = h;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static CUresult run_copy(const struct graph_host *h)
{
	struct guest_thread *t;
	struct copy_box box;
	size_t z;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r == CUDA_SUCCESS)
		r = graph_copy_box(&h->op.copy, &box);
	if (r)
		return r;
	box.rows.ctx = (uintptr_t)h->ctx;
	if (box.dst_at.array || box.src_at.array)
		return array_copy_box(t, &box, 0, false);
	for (z = 0; r == CUDA_SUCCESS && z < box.depth; z++) {
		r = copy_rows(t, &box.rows, 0);
		box.rows.dst.addr += box.dst_slice;
		box.rows.src.addr += box.src_slice;
	}
	return r;
}

/* Row by row between the program's memory and the stage, where rows have no gaps. */
static void run_staged(const struct graph_host *h)
{
	struct copy_box box;
	size_t y, z;
	char *stage = h->stage;

	if (graph_copy_box(&h->op.copy, &box))
		return;
	for (z = 0; z < box.depth; z++) {
		for (y = 0; y < box.rows.height; y++, stage += box.rows.width) {
			uint64_t dst = box.rows.dst.addr + z * box.dst_slice +
				       y * box.rows.dst.pitch;
			uint64_t src = box.rows.src.addr + z * box.src_slice +
				       y * box.rows.src.pitch;

			if (box.rows.dst.device)
				memcpy(stage, (void *)(uintptr_t)src, box.rows.width);
			else
				memcpy((void *)(uintptr_t)dst, stage, box.rows.width);
		}
	}
}

static CUresult run(const struct graph_host *h)
{
	if (h->op.type == CU_GRAPH_NODE_TYPE_HOST)
		hostfunc_run(h->op.host.fn, h->op.host.userData);
	else if (h->op.type == CU_GRAPH_NODE_TYPE_MEMCPY && h->stage)
		run_staged(h);
	else if (h->op.type == CU_GRAPH_NODE_TYPE_MEMCPY)
		return run_copy(h);
	return CUDA_SUCCESS;
}

CUresult graph_host_run(uint64_t id, CUresult status)
{
	struct graph_host *h = find(id);
	CUresult r = CUDA_SUCCESS;

	if (h && status == CUDA_SUCCESS)
		r = run(h);
	graph_host_put(h);
	return r;
}
