/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as the guest has them. A graph, its nodes, edges and parameters exist here
 * alone; what was instantiated is a list of operations at the worker
 * (transport/api/graph.api). One lock guards all of them and every capture.
 *
 *	graph.c  graphs, nodes, edges; cloning
 *	node.c   the functions that add nodes and change them
 *	attr.c   attributes of kernel nodes
 *	params.c what a node does: checking and keeping it
 *	flat.c   an order of all nodes, child graphs included
 *	exec.c   instantiating, launching, destroying
 *	send.c   what a node does, as a message
 *	host.c   nodes that run in this process
 *	stage.c  memory through which they copy
 *	mem.c    nodes that allocate and free memory
 *	memop.c  nodes that wait for words of memory and write them
 *	cond.c   conditional nodes
 *	user.c   user objects
 *
 * api/graph_*.c has the functions that ask, those about edges, and those that change what
 * was instantiated.
 */
#ifndef WEFT_GUEST_GRAPH_H
#define WEFT_GUEST_GRAPH_H

#include "base/list.h"
#include "copy/copy.h"
#include "core/guest.h"
#include "code/launch.h"
#include "core/process.h"

#define GRAPH_NODES_MAX (1u << 18) /* that one exec may have; the worker has the same */

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

/* What a node does. */
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
	unsigned n_mem;    /* nodes that allocate or free memory */
	unsigned n_freed;  /* those that free what a later one may have */
	unsigned n_single; /* nodes of which there cannot be two; see graph_is_single() */
	unsigned execs;    /* made from it, if it is single */
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
/* NULL: out of memory. The graph must not be single. */
struct graph *graph_clone(const struct graph *g);

/* With memory or conditional nodes, or a child graph that has such: it cannot be cloned,
 * and has one executable graph at a time. */
static inline bool graph_is_single(const struct graph *g)
{
	return g->n_single != 0;
}

/* The graph that has the node that has the node ... that has g. */
struct graph *graph_outermost(struct graph *g);

/* Adds a node; takes over what op owns on success only. NULL: out of memory. */
struct graph_node *graph_node_new(struct graph *g, const struct graph_op *op);
void graph_node_free(struct graph_node *n);

/* How one node depends on another, as it travels: 0 is a plain edge. */
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

/* SUCCESS (also if the edge exists), INVALID_VALUE (a node on itself, two graphs) or
 * OUT_OF_MEMORY. */
CUresult graph_edge_add(struct graph_node *from, struct graph_node *to, uint32_t how);
bool graph_edge_exists(const struct graph_node *from, const struct graph_node *to);
bool graph_edge_remove(struct graph_node *from, struct graph_node *to);

/* True if an edge between these may have that data (NULL: a plain one). to may be NULL:
 * a node that is not there yet, of type to_type. */
bool graph_edge_fits(const struct graph_node *from, CUgraphNodeType to_type,
		     const CUgraphEdgeData *data);

/* ---- operations ---- */

/* A kernel of a launch that was described by its caller: checked, parameters copied. */
CUresult graph_kernel_new(const struct launch *l, struct graph_kernel **ret_k);

/* attr.c: attributes */
struct wire_launch_attr;
CUresult graph_kernel_attrs_copy(struct graph_kernel *to,
				 const struct graph_kernel *from);
CUresult graph_kernel_attrs_launch(struct graph_kernel *k,
				   const struct launch_attrs *attrs);
/* That of the stream that it is captured from, unless the launch has its own. */
CUresult graph_kernel_priority(struct graph_kernel *k, int priority);
unsigned graph_kernel_attrs_count(const struct graph_kernel *k);
void graph_kernel_attrs_put(const struct graph_kernel *k, struct wire_launch_attr *w);

/* Unshares the kernel of a node before a change. */
CUresult graph_kernel_own(struct graph_op *op);

CUresult graph_op_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct graph_op *ret_op);
CUresult graph_op_kernel_1(const CUDA_KERNEL_NODE_PARAMS_v1 *p, struct graph_op *ret_op);
CUresult graph_op_copy(const CUDA_MEMCPY3D *p, struct graph_op *ret_op);
CUresult graph_op_fill(const CUDA_MEMSET_NODE_PARAMS *p, struct graph_op *ret_op);
CUresult graph_op_host(const CUDA_HOST_NODE_PARAMS *p, struct graph_op *ret_op);
CUresult graph_op_event(CUevent event, CUgraphNodeType type, struct graph_op *ret_op);
CUresult graph_op_child(CUgraph child, struct graph_op *ret_op);
CUresult graph_op_mem_ops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
			  struct graph_op *ret_op);
