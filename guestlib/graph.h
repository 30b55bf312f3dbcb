/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as the guest has them. A graph, its nodes, edges and parameters exist here
 *alone; what was instantiated is a list of operations at the worker
 *(transport/api/graph.api). One lock guards all of them and every capture.
 *
 *	graph.c        graphs, nodes, edges; cloning
 *	graph_query.c  the functions that ask, and those about edges
 *	graph_node.c   the functions that add nodes and change them
 *	graph_params.c what a node does: checking and keeping it
 *	graph_flat.c   an order of all nodes, child graphs included
 *	graph_exec.c   instantiating, launching, destroying
 *	graph_update.c changing what was instantiated
 *	graph_host.c   nodes that run in this process
 *	graph_user.c   user objects
 *	graph_dot.c    cuGraphDebugDotPrint
 */
#ifndef WEFT_GUEST_GRAPH_H
#define WEFT_GUEST_GRAPH_H

#include "base/list.h"
#include "copy.h"
#include "guest.h"
#include "launch.h"
#include "process.h"

#define GRAPH_NODES_MAX (1u << 18) /* that one exec may have; the worker has the same */

/* A launch with its parameters; refcounted, constant but for hints. */
struct graph_kernel {
	unsigned refs;
	struct launch launch;         /* without params and extra: see ptrs */
	CUkernelNodeAttrValue *hints; /* by attribute; NULL: none was set */
	uint64_t func;                /* handle */
	uint32_t size;
	unsigned n_ptrs;
	void **ptrs; /* where each parameter lies in buf */
	uint8_t *buf;
};

/* What a node does. */
struct graph_op {
	CUgraphNodeType type;
	union {
		struct graph_kernel *kernel; /* a reference */
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS fill;
		CUDA_HOST_NODE_PARAMS host;
		CUevent event;
		struct graph *child; /* owned */
	};
};

struct graph_node {
	uint64_t handle;
	uint64_t id;          /* never reused */
	uint64_t cloned_from; /* id, or 0 */
	struct graph *graph;
	struct list link; /* graph.nodes, in order of creation */
	struct graph_op op;
	struct graph_node **deps, **outs; /* edges in, edges out */
	size_t n_deps, deps_room, n_outs, outs_room;
	unsigned mark;  /* of whoever walks the graph; 0 in between */
	uint32_t index; /* likewise */
};

struct graph {
	uint64_t handle;
	uint64_t id;
	uint64_t cloned_from;
	struct graph_node *owner; /* the node whose child graph this is, or NULL */
	struct list nodes;
	size_t n_nodes;
	unsigned captures; /* that add to it */
	struct list users; /* graph_user.c */
};

/* ---- lock ---- */

void graph_lock(void);
void graph_unlock(void);

static inline void graph_unlockp(int *unused)
{
	(void)unused;
	graph_unlock();
}

static inline int graph_lock_scope(void)
{
	graph_lock();
	return 0;
}

#define GRAPH_LOCK_CAT2(a, b) a##b
#define GRAPH_LOCK_CAT(a, b)  GRAPH_LOCK_CAT2(a, b)

/* Holds the lock until the end of the scope. */
#define graph_scope()                                                                    \
	int GRAPH_LOCK_CAT(scope_, __LINE__)                                             \
		__attribute__((cleanup(graph_unlockp), unused)) = graph_lock_scope()

/* First in a function that only concerns the guest. */
#define graph_enter()                                                                    \
	do {                                                                             \
		CUresult enter_r = guest_gate();                                         \
                                                                                         \
		if (enter_r)                                                             \
			return enter_r;                                                  \
	} while (0)

/* ---- objects; under the lock ---- */

struct graph *graph_lookup(CUgraph g);
struct graph_node *graph_node_lookup(CUgraphNode n);

static inline CUgraphNode graph_node_public(const struct graph_node *n)
{
	return (CUgraphNode)(uintptr_t)(n ? n->handle : 0);
}

