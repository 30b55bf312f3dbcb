/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of a session that another weftd has begun; keep/resume.c. */
#ifndef WEFT_BROKER_ADOPT_H
#define WEFT_BROKER_ADOPT_H

#include <stdint.h>

struct book_worker;
struct msg_resumed;
struct tenant;
struct worker;

/* Charges a worker and its tenant with all that the books say, which is at least what it
 * has; w->tenant is set. */
void account_adopt(struct worker *w, const struct book_worker *k);
/* Charges it with what it has instead, device and worker memory. Returns 0, or -EPROTO: it
 * claims more than it was granted. */
int account_resumed(struct worker *w, const struct msg_resumed *r);
/* Charges host memory that it has; in a window at that place. Returns 0 or -EPROTO. */
int account_host_adopt(struct worker *w, uint64_t offset, uint64_t bytes);
/* Moves the charge for a share back to the worker that let go of it, or to a tenant from
 * nobody. */
void account_share_back(struct worker *w, uint64_t here, uint64_t evicted);
void account_share_adopt(struct tenant *t, uint64_t here, uint64_t evicted);

#endif
