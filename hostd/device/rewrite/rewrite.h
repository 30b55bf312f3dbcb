/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device on another one, which gives kernels a second form where their images bring PTX
 * (ptx/rewrite/): whoever uses it sees the device as it is. One in a process.
 */
#ifndef WEFT_DEVICE_REWRITE_H
#define WEFT_DEVICE_REWRITE_H

#include "device/device.h"

enum rewrite_mode {
	REWRITE_OFF,
	/* Kernels whose grid does not fit on the device at once run with as many blocks as do,
	 * each of which takes blocks of the grid. Those of other grids may wait for each other. */
	REWRITE_SHARE,
	/* Kernels of every grid, one block on each SM where nothing is said of blocks: for tests. */
	REWRITE_ALWAYS,
	/* As REWRITE_SHARE, but for kernels that take longer so (cost.h). */
	REWRITE_AUTO,
	/* As REWRITE_AUTO, with yield points. */
	REWRITE_YIELD,
	/* As REWRITE_ALWAYS, with yield points. */
	REWRITE_ALWAYS_YIELD,
};

/* The device on under, with REWRITE_OFF. Before anything is opened. */
const struct device_ops *device_rewritten(const struct device_ops *under);

/* For images that are loaded from now on; before there is any. -EINVAL: there is no such mode. */
int device_rewrite(enum rewrite_mode mode);

#endif
