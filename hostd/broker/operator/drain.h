/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining a tenant, or weftd: sessions that run go on, and none begins. Programs that
 * come, and those that wait, are refused with a reason. weftd's thread only.
 */
#ifndef WEFT_BROKER_DRAIN_H
#define WEFT_BROKER_DRAIN_H

#include <stdbool.h>

struct broker;
struct tenant;

/* Begins to drain, or ends that, and tells operators by whom. */
void drain_tenant(struct tenant *t, bool on, const char *by);
void drain_all(struct broker *b, bool on, const char *by);
/* A session of the tenant has ended: tells operators if that was the last one. */
void drain_ended(struct tenant *t);

#endif
