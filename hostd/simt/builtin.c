/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/cta.h"

bool simt_builtin(struct simt_warp *w, const struct simt_op *op, uint32_t m,
		  const struct simt_code *code, const struct simt_call *call)
{
	simt_raise(w, op, SIMT_FAULT_INSTR, (unsigned)__builtin_ctz(m));
	return false;
}
