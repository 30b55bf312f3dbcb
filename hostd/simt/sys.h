/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces that isspacep asks for, in op->x. */
#ifndef WEFT_SIMT_SYS_H
#define WEFT_SIMT_SYS_H

enum sys_space {
	SYS_GLOBAL,
	SYS_SHARED,  /* of the block */
	SYS_CLUSTER, /* of any block of the cluster */
	SYS_LOCAL,
	SYS_CONST,
	SYS_PARAM,
};

#endif
