/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on memory in stream order. They wait for the worker, which knows what the
 * device thinks of the addresses; not for the stream.
 */
#include <string.h>

#include "calls.h"
#include "graph/capture.h"
#include "graph/op.h"
#include "core/process.h"
#include "object/refuse.h"

#define OPS_MAX 256u /* of one batch, as the driver has it */

/* True if the device has them; it may lack the remote-write flush and the wait NOR. */
static bool supported(void)
{
	return guest_process.device
		       .attributes[CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS] > 0;
}

static CUresult send_ops(CUstream stream, unsigned n, const struct wire_mem_op *ops,
			 unsigned flags, bool ptsz)
{
	struct stream_mem_ops_cmd *cmd;
	struct guest_thread *t;
	struct lane_reply reply;
	uint64_t wire;
	CUresult r = guest_enter(guest_need_on(stream), &t);

	if (r == CUDA_SUCCESS)
		r = guest_stream(stream, ptsz, &wire);
	if (r)
		return r;
	if (!supported())
		return guest_refuse(REFUSAL_FEATURE, "stream memory operation");
	cmd = begin_stream_mem_ops(t, n);
	if (!cmd)
		return guest_lost(t);
	cmd->stream = wire;
	cmd->flags = flags;
	for (unsigned i = 0; i < n; i++)
		stream_mem_ops_cmd_op(cmd)[i] = ops[i];
	return guest_call(t, sizeof(struct stream_mem_ops_rep), &reply);
}

static CUresult capture(CUstream stream, unsigned n, CUstreamBatchMemOpParams *params,
			bool ptsz)
{
	const CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.count = n, .paramArray = params};
	struct graph_op op;
	CUresult r = graph_op_mem_ops(&p, &op);

	return r ? r : capture_add(stream, ptsz, &op);
}

static CUresult batch(CUstream stream, unsigned n, CUstreamBatchMemOpParams *params,
		      unsigned flags, bool ptsz)
{
	struct wire_mem_op ops[OPS_MAX];

	if (unlikely(capture_wants(stream, ptsz)))
		return capture(stream, n, params, ptsz);
	if (n > OPS_MAX || (n && !params))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++)
		ops[i] = mem_op_put(&params[i]);
	return send_ops(stream, n, ops, flags, ptsz);
}

static CUresult one(CUstream stream, CUstreamBatchMemOpType op, CUdeviceptr addr,
		    uint64_t value, unsigned flags, bool ptsz)
{
	struct wire_mem_op w = {
		.op = (uint32_t)op, .flags = flags, .address = addr, .value = value};
	CUstreamBatchMemOpParams p;

	if (unlikely(capture_wants(stream, ptsz))) {
		memset(&p, 0, sizeof(p));
		p.waitValue.operation = op; /* writing has the same fields */
		p.waitValue.address = addr;
		p.waitValue.value64 = value;
		p.waitValue.flags = flags;
		return capture(stream, 1, &p, ptsz);
	}
	return send_ops(stream, 1, &w, 0, ptsz);
}

#define ONE(name, bits, op)                                                              \
	GUEST_PAIR(name, ptsz,                                                           \
		   (CUstream stream, CUdeviceptr addr, cuuint##bits##_t value,           \
		    unsigned int flags),                                                 \
		   one, stream, op, addr, value, flags)

ONE(cuStreamWaitValue32_v2, 32, CU_STREAM_MEM_OP_WAIT_VALUE_32)
ONE(cuStreamWaitValue64_v2, 64, CU_STREAM_MEM_OP_WAIT_VALUE_64)
ONE(cuStreamWriteValue32_v2, 32, CU_STREAM_MEM_OP_WRITE_VALUE_32)
ONE(cuStreamWriteValue64_v2, 64, CU_STREAM_MEM_OP_WRITE_VALUE_64)
GUEST_PAIR(cuStreamBatchMemOp_v2, ptsz,
	   (CUstream stream, unsigned int n, CUstreamBatchMemOpParams *params,
	    unsigned int flags),
	   batch, stream, n, params, flags)
