/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executable graph: nodes in an order in which each comes after those it depends on,
 * and how they are given to a device. Knows device ops, but neither sessions nor handles.
 *
 * Theory of operation. The nodes are kept here, with what they do and depend on. A device
 * that has graphs of its own is given all of them at exec_ready() and then takes a launch
 * as one operation; a change that it cannot make in what it was given has the graph
 * created anew at the next launch. For every other device streams.c spreads the nodes
 * over streams.
 *
 * A number is a node's place in the order. Functions that change a node before
 * exec_ready() return success and remember the first failure for exec_ready(); afterwards
 * they return it and leave the node as it was. Calls on one exec must not overlap: the
 * caller locks.
 */
#ifndef WEFT_GRAPH_EXEC_H
#define WEFT_GRAPH_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

#define EXEC_NODES_MAX (1u << 18)
/* Most bytes of all graphs of a process: bounds what a guest can make it allocate. */
#define EXEC_BYTES_MAX (1ull << 30)
#define EXEC_LANES_MAX 8

struct exec;

struct exec_owner {
	void (*put)(void *arg, void *ref); /* drops dev_node.ref; ref may be NULL */
	/* Queues the owner's function `id` in a stream. */
	CUresult (*host)(void *arg, struct dev_ctx *ctx, struct dev_stream *st,
			 uint64_t id);
	void *arg;
	/* dev_graph_desc.host; its argument lives as long as the device. */
	void (*stands)(void *stands_arg, struct dev_ctx *ctx, uint64_t id,
		       uint64_t token);
	void *stands_arg;
	/* Charges memory for nodes to whoever made them; may be NULL, both or none. hold
	 * returns 0 or negative. */
	int (*hold)(void *arg, uint64_t bytes);
	void (*unhold)(void *arg, uint64_t bytes);
};

struct exec_shape {
	uint32_t n, n_bodies;    /* nodes; bodies of conditional nodes */
	unsigned flags;          /* as dev_graph_desc.flags */
	struct dev_shell *shell; /* or NULL; outlives the exec */
};

/* An exec of that shape. Returns CUDA_SUCCESS, OUT_OF_MEMORY or INVALID_VALUE (too many).
 */
CUresult exec_new(const struct device_ops *ops, struct dev_ctx *ctx,
		  const struct exec_owner *owner, const struct exec_shape *shape,
		  struct exec **ret_x);

/* Work under way still runs. Accepts NULL. */
void exec_free(struct exec *x);

/* The first failure; any later step is skipped. */
void exec_fail(struct exec *x, CUresult r);

/* Adds dependencies of a node; before exec_ready(). */
CUresult exec_depend(struct exec *x, unsigned node, const struct dev_edge *edges,
		     unsigned n);

/* Sets what a node does; takes over op->ref and ref2, on failure too, and copies the
 * rest. */
CUresult exec_set(struct exec *x, unsigned node, const struct dev_node *op);

CUresult exec_enable(struct exec *x, unsigned node, bool enabled);

/* Every node is described: makes the device's graph, or streams and events. */
CUresult exec_ready(struct exec *x);

/* Submits every node. st belongs to the context of the exec; never waits for it. */
CUresult exec_launch(struct exec *x, struct dev_stream *st);

/* Does those parts of a launch that can be done before it. */
CUresult exec_upload(struct exec *x, struct dev_stream *st);

/* Calls fn for each node that a launch runs. */
void exec_named(const struct exec *x, void (*fn)(void *arg, const struct dev_node *op),
		void *arg);

/* How many kernels a launch submits. */
unsigned exec_kernels(const struct exec *x);

#endif
