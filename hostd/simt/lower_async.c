/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/lower.h"

int lower_async(struct lower *l, const struct ptx_insn *in)
{
	return lower_refuse(l, "asynchronous copy");
}
