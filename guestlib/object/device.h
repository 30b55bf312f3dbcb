/* SPDX-License-Identifier: Apache-2.0 */
/* The device as the guest process sees it; all of it known since cuInit. */
#ifndef WEFT_GUEST_DEVICE_H
#define WEFT_GUEST_DEVICE_H

#include "core/process.h"

/* Checks, for calls that name a device, that cuInit() has succeeded and dev is visible:
 * CUDA_SUCCESS, the gate's error, or INVALID_DEVICE. */
static inline CUresult device_check(CUdevice dev)
{
	CUresult r = guest_status();

	if (r)
		return r;
	return guest_has_device(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

#endif
