/* SPDX-License-Identifier: Apache-2.0 */
/* The UUID of the software device. */
#ifndef WEFT_BROKER_UUID_H
#define WEFT_BROKER_UUID_H

#include <stdint.h>

/*
 * Makes 16 bytes from the machine's id in the file at path: always the same on a machine,
 * which a guest's programs may remember, and no way back to the id. Random ones if there
 * is no id.
 */
void uuid_make(const char *path, uint8_t *ret_uuid);

#endif
