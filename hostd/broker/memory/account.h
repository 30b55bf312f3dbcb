/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants, for those files of this folder that change the books; between
 * account_write_begin() and account_write_end(), which sessions that look meanwhile see.
 */
#ifndef WEFT_BROKER_ACCOUNT_H
#define WEFT_BROKER_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/workers.h"
#include "ipc/page.h"

struct broker;
struct tenant;

static inline struct credit *credit_of(const struct worker *w)
{
	return &w->count->credit;
}

static inline bool has_session(const struct worker *w)
{
	return w->state == WORKER_SESSION;
}

void account_write_begin(struct broker *b);
void account_write_end(struct broker *b);
/* Grants bytes, or ends a grant of as many, for the tenant's account and the device's. */
void account_grant(struct worker *w, uint64_t bytes);
void account_ungrant(struct worker *w, uint64_t bytes);
/* Takes back what is granted ahead to a worker. */
void account_take_back(struct worker *w);
/* Takes back what is granted ahead to a tenant's sessions; to all. */
void account_take_back_tenant(const struct tenant *t);
void account_take_back_all(struct broker *b);
/* Notes the most that a tenant has had in use. */
void account_sample(struct tenant *t);
/* Bytes: the tenant's limit, as far as it has one; what it may still have of that. */
uint64_t account_max(const struct tenant *t);
uint64_t account_room(const struct tenant *t);
/* True if the tenant will have more room in a moment. */
bool account_gets_room(const struct tenant *t);
/* Bytes that the tenant's programs see as the size of the device. */
uint64_t account_size(const struct tenant *t);
/* Bytes of the device that can be granted at once. */
uint64_t account_device_room(const struct broker *b);

#endif
