/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/lower.h"

int lower_matrix(struct lower *l, const struct ptx_insn *in)
{
	return lower_refuse(l, "matrix");
}
