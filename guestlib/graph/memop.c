/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that wait for words of memory, or write them. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/exec.h"

struct wire_mem_op mem_op_put(const CUstreamBatchMemOpParams *p)
{
	struct wire_mem_op op = {.op = (uint32_t)p->operation};

	switch ((int)p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		op.flags = p->waitValue.flags;
		op.address = p->waitValue.address;
		op.value = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64
				   ? p->waitValue.value64
				   : p->waitValue.value;
		break;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		op.flags = p->writeValue.flags;
		op.address = p->writeValue.address;
		op.value = p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64
				   ? p->writeValue.value64
				   : p->writeValue.value;
		break;
	case CU_STREAM_MEM_OP_BARRIER:
		op.flags = p->memoryBarrier.flags;
		break;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		op.flags = p->flushRemoteWrites.flags;
		break;
	}
	return op;
}

CUresult graph_op_mem_ops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct graph_op *ret_op)
{
	struct graph_mem_ops *m;
	unsigned i;

	if (!p || p->flags || (p->count && !p->paramArray) ||
	    p->count > GRAPH_MEM_OPS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < p->count; i++) {
		const CUstreamBatchMemOpParams *o = &p->paramArray[i];
		bool word = o->operation != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES &&
			    o->operation != CU_STREAM_MEM_OP_BARRIER;
		bool wide = o->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
			    o->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;

		if (word &&
		    (!o->waitValue.address || (o->waitValue.address & (wide ? 7 : 3))))
			return CUDA_ERROR_INVALID_VALUE;
	}
	m = malloc(sizeof(*m) + p->count * sizeof(*p->paramArray));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->ctx = p->ctx;
	m->n = p->count;
	if (p->count)
		memcpy(m->ops, p->paramArray, p->count * sizeof(*p->paramArray));
	ret_op->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	ret_op->mem_ops = m;
	return CUDA_SUCCESS;
}

struct graph_mem_ops *graph_mem_ops_dup(const struct graph_mem_ops *m)
{
	size_t size = sizeof(*m) + m->n * sizeof(m->ops[0]);
	struct graph_mem_ops *copy = malloc(size);

	if (copy)
		memcpy(copy, m, size);
	return copy;
}

CUresult graph_send_mem_ops(struct guest_thread *t, uint64_t exec, uint32_t index,
			    const struct graph_mem_ops *m)
{
	struct graph_mem_ops_cmd *cmd = begin_graph_mem_ops(t, m->n);
	unsigned i;

	if (!cmd)
		return guest_lost(t);
	cmd->exec = exec;
	cmd->node = index;
	for (i = 0; i < m->n; i++)
		graph_mem_ops_cmd_op(cmd)[i] = mem_op_put(&m->ops[i]);
	return guest_post(t);
}
