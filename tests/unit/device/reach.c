/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that lets kernels address their process's memory is not used. */
#define CUDA_ENABLE_DEPRECATED /* texture references, in the table of functions */
#include <criterion/criterion.h>
#include <errno.h>

#include "device/cuda/driver.h"
#include "device/cuda/reach.h"

static int hmm, ats;
static CUresult result;

static CUresult CUDAAPI attribute(int *value, CUdevice_attribute attr, CUdevice dev)
{
	if (result)
		return result;
	cr_assert(
		attr == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS ||
		attr == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
	*value = attr == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS ? hmm : ats;
	return CUDA_SUCCESS;
}

Test(device_reach, a_device_that_reaches_all_memory_is_refused)
{
	cu.cuDeviceGetAttribute = attribute;
	cr_expect_eq(cuda_reach_check(0), 0);
	hmm = 1;
	cr_expect_eq(cuda_reach_check(0), -EPERM);
	hmm = 0;
	ats = 1;
	cr_expect_eq(cuda_reach_check(0), -EPERM);
	ats = 0;
	result = CUDA_ERROR_UNKNOWN;
	cr_expect_eq(cuda_reach_check(0), -EPERM, "a driver that does not tell");
	result = 0;
	cr_expect_eq(cuda_reach_check(0), 0);
}
