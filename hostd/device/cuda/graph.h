/* SPDX-License-Identifier: Apache-2.0 */
/* A node as the real driver has it. */
#ifndef WEFT_DEVICE_CUDA_GRAPH_H
#define WEFT_DEVICE_CUDA_GRAPH_H

#include "device/cuda/device.h"
#include "device/graph.h"

/* One of these stands behind the CUgraphNodeParams that were made with it. */
struct cuda_node_room {
	void *extra[5];
	size_t size;
	CUstreamBatchMemOpParams ops[2];
	CUstreamBatchMemOpParams *more; /* to be freed */
};

/* Everything but host functions. room is the caller's until p has been used; it frees
 * room->more then, also after a failure. A node that has nothing to do is an empty one.
 */
CUresult cuda_node_params(struct dev_ctx *ctx, const struct dev_node *op,
			  struct cuda_node_room *room, CUgraphNodeParams *p);

/* A kernel; its parameters are as many as l says. */
CUDA_KERNEL_NODE_PARAMS cuda_kernel_node(const struct dev_launch *l,
					 struct cuda_node_room *room);
void cuda_kernel_node_params(const struct dev_launch *l, struct cuda_node_room *room,
			     CUgraphNodeParams *p);

/* The second half of a host function. */
void cuda_slot_params(struct dev_ctx *ctx, int slot, struct cuda_node_room *room,
		      CUgraphNodeParams *p);

/* Frees what waits for the end of its last launch; the context has been waited for. */
void cuda_graphs_drop(struct dev_ctx *ctx);
CUresult cuda_graph_create(struct dev_ctx *ctx, const struct dev_graph_desc *d,
			   struct dev_graph **ret_graph);
void cuda_graph_destroy(struct dev_graph *g);
CUresult cuda_graph_set(struct dev_graph *g, uint32_t node, const struct dev_node *to);
CUresult cuda_graph_enable(struct dev_graph *g, uint32_t node, bool enabled);
CUresult cuda_graph_launch(struct dev_graph *g, struct dev_stream *st);
CUresult cuda_graph_upload(struct dev_graph *g, struct dev_stream *st);
CUresult cuda_shell_create(struct dev_ctx *ctx, struct dev_shell **ret_shell);
void cuda_shell_destroy(struct dev_shell *shell);
CUresult cuda_shell_condition(struct dev_shell *shell, unsigned initial, unsigned flags,
			      uint64_t *ret_handle);

#endif
