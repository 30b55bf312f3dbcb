/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: the books of a space. What is charged to the tenant is charged by
 * weftd first (ipc/accounts.h), then booked here, then told in the worker's page.
 *
 * space_charge(), space_uncharge() and space_usage() of space.h lie here, too.
 */
#ifndef WEFT_MEM_LEDGER_H
#define WEFT_MEM_LEDGER_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct space;

/* Charges bytes, of which *ret_evicted are to lie in host memory; spare: those that nobody within
 * its share gives. Without space.lock: waits. CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY. */
CUresult ledger_charge_part(struct space *sp, uint64_t bytes, bool spare,
			    uint64_t *ret_evicted);

/* Takes off the books what weftd has taken back by itself. */
void ledger_unbook_locked(struct space *sp, uint64_t bytes);

/* Gives charges back: of memory on the device, of memory that is evicted, of both. */
void ledger_uncharge_locked(struct space *sp, uint64_t bytes);
void ledger_uncharge_evicted_locked(struct space *sp, uint64_t bytes);
void ledger_uncharge_part_locked(struct space *sp, uint64_t bytes, uint64_t evicted);

/* Writes use and residency into the worker's page. */
void ledger_publish_locked(struct space *sp);

#endif
