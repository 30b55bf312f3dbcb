/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of physical memory (cuMemCreate). */
#ifndef WEFT_GUEST_VMM_H
#define WEFT_GUEST_VMM_H

#include <stdatomic.h>

#include "core/guest.h"

struct guest_chunk {
	_Atomic unsigned refs;
	uint64_t id; /* of the memory itself, at the worker */
	CUmemAllocationProp prop;
};

/* Another handle for the memory with that number, with these properties.
 * CUDA_ERROR_INVALID_VALUE: it is gone. */
CUresult vmm_import(struct guest_thread *t, uint64_t id, const CUmemAllocationProp *prop,
		    CUmemGenericAllocationHandle *ret_handle);

/* A name that vmm_open() of another process of the tenant takes. */
CUresult vmm_export(struct guest_thread *t, CUmemGenericAllocationHandle handle,
		    uint64_t ret_name[2]);
CUresult vmm_open(struct guest_thread *t, const uint64_t name[2],
		  const CUmemAllocationProp *prop,
		  CUmemGenericAllocationHandle *ret_handle);

#endif
