/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of the host's memory: shared with the device, and what workers hold. */
#ifndef WEFT_BROKER_ACCOUNT_HOST_H
#define WEFT_BROKER_ACCOUNT_HOST_H

#include <stdint.h>

struct tenant;
struct worker;

/* Bytes that a lane's ring, stack and thread take. */
#define ACCOUNT_WMEM_LANE (1ull << 20)

/* Charges host memory, up to host.max; *ret_offset is its place in the VM's window, or 0.
 * Returns 0, -EDQUOT or -ENOSPC (the window is full). */
int account_host_charge(struct worker *w, uint64_t bytes, uint64_t *ret_offset);
void account_host_uncharge(struct worker *w, uint64_t offset, uint64_t bytes);
/*
 * Worker memory: what guests make their workers hold. Granted some MiB ahead of use, up
 * to worker.memory.max; what is ahead is taken back before anybody is refused. Returns 0
 * or -EDQUOT.
 */
int account_wmem_charge(struct worker *w, uint64_t bytes);
/* Charges the worker memory of one more lane. Returns 0 or -EDQUOT. */
int account_wmem_lane(struct worker *w);
/* Lanes, those on their way to the worker included; as workers say. */
unsigned account_lanes(const struct worker *w);
unsigned account_lanes_tenant(const struct tenant *t);
/* Worker memory in use now, in bytes, as workers say. */
uint64_t account_wmem(const struct worker *w);
uint64_t account_wmem_tenant(const struct tenant *t);

/* Releases all memory of the worker, of both kinds; it has ended. */
void account_host_drop(struct worker *w);

#endif
