/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of physical memory (cuMemCreate). */
#ifndef WEFT_GUEST_VMM_H
#define WEFT_GUEST_VMM_H

#include <stdatomic.h>

#include "core/guest.h"

struct guest_mem {
	_Atomic unsigned refs;
	uint64_t id; /* of the memory itself, at the worker */
	CUmemAllocationProp prop;
};

/* Checks the properties of memory that is to be made: CUDA_SUCCESS, INVALID_VALUE,
 * INVALID_DEVICE or NOT_PERMITTED. *ret_host: it is the host's. */
CUresult vmm_check_prop(const CUmemAllocationProp *prop, bool *ret_host);

/* Has the worker make size bytes of memory, a multiple of guest_device.granularity, with
 * properties that were checked; the handle keeps a copy of them. */
CUresult vmm_create(struct guest_thread *t, size_t size, bool host,
		    const CUmemAllocationProp *prop,
		    CUmemGenericAllocationHandle *ret_handle);

/* Drops a reference to the memory; the last one waits for the worker. INVALID_VALUE: no
 * handle. */
CUresult vmm_release(struct guest_thread *t, CUmemGenericAllocationHandle handle);

/* Takes a reference to the memory that is mapped at a device's address: returns its
 * handle, or another one if that was released. */
CUresult vmm_retain_at(struct guest_thread *t, uint64_t addr,
		       CUmemGenericAllocationHandle *ret_handle);

/* Makes another handle for the memory with that number, with these properties.
 * CUDA_ERROR_INVALID_VALUE: the memory is gone. */
CUresult vmm_import(struct guest_thread *t, uint64_t id, const CUmemAllocationProp *prop,
		    CUmemGenericAllocationHandle *ret_handle);

/* Give memory a name, and open it by that name in another process of the tenant. */
CUresult vmm_export(struct guest_thread *t, CUmemGenericAllocationHandle handle,
		    uint64_t ret_name[2]);
CUresult vmm_open(struct guest_thread *t, const uint64_t name[2],
		  const CUmemAllocationProp *prop,
		  CUmemGenericAllocationHandle *ret_handle);

#endif