struct graph *graph_new(void);
/* With its nodes and child graphs. Accepts NULL. */
void graph_free(struct graph *g);
/* NULL: out of memory. */
struct graph *graph_clone(const struct graph *g);

/* Adds a node; takes over what op owns on success only. NULL: out of memory. */
struct graph_node *graph_node_new(struct graph *g, const struct graph_op *op);
void graph_node_free(struct graph_node *n);

/* SUCCESS (also if the edge exists), INVALID_VALUE (a node on itself, two graphs) or
 * OUT_OF_MEMORY. */
CUresult graph_edge_add(struct graph_node *from, struct graph_node *to);
bool graph_edge_exists(const struct graph_node *from, const struct graph_node *to);
bool graph_edge_remove(struct graph_node *from, struct graph_node *to);

/* Only plain edges exist: NOT_SUPPORTED for others. data may be NULL. */
CUresult graph_edge_data_check(const CUgraphEdgeData *data, size_t n);

/* ---- operations ---- */

/* A kernel of a launch that was described by its caller: checked, parameters copied. */
CUresult graph_kernel_new(const struct launch *l, struct graph_kernel **ret_k);
struct graph_kernel *graph_kernel_ref(struct graph_kernel *k);
void graph_kernel_put(struct graph_kernel *k);

/* Unshares the kernel of a node before a change. */
CUresult graph_kernel_own(struct graph_op *op);

CUresult graph_op_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct graph_op *ret_op);
CUresult graph_op_copy(const CUDA_MEMCPY3D *p, struct graph_op *ret_op);
CUresult graph_op_fill(const CUDA_MEMSET_NODE_PARAMS *p, struct graph_op *ret_op);
CUresult graph_op_host(const CUDA_HOST_NODE_PARAMS *p, struct graph_op *ret_op);
CUresult graph_op_event(CUevent event, CUgraphNodeType type, struct graph_op *ret_op);
CUresult graph_op_child(CUgraph child, struct graph_op *ret_op);
/* As cuGraphAddNode describes it; other kinds: NOT_SUPPORTED. */
CUresult graph_op_any(const CUgraphNodeParams *p, struct graph_op *ret_op);

/* Another reference or copy of what op owns. */
CUresult graph_op_dup(const struct graph_op *op, struct graph_op *ret_op);
/* Drops what op owns. */
void graph_op_fini(struct graph_op *op);

/* True if this process has to take part in it. */
bool graph_op_is_host(const struct graph_op *op);

/* ---- flattening ---- */

struct graph_flat_node {
	struct graph_node *node;
	uint64_t id;
	bool marker; /* a child graph's node: only the end of its graph */
	uint32_t n_deps;
	uint32_t first_dep; /* in graph_flat.deps */
};

struct graph_flat {
	struct graph_flat_node *nodes;
	uint32_t *deps;
	size_t n, room, n_deps, deps_room;
};

/* Every node behind those it depends on. INVALID_VALUE: a cycle, or too many nodes. */
CUresult graph_flatten(struct graph *g, struct graph_flat *ret_f);
void graph_flat_fini(struct graph_flat *f);

/* ---- nodes that run here ---- */

struct graph_host;

/* What such a node does, under a number that the worker gets. NULL: out of memory. */
struct graph_host *graph_host_new(const struct graph_op *op, CUcontext ctx);
uint64_t graph_host_id(const struct graph_host *h);
/* Before each launch: it will run once more. */
void graph_host_arm(struct graph_host *h);
void graph_host_put(struct graph_host *h);

/* On the helper thread, without the lock: false if no node has that number. */
bool graph_host_run(uint64_t id);

/* hostfunc.c: the helper thread runs from now on. SUCCESS or OUT_OF_MEMORY. */
CUresult hostfunc_start(void);
/* hostfunc.c: a new number for host_func and graph_host. */
uint64_t hostfunc_number(void);

/* ---- users ---- */

/* Lists of references on user objects: graph.users, guest_exec.users. */
void graph_users_drop(struct list *users);
CUresult graph_users_copy(struct list *to, const struct list *from);

#endif
