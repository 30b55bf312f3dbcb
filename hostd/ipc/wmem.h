/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker memory: what a guest makes its worker hold in the host's own memory, as code,
 * graphs, copies on their way and tables of its objects. All of it is charged to the
 * tenant (worker.memory.max in weftd.conf(5)); most charges come out of what weftd has
 * granted ahead (ipc/credit.h) and cost no message.
 *
 * A charge may wait for weftd: no lock is held that the worker's main thread could want.
 */
#ifndef WEFT_IPC_WMEM_H
#define WEFT_IPC_WMEM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/macros.h"
#include "ipc/accounts.h"

/* Charges bytes. Returns 0 or -EDQUOT: answer CUDA_ERROR_OUT_OF_MEMORY. */
static inline int wmem_take(const struct accounts *b, uint64_t bytes)
{
	return b->wmem_charge ? b->wmem_charge(b->arg, bytes) : 0;
}

static inline void wmem_put(const struct accounts *b, uint64_t bytes)
{
	if (b->wmem_uncharge && bytes)
		b->wmem_uncharge(b->arg, bytes);
}

/* Small things of which there may be many: paid for so many at a time, and for as many
 * as there were at most. */
#define WMEM_MANY 4096u

struct wmem_many {
	_Atomic uint64_t paid;
};

/* Charges for one more thing of `each` bytes, beside n of them. Returns as wmem_take()
 * does. */
static inline int wmem_many(const struct accounts *b, struct wmem_many *m, uint64_t n,
			    uint64_t each)
{
	int r;

	if (likely(n < atomic_load_explicit(&m->paid, memory_order_relaxed)))
		return 0;
	r = wmem_take(b, WMEM_MANY * each);
	if (r == 0)
		atomic_fetch_add_explicit(&m->paid, WMEM_MANY, memory_order_relaxed);
	return r;
}

#endif
