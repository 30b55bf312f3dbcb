/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TPCs: which ones the kernels of each tenant run on, by what is asked for (policies/space.h)
 * and where they are, which the first worker says. Decided anew when tenants come and go,
 * and when their keys change; sessions are told before they begin, and afterwards at once.
 * weftd's thread only.
 */
#ifndef WEFT_BROKER_TPCS_H
#define WEFT_BROKER_TPCS_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct msg_tpc_map;
struct space_set;
struct tenant;
struct worker;

/* A worker has found where they are. Returns 0, or -EPROTO: that cannot be. */
int tpcs_found(struct broker *b, const struct msg_tpc_map *m);
/* Whether nobody has said yet. */
bool tpcs_unknown(const struct broker *b);
/* Something has changed: they are decided in the next round of the loop. */
void tpcs_due(struct broker *b);
/* The TPCs that a tenant has, as decided by now; empty: nobody knows. */
const struct space_set *tpcs_of(struct tenant *t);
/* Timer (loop.h): decides, and tells the sessions whose TPCs have changed. */
uint64_t tpcs_tick(void *broker, uint64_t now_ns);
/* Tells a worker whose session is about to begin. Returns 0 or -errno: it cannot be. */
int tpcs_begin(struct worker *w);
/* Frees what the timer needs. */
void tpcs_fini(struct broker *b);

#endif
