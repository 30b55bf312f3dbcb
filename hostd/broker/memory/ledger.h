/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of device memory: granted to workers (account.c, account_charge.c), or
 * evicted in host memory (evicted.c). Exact for each worker, each tenant and the device
 * at any moment. Bytes everywhere; weftd's thread only.
 */
#ifndef WEFT_BROKER_LEDGER_H
#define WEFT_BROKER_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct conf_memory;
struct tenant;
struct worker;

/* Charges a worker that is ready with what its context takes. */
void account_ready(struct worker *w, uint64_t overhead);
/* Moves a worker's charge to the tenant that it is to serve. Returns 0, or as
 * account_may(). */
int account_attach(struct worker *w, struct tenant *t);
/* Notes that a worker is on its way out: others that need its memory wait for that,
 * as without Weft it would be free the moment its program has gone. */
void account_ending(struct worker *w, uint64_t now_ns);
/* Uncharges the context of a worker that will only monitor; before account_attach(). */
void account_monitor(struct worker *w);
/* Opens the page's credit of a worker that has come into state WORKER_SESSION. */
void account_begin(struct worker *w);
/* Releases all memory of a worker, once, after its process has ended. */
void account_end(struct worker *w);

/* Charges a session with more device memory; part: some of it may be in host memory.
 * Returns 0, -EDQUOT (tenant's limit), -ENOMEM (the device is full, or no larger) or
 * -EAGAIN (the device is full, but something could move out). */
int account_charge(struct worker *w, uint64_t bytes, bool part);
/* Charges bytes, of which at most `here` are granted on the device; *ret_evicted, the
 * rest, is spilled. Returns 0, -EDQUOT or -ENOMEM (no host memory for the
 * rest). */
int account_charge_part(struct worker *w, uint64_t bytes, uint64_t here,
			uint64_t *ret_evicted);
/* Checks bytes against the limit of the worker's tenant and charges nothing. Returns 0,
 * -EDQUOT, -ENOMEM (no limit, and more than the device has) or -EAGAIN (not known before
 * a move has ended). */
int account_may(struct worker *w, uint64_t bytes);
/* Takes back all that is granted ahead of use; returns what is free on the device. */
uint64_t account_gather(struct broker *b);

/* Device memory in use now, exactly. */
uint64_t account_worker(const struct worker *w);
uint64_t account_tenant(const struct tenant *t);
uint64_t account_device(const struct broker *b);
/* Peak of account_tenant(); while several sessions run, the most that was seen. */
uint64_t account_peak(struct tenant *t);

/* Changes a tenant's limits; copies m. Memory above them stays, but none is added. */
void account_set(struct tenant *t, const struct conf_memory *m);
/* Free and total memory as a tenant's programs are told; free is less by up to a 64th of
 * the device where others limit it. */
void account_left(struct tenant *t, uint64_t *ret_free, uint64_t *ret_total);
/* Free memory of the device, with what is granted ahead of use. */
uint64_t account_free(const struct broker *b);
/* Takes over the size of the device from a worker that has opened it. */
void account_open(struct broker *b, uint64_t total);
/* Memory kept for workers that wait for guests or are about to; *ret_missing of it is not
 * there. */
uint64_t account_set_aside(const struct broker *b, uint64_t *ret_missing);

/* Moves the charge for a share from a worker that lets go of it to its tenant. Returns
 * how much that is, for account_share_end() when the share is gone. */
uint64_t account_share(struct worker *w, uint64_t bytes);
void account_share_end(struct tenant *t, uint64_t bytes);

/* ---- evicted.c: memory that has moved out ---- */

/* Room: how much more of a tenant's memory may be evicted. */
uint64_t evicted_room(const struct tenant *t);
/* Books memory that is spilled; for account_charge.c. */
void spilled(struct worker *w, uint64_t bytes);
/* Books what has moved out, as the worker says; returns how much of it is believed. */
uint64_t evicted_left(struct worker *w, uint64_t bytes);
/* Ends a move out: nothing more will leave. */
void evicted_left_all(struct worker *w);
/* Books what was freed while evicted. */
void evicted_freed(struct worker *w, uint64_t bytes);
/* Grants device memory for what is evicted. Returns 0 or -EAGAIN (the device is full). */
int evicted_return(struct worker *w, uint64_t bytes);
/* Books what came back of what evicted_return() granted; the rest is given up. */
void evicted_returned(struct worker *w, uint64_t bytes);
/* Books what a worker has evicted, freed before it has left, and was granted to bring back,
 * of which it has freed some since; instead of what was booked. */
void evicted_adopt(struct worker *w, uint64_t evicted, uint64_t early,
		   uint64_t returning);
/* Forgets all that a worker has evicted; it has ended. */
void evicted_drop(struct worker *w);
/* Memory of a worker that could come back and is not on its way yet. */
uint64_t evicted_waiting(const struct worker *w);
/* Moves the charge for memory that is evicted, otherwise like account_share(). */
uint64_t evicted_share(struct worker *w, uint64_t bytes);
void evicted_share_end(struct tenant *t, uint64_t bytes);

#endif
