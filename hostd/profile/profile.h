/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's calls of the driver, as far as its profile needs them. Allocations become managed
 * memory; a launch of a kernel begins with all of it on the host, so that what moves to the device
 * is what the kernel reaches. Any thread; kernels run one after the other.
 */
#ifndef WEFT_PROFILE_PROFILE_H
#define WEFT_PROFILE_PROFILE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

/* A function of the driver's own, by the name under which libcuda exports it. Ends the process if
 * it has none. */
void *driver_function(const char *name);
#define DRIVER(name) ((__typeof__(&(name)))driver_function(#name))

/* Ends the process, since its profile cannot be had. */
_Noreturn void profile_end(const char *fmt, ...) _printf_(1, 2);

/* After cuInit. */
void profile_begin(void);

/* Managed memory for the program; flags as cuMemAllocManaged() has them. */
CUresult profile_alloc(CUdeviceptr *ret, size_t size, unsigned flags);
/* Releases what profile_alloc() gave, once the device is idle; false: this is none of it. */
bool profile_free(CUdeviceptr p, CUresult *ret);

/* Code of a module or library: as loaded, or as another handle has it. */
void profile_code(const void *owner, const void *image);
void profile_code_of(const void *owner, const void *other);
/* A kernel, or a function of the driver's older kind, by its name in the code of its owner. */
void profile_function(const void *handle, const void *owner, const char *name,
		      bool is_kernel);
/* The function of a kernel. */
void profile_function_of(const void *handle, const void *kernel);

/* Before and after the driver's own launch: no other one begins meanwhile. */
struct profile_launch {
	const void *function;
	unsigned blocks[3], threads[3];
	CUstream stream;
	void **params, **extra;
};

void profile_launch_begin(const struct profile_launch *l);
void profile_launch_end(CUresult result);

#endif
