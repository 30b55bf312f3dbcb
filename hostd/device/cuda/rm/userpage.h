/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the driver library's (cuMemCreate) that is made of pages which this process has
 * mapped, and may share with a guest. The library has no call for that: it can register such
 * pages, at the one address where they are, or make host memory of its own, which can be
 * mapped at any. The kernel's resource manager knows both as memory objects; where the
 * library asks for one of the second kind it gets one of the first
 * (hostd/doc/decisions/0030-managed-pieces.md).
 */
#ifndef WEFT_DEVICE_CUDA_USERPAGE_H
#define WEFT_DEVICE_CUDA_USERPAGE_H

#include <stdbool.h>

#include "device/cuda/rm/rm.h"

/* The next host memory that the calling thread's calls make the library ask for, of exactly
 * that size, is to be these pages: readable, writable, whole. */
void cuda_userpage_begin(void *pages, uint64_t size);
/* No more. Returns true if the kernel has made some of them. */
bool cuda_userpage_end(void);

/* The library asks for host memory. Returns true if that is, or was to be, pages of the
 * calling thread's: then *ret is ioctl()'s result. Any thread. */
bool cuda_userpage_alloc(unsigned long request, struct rm_alloc *a, long *ret);

/* The library has a file of a device's open, of which such pages are asked. */
void cuda_userpage_saw(int fd);
/* Whether one was seen; registering any memory shows one. */
bool cuda_userpage_ready(void);

#endif
