/* SPDX-License-Identifier: Apache-2.0 */
/* The device as the guest process sees it; all of it known since cuInit. */
#ifndef WEFT_GUEST_DEVICE_H
#define WEFT_GUEST_DEVICE_H

#include <cuda.h>
#include <stdint.h>

/*
 * How many devices CUDA_VISIBLE_DEVICES leaves visible of the one there is: 0 or 1. spec
 * is the variable's value (NULL: unset, all visible). As in CUDA: a list of ordinals or
 * of beginnings of "GPU-<uuid>"; the first entry that names nothing ends the list.
 */
unsigned device_visible(const char *spec, const uint8_t uuid[16]);

/* What calls say that need cuInit and a device of that number. */
CUresult device_check(CUdevice dev);

/* Room for "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" and its NUL. */
#define DEVICE_UUID_TEXT 41

void device_uuid_text(const uint8_t uuid[16], char ret_text[DEVICE_UUID_TEXT]);

#endif
