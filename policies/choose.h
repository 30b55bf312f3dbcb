/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to policies/: what the tables of placement are made of. The contracts are those
 * of struct placement.
 */
#ifndef WEFT_POLICIES_CHOOSE_H
#define WEFT_POLICIES_CHOOSE_H

#include "policies/placement.h"

bool placement_scarce(const struct placement_device *d, const struct placement_tenant *t,
		      uint32_t n);
uint64_t placement_share(const struct placement_device *d,
			 const struct placement_tenant *t, uint32_t n, uint32_t i);
void placement_shares(const struct placement_device *d, const struct placement_tenant *t,
		      uint32_t n, uint64_t *ret_share);
int placement_victim(const struct placement_device *d, const struct placement_tenant *t,
		     uint32_t n, uint32_t asks, uint64_t bytes,
		     struct placement_step *ret_step);
int placement_relieve(const struct placement_device *d, const struct placement_tenant *t,
		      uint32_t n, struct placement_step *ret_step);
int placement_returns(const struct placement_device *d, const struct placement_tenant *t,
		      uint32_t n, struct placement_step *ret_step);
uint32_t placement_session_leaves(const struct placement_session *s, uint32_t n);
uint32_t placement_session_comes(const struct placement_session *s, uint32_t n);
enum placement_where placement_where_idle(const struct placement_session *s);
enum placement_where placement_where_mapped(const struct placement_session *s);

/* Whether a is to be chosen before b. */
typedef bool choose_before(const struct placement_piece *a,
			   const struct placement_piece *b, uint64_t seed);

/* Puts the first ones in that order in front, passing over those that do not fit, until
 * they have `bytes` together, never more than `room`. Returns how many. */
size_t choose(struct placement_piece *c, size_t n, uint64_t bytes, uint64_t room,
	      uint64_t seed, choose_before *before);

#endif
