/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/log.h"
#include "base/macros.h"
#include "device/cuda/driver.h"
#include "device/cuda/reach.h"

int cuda_reach_check(CUdevice dev)
{
	static const CUdevice_attribute ways[] = {
		CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
		CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
	};

	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++) {
		int reaches = 1;

		if (cu.cuDeviceGetAttribute(&reaches, ways[i], dev) || reaches) {
			log_error("cuda: kernels on this GPU can address all memory of "
				  "their process (%s), so a guest could read and write "
				  "its worker: load nvidia_uvm with %s",
				  i ? "ATS" : "HMM",
				  i ? "uvm_ats_mode=0" : "uvm_disable_hmm=1");
			return -EPERM;
		}
	}
	return 0;
}
