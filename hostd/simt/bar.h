/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of bar, in op->x. */
#ifndef WEFT_SIMT_BAR_H
#define WEFT_SIMT_BAR_H

enum bar_kind {
	BAR_SYNC,
	BAR_ARRIVE,
	BAR_POPC, /* from here on with a result */
	BAR_AND,
	BAR_OR,
};

#endif
