/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy of time in use: one of policies/time.h, or one of the operator's own, from a
 * shared object. That one is as trusted as weftd, whose process it runs in, but what it gets
 * wrong harms nobody: one that crashes, or takes longer than PLUGIN_LIMIT_NS, is not asked
 * again, and `fair` decides in its place; slices and turns that would leave somebody with
 * nothing are mended. It is loaded apart from the libraries of weftd, so that it leaves none
 * of their locks taken. weftd's thread only.
 */
#ifndef WEFT_BROKER_PLUGIN_H
#define WEFT_BROKER_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct broker;
struct time_policy;

#define PLUGIN_LIMIT_NS (50 * NSEC_PER_MSEC)

/* Finds a policy by its name, or, if that is a path, loads it. NULL: there is none, and
 * *ret_why is a malloced sentence, the caller's. Before rights are given up. */
const struct time_policy *plugin_find(const char *name, char **ret_why);

/* Makes room in b->asked for all tenants; *ret_n: how many there are. False: there is not
 * enough memory. */
bool plugin_room(struct broker *b, uint32_t *ret_n);
/* Frees it. */
void plugin_fini(struct broker *b);

/* Asks the policy in use about b->asked.tenants, n of them, as policies/time.h has its
 * functions; b->asked.us and b->asked.turns are good afterwards, whatever it did. */
void plugin_slices(struct broker *b, uint32_t n);
void plugin_turns(struct broker *b, uint32_t n);

#endif
