/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that a program is to see, and the text that names a device. */
#ifndef WEFT_GUEST_DEVICE_VISIBLE_H
#define WEFT_GUEST_DEVICE_VISIBLE_H

#include <stdint.h>

/*
 * Counts the devices that CUDA_VISIBLE_DEVICES leaves visible of the one there is: 0 or
 * 1. spec is the variable's value (NULL: unset, all visible). As in CUDA: a list of
 * ordinals or of beginnings of "GPU-<uuid>"; the first entry that names nothing ends the
 * list.
 */
unsigned device_visible(const char *spec, const uint8_t uuid[16]);

/* Room for "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" and its NUL. */
#define DEVICE_UUID_TEXT 41

/* Writes "GPU-" and the uuid, as nvidia-smi shows them. */
void device_uuid_text(const uint8_t uuid[16], char ret_text[DEVICE_UUID_TEXT]);

#endif
