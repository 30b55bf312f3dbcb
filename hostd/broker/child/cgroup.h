/* SPDX-License-Identifier: Apache-2.0 */
/* Cgroups: one for each tenant, for what weftd's own accounts cannot bound. */
#ifndef WEFT_BROKER_CGROUP_H
#define WEFT_BROKER_CGROUP_H

#include <sys/types.h>

struct broker;
struct tenant;

/* Opens the subtree that is ours, if there is one: b->cgroup. Says so in the log. Moves
 * this process into a leaf of it. */
void cgroups_open(struct broker *b);
/* Makes a tenant's, with its limits: t->cgroup. What fails is logged. */
void cgroup_new(struct tenant *t);
/* Its limits have changed, or the device is known. */
void cgroup_limits(const struct tenant *t);
/* Moves a process into it, in a moment. */
void cgroup_enter(const struct tenant *t, pid_t pid);
/* Removes it; all processes have ended. */
void cgroup_end(struct tenant *t);

#endif
