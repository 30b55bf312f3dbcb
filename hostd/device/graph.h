/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph as a device takes it: nodes in an order in which each comes after those it
 * depends on, with the numbers of their places. Nodes may lie in the bodies of
 * conditional nodes: each body is a graph with a number of its own, the outermost is 0,
 * and the conditional node stands before the nodes of its bodies.
 */
#ifndef WEFT_DEVICE_GRAPH_H
#define WEFT_DEVICE_GRAPH_H

#include "device/array.h"
#include "device/copy.h"
#include "device/func.h"
#include "device/stream.h"

/* Slices of one copy; more is refused. */
#define DEV_NODE_DEPTH_MAX  65536u
#define DEV_NODE_BODIES_MAX 256u /* of one conditional node */

enum dev_node_kind {
	DEV_NODE_NONE, /* not described yet: never reaches a device */
	DEV_NODE_EMPTY,
	DEV_NODE_KERNEL,
	DEV_NODE_COPY,
	DEV_NODE_ARRAY_COPY,
	DEV_NODE_FILL,
	DEV_NODE_HOST, /* a function of the owner's */
	DEV_NODE_RECORD,
	DEV_NODE_WAIT,
	DEV_NODE_MEM_OPS,
	DEV_NODE_CONDITIONAL,
};

struct dev_node_copy {
	struct dev_copy_2d rows; /* of the first slice */
	uint64_t dst_slice, src_slice;
	uint32_t depth;
};

struct dev_node_fill {
	CUdeviceptr dst;
	uint64_t pitch, width, height; /* width in elements */
	uint32_t value, elem_bytes;
};

struct dev_node_mem_ops {
	const struct dev_mem_op *ops;
	uint32_t n; /* at most DEV_MEM_OPS_MAX */
};

struct dev_node_conditional {
	uint64_t handle;   /* of shell_condition() */
	uint32_t type;     /* CUgraphConditionalNodeType */
	uint32_t n_bodies; /* numbered from first_body on */
	uint32_t first_body;
};

/* A node of a graph and its parameters, by kind. */
struct dev_node {
	enum dev_node_kind kind;
	bool disabled;  /* does nothing, but what depends on it waits as before */
	uint32_t graph; /* 0, or the body that it lies in */
	void *ref;      /* the owner's, and so is */
	void *ref2;
	union {
		struct dev_launch kernel;
		struct dev_node_copy copy;
		struct dev_copy_3d array_copy;
		struct dev_node_fill fill;
		uint64_t host_id;
		struct dev_event *event;
		struct dev_node_mem_ops mem_ops;
		struct dev_node_conditional cond;
	};
};

/* How a node depends on another: CUgraphEdgeData without its reserved bytes. */
struct dev_edge {
	uint32_t from;
	uint8_t from_port, to_port, type, zero;
};

struct dev_graph_desc {
	const struct dev_node *nodes;
	const struct dev_edge *const *edges; /* of each node */
	const uint32_t *n_edges;
	uint32_t n, n_bodies;
	unsigned flags;          /* CUgraphInstantiate_flags; only USE_NODE_PRIORITY */
	struct dev_shell *shell; /* of the handles in it; NULL: there are none */
	/*
	 * On a thread of the device: a launch has got to a host node. It goes on when
	 * stream.host_func_done() is called with the token. Called until the last launch
	 * has ended, even if the graph was destroyed before.
	 */
	void (*host)(void *arg, struct dev_ctx *ctx, uint64_t host_id, uint64_t token);
	void *host_arg;
};

/* Graphs, on a device that has some of its own. Calls on one graph must not overlap. */
struct device_graph_ops {
	/* Makes a graph. Memory that desc points to is the caller's again afterwards. */
	CUresult (*create)(struct dev_ctx *ctx, const struct dev_graph_desc *desc,
			   struct dev_graph **ret_graph);
	/* Launches under way go on; never waits. */
	void (*destroy)(struct dev_graph *g);
	/* Changes a node from the next launch on; its kind stays. A failure leaves the
	 * node as it was: create the graph anew. */
	CUresult (*set)(struct dev_graph *g, uint32_t node, const struct dev_node *to);
	CUresult (*enable)(struct dev_graph *g, uint32_t node, bool enabled);
	CUresult (*launch)(struct dev_graph *g, struct dev_stream *st);
	CUresult (*upload)(struct dev_graph *g, struct dev_stream *st);
	/* A shell and the handles that conditional nodes of one graph are switched by. */
	CUresult (*shell_create)(struct dev_ctx *ctx, struct dev_shell **ret_shell);
	void (*shell_destroy)(struct dev_shell *shell);
	CUresult (*shell_condition)(struct dev_shell *shell, unsigned initial,
				    unsigned flags, uint64_t *ret_handle);
};

#endif
