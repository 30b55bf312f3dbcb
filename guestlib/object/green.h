/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: the primary context with some of its SMs. They live in the guest: their
 * streams tell the worker which TPCs (pairs of SMs) their kernels run on, by number among those
 * that the tenant has. As a CUcontext one has a shadow of its own (context.h); what is made
 * while that is current is the primary context's.
 */
#ifndef WEFT_GUEST_GREEN_H
#define WEFT_GUEST_GREEN_H

#include "core/guest.h"

#define GREEN_TPCS 128 /* at most */

struct guest_ctx;

struct guest_green {
	uint64_t handle;
	uint64_t stream; /* its default stream */
	uint64_t tpcs[GREEN_TPCS / 64];
	uint64_t id;
};

/* SMs as CUdevResource has them, in its padding. */
struct green_sms {
	uint64_t mark; /* MARK: it was made here */
	uint64_t tpcs[GREEN_TPCS / 64];
	uint32_t split; /* number of the split that it comes from; 0: none */
	uint32_t pad;
};

/* Writes a resource. split: as above. */
void green_write(CUdevResource *resource, const uint64_t tpcs[2], unsigned aligned,
		 uint32_t split);
/* Reads one that was made here, or INVALID_RESOURCE_TYPE. */
CUresult green_read(const CUdevResource *resource, struct green_sms *ret);

/* All TPCs of the device as the program sees it. */
void green_all(uint64_t ret_tpcs[2]);
unsigned green_count(const uint64_t tpcs[2]);

#endif
