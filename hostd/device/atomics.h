/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics of system scope in code: those that are to be atomic with what the host's processors do
 * to the same word. Over the bus none are, so memory that they are for is not both sides' at once
 * (memory/managed.h).
 *
 * Reads foreign bytes. Any thread.
 */
#ifndef WEFT_DEVICE_ATOMICS_H
#define WEFT_DEVICE_ATOMICS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the code in an image (device_module_ops.load) that a GPU of compute capability sm (90:
 * 9.0) takes has any: its machine code, or the PTX that would be compiled. False also where that
 * cannot be read, and of what comes after 64 MiB of code. */
bool atomics_of_system(const void *image, size_t size, unsigned sm);

#endif
