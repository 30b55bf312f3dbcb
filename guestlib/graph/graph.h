/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as the guest has them. A graph, its nodes, edges and parameters exist here
 * alone; an executable graph is a list of operations at the worker
 * (transport/api/graph.api). One lock guards all of them and every capture.
 *
 *	graph.c   graphs, nodes, edges; cloning
 *	params.c  operations of nodes: checking and keeping them (op.h)
 *	attr.c    attributes of kernel nodes
 *	memop.c   nodes that wait for words of memory and write them
 *	mem.c     nodes that allocate and free memory
 *	cond.c    conditional nodes
 *	flat.c    an order of all nodes, child graphs included (flat.h)
 *	exec.c    executable graphs (exec.h)
 *	send.c    operations of nodes, as messages
 *	host.c    nodes that run in this process (host.h)
 *	stage.c   memory through which they copy
 *	user.c    user objects (user.h)
 *
 * Entry points: api/graph/. node.c has those that add nodes, read and change them, query.c
 * questions and edges, update.c changes executable graphs.
 */
#ifndef WEFT_GUEST_GRAPH_H
#define WEFT_GUEST_GRAPH_H

#include "base/list.h"
#include "copy/copy.h"
#include "core/guest.h"
#include "code/launch.h"
#include "core/process.h"

#define GRAPH_NODES_MAX (1u << 18) /* of one executable graph; also at the worker */

/* A launch with its parameters; refcounted, constant but for hints. */
struct graph_kernel {
	unsigned refs;
	struct launch launch;         /* without params and extra: see ptrs */
	CUkernelNodeAttrValue *hints; /* by attribute; NULL: none was set */
	uint32_t hints_set;           /* a bit by attribute */
	uint64_t func;                /* handle */
	bool early; /* may start before the kernel before it has ended */
	uint32_t size;
	unsigned n_ptrs;
	void **ptrs; /* where each parameter lies in buf */
	uint8_t *buf;
};

#define GRAPH_MEM_OPS_MAX 256u /* of one node */
#define GRAPH_BODIES_MAX  256u /* of one conditional node */

struct graph_mem_ops {
	CUcontext ctx;
	unsigned n;
	CUstreamBatchMemOpParams ops[];
};

struct graph_cond {
	uint64_t handle; /* the driver's */
	CUgraphConditionalNodeType type;
	unsigned n;
	CUgraph *shown;         /* the bodies, as the program sees them */
	struct graph *bodies[]; /* owned */
};

/* Operation of a node. */
struct graph_op {
	CUgraphNodeType type;
	union {
		struct graph_kernel *kernel; /* a reference */
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS fill;
		CUDA_HOST_NODE_PARAMS host;
		CUevent event;
		struct graph *child;           /* owned */
		struct graph_mem *mem;         /* a reference */
		struct graph_mem_ops *mem_ops; /* owned */
		struct graph_cond *cond;       /* owned */
	};
};

struct graph_edge {
	struct graph_node *node;
	uint32_t how; /* see graph_edge_pack() */
};

struct graph_node {
	uint64_t handle;
	uint64_t id;          /* never reused */
	uint64_t cloned_from; /* id, or 0 */
	struct graph *graph;
	struct list link; /* graph.nodes, in order of creation */
	struct graph_op op;
	struct graph_edge *deps, *outs; /* edges in, edges out */
	size_t n_deps, deps_room, n_outs, outs_room;
	unsigned mark;  /* for walks of the graph; 0 in between */
	uint32_t index; /* for walks, too */
};

struct graph {
	uint64_t handle;
	uint64_t id;
	uint64_t cloned_from;
	struct graph_node *owner; /* the node whose child graph this is, or NULL */
	struct list nodes;
	size_t n_nodes;
	unsigned captures; /* captures under way that add to it */
	unsigned n_mem;    /* nodes that allocate or free memory */
	unsigned n_freed;  /* nodes whose memory a later node may take over */
	unsigned n_single; /* nodes of which there cannot be two; see graph_is_single() */
	unsigned execs;    /* executable graphs of it, if it is single */
	uint64_t *conditions; /* handles of conditional nodes in it, at any depth */
	size_t n_conditions;
	struct list users; /* user.c */
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

/* ---- objects; under the lock ---- */

/* Find an object by its handle; NULL: there is none. */
struct graph *graph_lookup(CUgraph g);
struct graph_node *graph_node_lookup(CUgraphNode n);

static inline CUgraphNode graph_node_public(const struct graph_node *n)
{
	return (CUgraphNode)(uintptr_t)(n ? n->handle : 0);
}

/* Makes an empty graph; NULL: out of memory. */
struct graph *graph_new(void);
/* Frees a graph with its nodes and child graphs. Accepts NULL. */
void graph_free(struct graph *g);
/* Copies a graph, which must not be single; NULL: out of memory. */
struct graph *graph_clone(const struct graph *g);

/* True if the graph has memory or conditional nodes, or a child graph that has such: it
 * cannot be cloned, and has one executable graph at a time. */
static inline bool graph_is_single(const struct graph *g)
{
	return g->n_single != 0;
}

/* Finds the graph that contains g, at any depth, and is contained in none; g itself if it
 * is no child graph. */
struct graph *graph_outermost(struct graph *g);

/* Adds a node; takes over what op owns on success only. NULL: out of memory. */
struct graph_node *graph_node_new(struct graph *g, const struct graph_op *op);
void graph_node_free(struct graph_node *n);

/* Packs the data of an edge, as it travels: 0 is a plain edge. */
static inline uint32_t graph_edge_pack(const CUgraphEdgeData *d)
{
	return (uint32_t)d->from_port | (uint32_t)d->to_port << 8 |
	       (uint32_t)d->type << 16;
}

static inline CUgraphEdgeData graph_edge_unpack(uint32_t how)
{
	return (CUgraphEdgeData){.from_port = (unsigned char)how,
				 .to_port = (unsigned char)(how >> 8),
				 .type = (unsigned char)(how >> 16)};
}

/* A kernel that may start before the one before it has ended. */
#define GRAPH_EDGE_PROGRAMMATIC                                                          \
	(CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC |                                        \
	 (uint32_t)CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC << 16)

/* Adds an edge: SUCCESS (also if it exists), INVALID_VALUE (a node on itself, two graphs)
 * or OUT_OF_MEMORY. */
CUresult graph_edge_add(struct graph_node *from, struct graph_node *to, uint32_t how);
bool graph_edge_exists(const struct graph_node *from, const struct graph_node *to);
bool graph_edge_remove(struct graph_node *from, struct graph_node *to);

/* True if an edge between these nodes may have that data (NULL: a plain one). to may be
 * NULL: a node of type to_type that is not there yet. */
bool graph_edge_fits(const struct graph_node *from, CUgraphNodeType to_type,
		     const CUgraphEdgeData *data);

#endif
