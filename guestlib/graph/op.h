/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: what a node does, checked and kept, until it travels to the worker. */
#ifndef WEFT_GUEST_GRAPH_OP_H
#define WEFT_GUEST_GRAPH_OP_H

#include "graph/graph.h"

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

/* A kernel of a launch that was described by its caller: checked, parameters copied. */
CUresult graph_kernel_new(const struct launch *l, struct graph_kernel **ret_k);

/* attr.c: attributes of kernels */
struct wire_launch_attr;
/* Whether a node may be asked for it, and given it; only such are read and written. */
bool graph_kernel_attr_ok(CUkernelNodeAttrID attr);
void graph_kernel_attr_read(const struct graph_kernel *k, CUkernelNodeAttrID attr,
			    CUkernelNodeAttrValue *ret_value);
/* Changes a kernel that is one node's own; OUT_OF_MEMORY. */
CUresult graph_kernel_attr_write(struct graph_kernel *k, CUkernelNodeAttrID attr,
				 const CUkernelNodeAttrValue *value);
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
/* A handle for conditional nodes of g's outermost graph. Waits for the worker. */
CUresult graph_condition_new(struct graph *g, unsigned initial, unsigned flags,
			     uint64_t *ret_handle);
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

#endif
