/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switches: the GPU notes each time that it takes up a context and when it lays it down, to the
 * nanosecond, and the kernel's resource manager hands such records to who asks for those of its
 * own user (NVIDIA's tools show them as context switches). That is how long a process has had
 * the engine that computes; the library has no call for it
 * (hostd/doc/decisions/0037-time-by-switches.md).
 */
#ifndef WEFT_DEVICE_CUDA_SWITCHES_H
#define WEFT_DEVICE_CUDA_SWITCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "device/cuda/rm/rm.h"

/* The library has a subdevice (NV20_SUBDEVICE_0), and, later, a group that computes: its device
 * is the one asked about. Any thread. */
void cuda_switches_saw_device(int fd, const struct rm_alloc *a);
void cuda_switches_saw_group(const struct rm_alloc *a);

/* Tells for how many ns contexts of this process have been on the engine, ever since they were
 * first seen to come or go; one that nobody else's work displaces stays there with nothing to
 * do. Returns false as long as that is not known, or the kernel does not tell. Some 20 us; one
 * thread. */
bool cuda_switches_had(uint64_t *ret_ns);

#endif
