/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that graphs allocate; under the graphs' lock unless said otherwise. */
#ifndef WEFT_GUEST_GRAPH_MEM_H
#define WEFT_GUEST_GRAPH_MEM_H

#include "graph/graph.h"

struct graph_block;

/* Memory of one allocation node. */
struct graph_mem {
	struct list link;
	unsigned refs; /* nodes and execs */
	uint64_t graph_id;
	struct graph_block *block;
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	bool live;       /* allocated by a launch, not freed yet */
	bool taken_over; /* a later node of its graph has the block */
};

enum exec_mem_role {
	EXEC_MEM_HELD,  /* allocated and freed by every launch */
	EXEC_MEM_GIVES, /* a launch leaves it live */
	EXEC_MEM_TAKES, /* a launch frees live memory */
};

/* An allocation that an executable graph makes or frees. */
struct exec_mem {
	struct graph_mem *mem; /* a reference */
	enum exec_mem_role role;
};

void graph_mem_put(struct graph_mem *m);

/* Nodes looked at in search of memory that is free again; for tests. */
extern uint64_t graph_mem_steps;

/* True if the node frees memory of its own graph that no later node has taken over. */
static inline bool graph_mem_reusable(const struct graph_node *n)
{
	const struct graph_mem *m = n->op.mem;

	return n->op.type == CU_GRAPH_NODE_TYPE_MEM_FREE && !m->taken_over &&
	       m->graph_id == n->graph->id;
}

/* Make the operations of the two kinds of nodes; p->dptr becomes the address. */
CUresult graph_op_alloc(struct graph *g, const CUgraphNode *deps, size_t n,
			CUDA_MEM_ALLOC_NODE_PARAMS *p, struct graph_op *ret_op);
CUresult graph_op_free(struct graph *g, CUdeviceptr addr, struct graph_op *ret_op);

/* Fill in an executable graph's list, entry by entry, and then find pairs in it. */
void graph_mem_role(struct graph_mem *m, CUgraphNodeType type, struct exec_mem *ret);
void graph_mem_pair(struct exec_mem *v, size_t n);

/* Prepares a launch in a stream, as it travels: INVALID_VALUE if it would allocate memory
 * that is live, or free memory that is not. */
CUresult graph_mem_launch(struct exec_mem *v, size_t n, bool auto_free, uint64_t stream);

/* Read an amount of memory, in bytes, and reset a high mark to the present amount.
 * INVALID_VALUE for another attribute. */
CUresult graph_mem_attribute(CUgraphMem_attribute attr, uint64_t *ret_bytes);
CUresult graph_mem_reset_high(CUgraphMem_attribute attr);

/* Frees memory of a graph for the program, in a stream, as it travels, or 0; *ret_r: the
 * result. False: no graph allocates addr. Without the lock. */
bool graph_mem_take(CUdeviceptr addr, uint64_t stream, CUresult *ret_r);

/* Gives back memory that no graph refers to any more. Without the lock. */
void graph_mem_flush(void);

#endif
