/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the handlers of asynchronous copies. */
#ifndef WEFT_SIMT_ASYNC_H
#define WEFT_SIMT_ASYNC_H

#include "simt/exec.h"

/* Each address is an op of its own, with the fields that mem.h reads. */
struct simt_copy {
	struct simt_op dst, src, mbar;
	uint32_t bytes; /* cp.async: of the destination */
	int32_t size;   /* row: bytes of the source, or of the bulk; -1: all */
	int32_t ignore; /* predicate: the source counts as zeroes; -1: none */
	bool ignore_neg;
	bool has_mbar, multicast;
	int32_t mask; /* row of the multicast's blocks */
};

enum mbar_op {
	MBAR_INIT,
	MBAR_INVAL,
	MBAR_EXPECT_TX,
	MBAR_COMPLETE_TX,
	MBAR_ARRIVE,
	MBAR_ARRIVE_DROP,
	MBAR_ARRIVE_EXPECT,
	MBAR_ARRIVE_DROP_EXPECT,
};

#endif
