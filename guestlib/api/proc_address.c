/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress: functions by name, version and kind of default stream. */
#include <errno.h>

#include "base/log.h"
#include "gen/proc.h"
#include "core/guest.h"
#include "core/process.h"

#define FLAGS_KNOWN                                                                      \
	((cuuint64_t)CU_GET_PROC_ADDRESS_LEGACY_STREAM |                                 \
	 CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

/*
 * Needs neither cuInit nor a host: runtimes look everything up before they begin. Like
 * the driver's (measured: 580), succeeds with a NULL pointer and a status when there is
 * no such function; an error would make cudaGetDriverEntryPoint fail where it must not.
 */
CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
				     cuuint64_t flags,
				     CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	int r;

	if (!symbol || !pfn || (flags & ~FLAGS_KNOWN) || version > GUEST_DRIVER_VERSION)
		return CUDA_ERROR_INVALID_VALUE;
	r = proc_find(symbol, version, per_thread, pfn);
	if (r < 0) {
		*pfn = NULL;
		found = r == -ERANGE ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				     : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
		log_debug("cuGetProcAddress: no %s for %d", symbol, version);
	}
	if (status)
		*status = found;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version,
				  cuuint64_t flags)
{
	CUresult r = cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);

	return r == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : r;
}
