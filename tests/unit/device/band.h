/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Criterion's runner maps an arena at a random address, which may be within the band of
 * device addresses. A test program that opens a device includes this file once: it keeps
 * the band occupied until the tests run, and opens it with device_band_release().
 */
#ifndef WEFT_TEST_DEVICE_BAND_H
#define WEFT_TEST_DEVICE_BAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "device/device.h"

static bool device_band_held;

#ifndef __SANITIZE_THREAD__ /* there the runner is another, and so is the address space  \
			     */
__attribute__((constructor)) static void device_band_hold(void)
{
	void *want = (void *)(uintptr_t)DEVICE_BAND_BASE;

	device_band_held =
		mmap(want, DEVICE_BAND_SIZE, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
		     -1, 0) == want;
}
#endif

static inline void device_band_release(void)
{
	if (device_band_held)
		munmap((void *)(uintptr_t)DEVICE_BAND_BASE, DEVICE_BAND_SIZE);
	device_band_held = false;
}

#endif
