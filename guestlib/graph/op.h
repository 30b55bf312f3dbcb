/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of nodes, checked and kept until they travel to the worker. */
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

/* Makes a kernel of a launch that its caller described: checked, parameters copied. The
 * caller has the one reference. */
CUresult graph_kernel_new(const struct launch *l, struct graph_kernel **ret_k);

/* attr.c: attributes of kernels */
struct wire_launch_attr;
/* True for attributes that a node has; only those are read and written. */
bool graph_kernel_attr_ok(CUkernelNodeAttrID attr);
void graph_kernel_attr_read(const struct graph_kernel *k, CUkernelNodeAttrID attr,
			    CUkernelNodeAttrValue *ret_value);
/* Sets an attribute of a kernel that is one node's own; OUT_OF_MEMORY. */
CUresult graph_kernel_attr_write(struct graph_kernel *k, CUkernelNodeAttrID attr,
				 const CUkernelNodeAttrValue *value);
/* Copy the attributes of another kernel, and of a captured launch. OUT_OF_MEMORY;
 * NOT_SUPPORTED for a launch that records events. */
CUresult graph_kernel_attrs_copy(struct graph_kernel *to,
				 const struct graph_kernel *from);
CUresult graph_kernel_attrs_launch(struct graph_kernel *k,
				   const struct launch_attrs *attrs);
/* Gives a captured kernel its stream's priority, unless the launch had one of its own.
 * OUT_OF_MEMORY. */
CUresult graph_kernel_priority(struct graph_kernel *k, int priority);
/* Count the attributes that were set, and write them as they travel. */
unsigned graph_kernel_attrs_count(const struct graph_kernel *k);
void graph_kernel_attrs_put(const struct graph_kernel *k, struct wire_launch_attr *w);

/* Unshares the kernel of a node before a change. */
CUresult graph_kernel_own(struct graph_op *op);

/* Make an operation of parameters: SUCCESS, or the driver's error for them. */
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
/* Makes an operation of any kind, as cuGraphAddNode describes it, for a graph (NULL: not
 * for a new node) and behind n nodes (deps); fills in the members of *p by which the
 * caller is told something. Other kinds: NOT_SUPPORTED. */
CUresult graph_op_any(struct graph *g, const CUgraphNode *deps, size_t n,
		      CUgraphNodeParams *p, struct graph_op *ret_op);

/* memop.c: an operation as it travels. */
struct wire_mem_op;
struct wire_mem_op mem_op_put(const CUstreamBatchMemOpParams *p);

struct graph_mem_ops *graph_mem_ops_dup(const struct graph_mem_ops *m);
CUresult graph_send_mem_ops(struct guest_thread *t, uint64_t exec, uint32_t index,
			    const struct graph_mem_ops *m);
void graph_cond_free(struct graph_cond *c);
/* Makes a handle for conditional nodes of g's outermost graph. Waits for the worker. */
CUresult graph_condition_new(struct graph *g, unsigned initial, unsigned flags,
			     uint64_t *ret_handle);
/* Drops the worker's objects for the condition handles of a graph that ends. */
CUresult graph_shell_drop(struct graph *g);

/* Makes *ret_op a second operation: with references or copies of everything that op
 * owns. */
CUresult graph_op_dup(const struct graph_op *op, struct graph_op *ret_op);
/* Drops what op owns. */
void graph_op_fini(struct graph_op *op);

/* Translates the parameters of a copy node, with addresses as the device has them where
 * it sees memory of the host. */
CUresult graph_copy_box(const CUDA_MEMCPY3D *p, struct copy_box *ret_box);

/* True if this process has to take part in the operation. */
bool graph_op_is_host(const struct graph_op *op);

/* Tells which part of a copy of two parts comes first; GRAPH_WHOLE for all other
 * operations. */
enum graph_part graph_op_stages(const struct graph_op *op);
/* Bytes of the stage of a copy of two parts. */
size_t graph_stage_size(const struct graph_op *op);

#endif
