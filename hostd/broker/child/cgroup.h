/* SPDX-License-Identifier: Apache-2.0 */
/* Cgroups: one for each tenant, for what weftd's own accounts cannot bound. */
#ifndef WEFT_BROKER_CGROUP_H
#define WEFT_BROKER_CGROUP_H

#include <sys/types.h>

struct broker;
struct tenant;

/* Opens the subtree that is ours, if there is one, as b->cgroup; moves this process into
 * a leaf of it. Logs what it finds. */
void cgroups_open(struct broker *b);
/* Makes a tenant's cgroup, t->cgroup, with its limits. Failures are logged. */
void cgroup_new(struct tenant *t);
/* Sets a cgroup's limits: the tenant's have changed, or the device is known. */
void cgroup_limits(const struct tenant *t);
/* Moves a process into a tenant's cgroup, in a moment. */
void cgroup_enter(const struct tenant *t, pid_t pid);
/* Removes a tenant's cgroup; all its processes have ended. */
void cgroup_end(struct tenant *t);

#endif
