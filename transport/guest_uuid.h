/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetExportTable() of the guest library knows this UUID, and no driver does: a worker
 * that finds a libcuda.so.1 can tell that it is not the GPU's.
 */
#ifndef WEFT_GUEST_UUID_H
#define WEFT_GUEST_UUID_H

#include <stdint.h>

static const uint8_t guest_uuid[16] = {0x5d, 0x1f, 0x3a, 0x90, 0x0c, 0x6e, 0x47, 0xb2,
				       0x9b, 0x44, 0x77, 0x65, 0x66, 0x74, 0x01, 0xe8};

#endif
