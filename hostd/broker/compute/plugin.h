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
struct time_tenant;

#define PLUGIN_LIMIT_NS (50 * NSEC_PER_MSEC)

/* Finds a policy by its name, or, if that is a path, loads it. NULL: there is none, and
 * *ret_why is a malloced sentence, the caller's. Before rights are given up. */
const struct time_policy *plugin_find(const char *name, char **ret_why);

/* Asks the policy in use, as policies/time.h has its functions; *ret_us and *ret_go are
 * good whatever it did. */
void plugin_slices(struct broker *b, const struct time_tenant *t, uint32_t n,
		   uint32_t *ret_us);
void plugin_turns(struct broker *b, const struct time_tenant *t, uint32_t n,
		  bool *ret_go);

#endif
