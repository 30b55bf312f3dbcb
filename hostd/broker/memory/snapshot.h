/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of the ledger: what placement policies are told, and what follows from it. */
#ifndef WEFT_BROKER_SNAPSHOT_H
#define WEFT_BROKER_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "policies/placement.h"

struct broker;
struct tenant;
struct worker;

struct snapshot {
	struct placement_device device;
	struct placement_tenant *tenants; /* by tenant.index */
	uint32_t n;
};

/* As a time: nobody is busy, whatever happened last. */
#define SNAPSHOT_QUIET UINT64_MAX

/* As all is now; good until the next call. Returns 0 or -ENOMEM. */
int snapshot_read(struct broker *b, uint64_t now_ns, struct snapshot *ret);
/* Works out everybody's share, for who asks of many; good as long as the numbers are. */
void snapshot_share(struct broker *b, struct snapshot *now);
/* Of a tenant, sessions that could give way or (comes) get memory back; NULL: none. */
struct worker *snapshot_session(struct tenant *t, bool comes, uint64_t now_ns,
				struct placement_session *ret_session);
/* What could leave a worker's device memory now, as far as it is believed. */
uint64_t snapshot_movable(const struct worker *w, uint64_t now_ns);
/* Until then what could move may be more than workers have written so far; 0: it is not.
 */
uint64_t snapshot_late_until(const struct broker *b);
/* Of what is free, what does not come back although it fits: a moment ago it did not. */
uint64_t snapshot_kept(const struct broker *b, const struct snapshot *now,
		       uint64_t now_ns);
/* What an allocation of at most that size would get if others gave way for it, and the
 * rest of it were in host memory. */
uint64_t snapshot_within_reach(struct tenant *t, uint64_t at_most);

#endif