CUresult graph_op_conditional(struct graph *g, CUDA_CONDITIONAL_NODE_PARAMS *p,
			      struct graph_op *ret_op);
/* As cuGraphAddNode describes it, for a graph (NULL: not for a new node) and behind deps;
 * fills in what p tells the caller. Other kinds: NOT_SUPPORTED. */
CUresult graph_op_any(struct graph *g, const CUgraphNode *deps, size_t n,
		      CUgraphNodeParams *p, struct graph_op *ret_op);

/* memop.c: an operation as it travels. */
struct wire_mem_op;
struct wire_mem_op mem_op_put(const CUstreamBatchMemOpParams *p);

struct graph_mem_ops *graph_mem_ops_dup(const struct graph_mem_ops *m);
CUresult graph_send_mem_ops(struct guest_thread *t, uint64_t exec, uint32_t index,
			    const struct graph_mem_ops *m);
void graph_cond_free(struct graph_cond *c);
/* The graph goes: so does what the worker has for its handles. */
CUresult graph_shell_drop(struct graph *g);

/* Another reference or copy of what op owns. */
CUresult graph_op_dup(const struct graph_op *op, struct graph_op *ret_op);
/* Drops what op owns. */
void graph_op_fini(struct graph_op *op);

/* The copy that a node means, with addresses as the device has them where it sees memory
 * of the host. */
CUresult graph_copy_box(const CUDA_MEMCPY3D *p, struct copy_box *ret_box);

/* True if this process has to take part in it. */
bool graph_op_is_host(const struct graph_op *op);

/* A copy of two parts: which one comes first; else GRAPH_WHOLE. */
enum graph_part graph_op_stages(const struct graph_op *op);
/* How large its stage is. */
size_t graph_stage_size(const struct graph_op *op);

/* ---- flattening ---- */

/*
 * A copy between the device and memory that only this process sees is two nodes: one that
 * the device copies from or to memory that both see (the stage), and one that copies on
 * in this process. first comes before second.
 */
enum graph_part {
	GRAPH_WHOLE,
	GRAPH_STAGE_HOST, /* in this process */
	GRAPH_STAGE_COPY, /* by the device */
};

struct graph_flat_node {
	struct graph_node *node;
	uint64_t id;
	bool marker; /* a child graph's node: only the end of its graph */
	enum graph_part part;
	bool second;         /* of two parts */
	uint32_t body;       /* of a conditional node; 0: none */
	uint32_t first_body; /* of the bodies of a conditional node */
	uint32_t n_deps;
	uint32_t first_dep; /* in graph_flat.deps */
};

struct graph_flat {
	struct graph_flat_node *nodes;
	uint64_t *deps; /* as in graph_deps: a number, and how above it */
	size_t n, room, n_deps, deps_room;
	uint32_t body, n_bodies;
};

/* Every node behind those it depends on. INVALID_VALUE: a cycle, or too many nodes. */
CUresult graph_flatten(struct graph *g, struct graph_flat *ret_f);
void graph_flat_fini(struct graph_flat *f);

/* ---- nodes that run here ---- */

struct graph_host;
struct exec_stage;

/* stage.c: the last reference leaves the memory to graph_stage_flush(), which is
 * called without the lock. */
void exec_stage_put(struct exec_stage *s);
void graph_stage_flush(struct guest_thread *t);

/* What such a node does, under a number that the worker gets: a function, a copy in this
 * process (through stage, or without one) or (op is empty) nothing. NULL: out of memory.
 */
struct graph_host *graph_host_new(const struct graph_op *op, CUcontext ctx,
				  struct exec_stage *in, void *stage);
uint64_t graph_host_id(const struct graph_host *h);
/* Before each launch: it will run once more. */
void graph_host_arm(struct graph_host *h);
void graph_host_put(struct graph_host *h);

/* On the helper thread, without the lock. After an error nothing is run. How a copy went,
 * for whoever waits for the graph. */
CUresult graph_host_run(uint64_t id, CUresult status);

/* ---- users ---- */

/* Lists of references on user objects: graph.users, guest_exec.users. */
void graph_users_drop(struct list *users);
/* When what was queued in a stream has run; at once if that cannot be known. */
void graph_users_drop_later(struct guest_thread *t, struct list *users, uint64_t stream);
CUresult graph_users_copy(struct list *to, const struct list *from);

#endif
