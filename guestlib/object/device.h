/* SPDX-License-Identifier: Apache-2.0 */
/* The device as the guest process sees it; all of it known since cuInit. */
#ifndef WEFT_GUEST_DEVICE_H
#define WEFT_GUEST_DEVICE_H

#include <cuda.h>

/* What calls say that need cuInit and a device of that number. */
CUresult device_check(CUdevice dev);

#endif
