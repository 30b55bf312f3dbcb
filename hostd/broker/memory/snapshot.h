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

/* Time at which nobody counts as busy, whatever happened last. */
#define SNAPSHOT_QUIET UINT64_MAX

/* Reads the ledger as it is now; *ret is good until the next call. Returns 0 or -ENOMEM.
 */
int snapshot_read(struct broker *b, uint64_t now_ns, struct snapshot *ret);
/* Works out all tenants' shares at once, for callers that ask for many; good as long as
 * the snapshot is. */
void snapshot_share(struct broker *b, struct snapshot *now);
/* Session of a tenant that is to be evicted, or (comes) to get memory back; NULL: none.
 * */
struct worker *snapshot_session(struct tenant *t, bool comes, uint64_t now_ns,
				struct placement_session *ret_session);
/* Memory of a worker that its next turn does without, as far as it is believed: on the device, and
 * in host memory. */
uint64_t snapshot_cold(const struct worker *w);
uint64_t snapshot_cold_out(const struct worker *w);
/* Memory that could leave the device from a worker now, as far as it is believed. */
uint64_t snapshot_movable(const struct worker *w, uint64_t now_ns);
/* Time until which more could move than workers have written so far; 0: no more could. */
uint64_t snapshot_late_until(const struct broker *b);
/* Free bytes that are not used for restoring, because memory was scarce a moment ago. */
uint64_t snapshot_kept(const struct broker *b, const struct snapshot *now,
		       uint64_t now_ns);
/* Bytes, at most at_most, that an allocation would get if others were evicted for it, and
 * the rest of it were in host memory. */
uint64_t snapshot_within_reach(struct tenant *t, uint64_t at_most);

#endif
