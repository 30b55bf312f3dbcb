/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instantiating, launching and destroying. A launch is one posted command of three words.
 */
#include <stdatomic.h>

#include "calls.h"
#include "core/thread.h"
#include "graph/exec.h"
#include "graph/graph.h"
#include "graph/host.h"
#include "graph/mem.h"
#include "object/refuse.h"

static CUresult instantiate(CUgraphExec *ret, CUgraph graph, unsigned long long flags)
{
	struct guest_thread *t;
	struct guest_exec *x;
	struct graph *g;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r == CUDA_SUCCESS)
		r = guest_unsafe(t);
	if (r)
		return r;
	graph_scope();
	g = graph_lookup(graph);
	if (!ret || !g || (flags & ~15ull))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return guest_refuse(REFUSAL_FEATURE, "cuGraphInstantiate: device launch");
	if (graph_is_single(g) && g->execs)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = exec_new(t, g, flags, &x);
	if (r == CUDA_SUCCESS)
		*ret = (CUgraphExec)(uintptr_t)x->handle;
	return r;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *ret, CUgraph graph,
					     unsigned long long flags)
{
	return instantiate(ret, graph, flags);
}

/* Before 12.0: with a place for messages, which there are none of. */
CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *ret, CUgraph graph,
				       CUgraphNode *error_node, char *log, size_t size)
{
	if (error_node)
		*error_node = NULL;
	if (log && size)
		log[0] = '\0';
	return instantiate(ret, graph, 0);
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *ret, CUgraph graph,
				    CUgraphNode *error_node, char *log, size_t size)
{
	return cuGraphInstantiate_v2(ret, graph, error_node, log, size);
}

static CUresult upload(CUgraphExec exec, CUstream stream, bool ptsz)
{
	struct graph_upload_cmd *cmd;
	struct guest_thread *t;
	uint64_t wire;
	CUresult r = guest_enter(guest_need_on(stream), &t);

	if (r == CUDA_SUCCESS)
		r = guest_stream(stream, ptsz, &wire);
	if (r)
		return r;
	if (!exec_lookup(exec))
		return CUDA_ERROR_INVALID_VALUE;
	cmd = begin_graph_upload(t);
	if (!cmd)
		return guest_lost(t);
	cmd->exec = (uintptr_t)exec;
	cmd->stream = wire;
	return guest_post(t);
}

static CUresult with_params(CUgraphExec *ret, CUgraph graph,
			    CUDA_GRAPH_INSTANTIATE_PARAMS *p, bool ptsz)
{
	CUresult r;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	r = instantiate(ret, graph, p->flags);
	if (r == CUDA_SUCCESS && (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
		r = upload(*ret, p->hUploadStream, ptsz);
	p->hErrNode_out = NULL;
	p->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
			: r == CUDA_ERROR_INVALID_VALUE
				? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
				: CUDA_GRAPH_INSTANTIATE_ERROR;
	return r;
}

GUEST_PAIR(cuGraphInstantiateWithParams, ptsz,
	   (CUgraphExec * ret, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p),
	   with_params, ret, graph, p)

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
	struct guest_exec *x;
	CUresult r = guest_status();

	if (r)
		return r;
	graph_scope();
	x = exec_lookup(exec);
	if (!x || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = x->flags;
	return CUDA_SUCCESS;
}

static CUresult destroy(struct guest_thread *t, CUgraphExec exec)
{
	struct guest_exec *x;

	graph_scope();
	x = exec_lookup(exec);
	if (!x)
		return CUDA_ERROR_INVALID_VALUE;
	return exec_destroy(t, x);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec)
{
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);

	if (r)
		return r;
	r = destroy(t, exec);
	graph_mem_flush();
	graph_stage_flush(t);
	return r;
}

/* ---- launching ---- */

static void arm(struct guest_exec *x)
{
	size_t i;

	graph_scope();
	for (i = 0; i < x->n; i++) {
		if (x->items[i].host)
			graph_host_arm(x->items[i].host);
	}
}

static CUresult launch_mems(struct guest_exec *x, uint64_t stream)
{
	graph_scope();
	return graph_mem_launch(
		x->mems, x->n_mems,
		x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, stream);
}

static CUresult launch(CUgraphExec exec, CUstream stream, bool ptsz)
{
	struct graph_launch_cmd *cmd;
	struct guest_thread *t;
	struct managed_hold hold;
	struct guest_exec *x;
	uint64_t wire;
	CUresult r = guest_enter(guest_need_on(stream), &t);

	if (unlikely(r))
		return r;
	r = guest_stream(stream, ptsz, &wire);
	if (unlikely(r))
		return r;
	x = exec_lookup(exec);
	if (unlikely(!x))
		return CUDA_ERROR_INVALID_VALUE;
	if (unlikely(x->n_mems))
		r = launch_mems(x, wire);
	if (r)
		return r;
	if (x->n_hosts)
		arm(x);
	if (unlikely(x->managed.n) &&
	    atomic_load_explicit(&managed_waiting, memory_order_relaxed))
		managed_named(t, x->managed.base, x->managed.n);
	atomic_store_explicit(&x->stream, wire, memory_order_relaxed);
	r = managed_begin(t, &hold);
	if (unlikely(r))
		return r;
	cmd = begin_graph_launch(t);
	if (likely(cmd)) {
		cmd->exec = x->handle;
		cmd->stream = wire;
	}
	r = likely(cmd) ? guest_post(t) : guest_lost(t);
	managed_done(&hold);
	return r;
}

GUEST_PAIR(cuGraphLaunch, ptsz, (CUgraphExec exec, CUstream stream), launch, exec, stream)

GUEST_PAIR(cuGraphUpload, ptsz, (CUgraphExec exec, CUstream stream), upload, exec, stream)
