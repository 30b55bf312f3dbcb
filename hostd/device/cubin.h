/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code of NVIDIA's as an ELF file, as far as managed memory is concerned: variables there,
 * symbols with a flag of their own (STO_CUDA_MANAGED), whose addresses code takes from constant
 * banks, into which the driver's loader writes them by relocations. What is placed has its
 * address there already, and is an ordinary variable that nobody uses to the loader.
 *
 * Reads foreign bytes: every offset is checked before it is used.
 */
#ifndef WEFT_DEVICE_CUBIN_H
#define WEFT_DEVICE_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

#include "device/jit.h"

/* Lists such variables, as device_module_ops.managed. Returns 0, -EBADMSG (it is no such file) or
 * -ENOMEM. */
int cubin_managed(const void *elf, size_t len, struct dev_managed **ret, unsigned *ret_n);

/* Places them: writes their addresses wherever code takes them from. Returns 0; -ENOTSUP: code has
 * an address in a form that is not known, or there is one that is not in v; -EBADMSG. On failure the
 * file may have changed. */
int cubin_place(void *elf, size_t len, const struct dev_managed *v, unsigned n);

/* Whether its instructions, those of a GPU of compute capability sm (90: 9.0), have atomics of system
 * scope. False also of what is no such file. */
bool cubin_has_system_atomics(const void *elf, size_t len, unsigned sm);

/* Finds the first value of a variable, v->bytes long; NULL: it is zero. */
const void *cubin_value(const void *elf, size_t len, const struct dev_managed *v);

#endif
