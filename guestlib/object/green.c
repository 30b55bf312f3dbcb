/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/process.h"
#include "object/green.h"

#define MARK 0x6e65657267746677ull

static unsigned n_tpcs(void)
{
	int sms =
		guest_process.device.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];

	return MIN((unsigned)MAX(sms, 0) / 2, (unsigned)GREEN_TPCS);
}

void green_all(uint64_t ret_tpcs[2])
{
	unsigned n = n_tpcs();

	for (unsigned i = 0; i < 2; i++) {
		ret_tpcs[i] = n >= 64 ? UINT64_MAX : (1ull << n) - 1;
		n -= MIN(n, 64u);
	}
}

unsigned green_count(const uint64_t tpcs[2])
{
	return (unsigned)(__builtin_popcountll(tpcs[0]) + __builtin_popcountll(tpcs[1]));
}

void green_write(CUdevResource *resource, const uint64_t tpcs[2], unsigned aligned,
		 uint32_t split)
{
	struct green_sms sms = {.mark = MARK, .tpcs = {tpcs[0], tpcs[1]}, .split = split};

	static_assert(sizeof(sms) <= sizeof(resource->_internal_padding), "has room");
	memset(resource, 0, sizeof(*resource));
	memcpy(resource->_internal_padding, &sms, sizeof(sms));
	resource->type = CU_DEV_RESOURCE_TYPE_SM;
	resource->sm.smCount = 2 * green_count(tpcs);
	resource->sm.minSmPartitionSize = resource->sm.smCoscheduledAlignment = aligned;
}

CUresult green_read(const CUdevResource *resource, struct green_sms *ret)
{
	uint64_t all[2];

	if (!resource || resource->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	memcpy(ret, resource->_internal_padding, sizeof(*ret));
	green_all(all);
	if (ret->mark != MARK || ret->tpcs[0] & ~all[0] || ret->tpcs[1] & ~all[1])
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	return CUDA_SUCCESS;
}
