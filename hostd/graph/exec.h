/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executable graph: nodes in an order in which each comes after those it depends on,
 * and how they are given to a device. Knows device ops, but neither sessions nor handles.
 *
 * Theory of operation. exec_ready() deals the nodes out to lanes: a node goes behind one
 * it depends on if that one is still the last of its lane, else to a lane of its own, as
 * long as there are any. Lane 0 is the stream of the launch, so a chain of nodes is just
 * submitted; the other lanes are streams of the graph. A dependency between lanes becomes
 * an event, and so does the beginning (lanes wait for the stream) and the end (the stream
 * waits for nodes on which nothing depends). A launch waits in its stream for the launch
 * before it.
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
/* What all graphs of a process may take: bounds what a guest can make it allocate. */
#define EXEC_BYTES_MAX (1ull << 30)
#define EXEC_LANES_MAX 8
#define EXEC_DEPTH_MAX 65536u /* slices of one copy */

struct exec;

enum exec_kind {
	EXEC_NONE, /* not described yet */
	EXEC_EMPTY,
	EXEC_KERNEL,
	EXEC_COPY,
	EXEC_FILL,
	EXEC_HOST,
	EXEC_RECORD,
	EXEC_WAIT,
};

struct exec_copy {
	struct dev_copy_2d rows; /* of the first slice */
	uint64_t dst_slice, src_slice;
	uint32_t depth;
};

struct exec_fill {
	CUdeviceptr dst;
	uint64_t pitch, width, height;
	uint32_t value, elem_bytes;
};

/* What a node does. */
struct exec_op {
	enum exec_kind kind;
	/* A reference on what the operation names, dropped when it is replaced. */
	void *ref;
	union {
		struct dev_launch kernel; /* params are copied */
		struct exec_copy copy;
		struct exec_fill fill;
		uint64_t host_id;
		struct dev_event *event;
	};
};

struct exec_owner {
	void (*put)(void *arg, void *ref); /* drops exec_op.ref; ref may be NULL */
	/* Queues the owner's function `id` in a stream. */
	CUresult (*host)(void *arg, struct dev_ctx *ctx, struct dev_stream *st,
			 uint64_t id);
	void *arg;
};

/* An exec for n nodes. Returns CUDA_SUCCESS, OUT_OF_MEMORY or INVALID_VALUE (too many).
 */
CUresult exec_new(const struct device_ops *ops, struct dev_ctx *ctx,
		  const struct exec_owner *owner, unsigned n, struct exec **ret_x);

/* Work under way still runs. Accepts NULL. */
void exec_free(struct exec *x);

/* The first failure; any later step is skipped. */
void exec_fail(struct exec *x, CUresult r);

/* Adds dependencies of a node; before exec_ready(). */
CUresult exec_depend(struct exec *x, unsigned node, const uint32_t *deps, unsigned n);

/* Sets what a node does; takes over op->ref, on failure too. */
CUresult exec_set(struct exec *x, unsigned node, const struct exec_op *op);

CUresult exec_enable(struct exec *x, unsigned node, bool enabled);

/* Every node is described: makes streams and events. */
CUresult exec_ready(struct exec *x);

/* Submits every node. st belongs to the context of the exec; never waits for it. */
CUresult exec_launch(struct exec *x, struct dev_stream *st);

/* How many kernels a launch submits. */
unsigned exec_kernels(const struct exec *x);

#endif
