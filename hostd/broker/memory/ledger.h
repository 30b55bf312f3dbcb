/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of device memory: granted to workers (account.c,
 * account_charge.c), or away in host memory (away.c). Exact for each worker, tenant and the device at any moment.
 */
#ifndef WEFT_BROKER_LEDGER_H
#define WEFT_BROKER_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct conf_memory;
struct tenant;
struct worker;

/* A worker is ready; its context takes so much. */
void account_ready(struct worker *w, uint64_t overhead);
/* It is to serve a tenant, which pays for that. Returns 0, or as account_may(). */
int account_attach(struct worker *w, struct tenant *t);
/* It is on its way out. Natively a program's memory is free when the program has gone; a
 * worker takes a moment longer, for which others wait that need the memory. */
void account_ending(struct worker *w, uint64_t now_ns);
/* Before it is attached: its context is dropped, for the session only monitors. */
void account_monitor(struct worker *w);
/* It is in state WORKER_SESSION now. */
void account_begin(struct worker *w);
/* It has ended: everything comes back. */
void account_end(struct worker *w);

/* A session wants more; part: of which some may be in host memory. Returns 0, -EDQUOT
 * (tenant's limit), -ENOMEM (the device is full, or no larger) or -EAGAIN (it is full,
 * but something could move out). */
int account_charge(struct worker *w, uint64_t bytes, bool part);
/* Grants at most so much `here`, on the device; the rest is away from the beginning.
 * Returns 0, -EDQUOT or -ENOMEM (there is no host memory for it). */
int account_charge_part(struct worker *w, uint64_t bytes, uint64_t here,
			uint64_t *ret_away);
/* That it may have it as far as its tenant's limit goes: 0, -EDQUOT, -ENOMEM if it has
 * no limit and would have more than the device, or -EAGAIN if that is not known before a
 * move has ended. */
int account_may(struct worker *w, uint64_t bytes);
/* Of the device: what nobody has. Takes back all that is granted ahead of use. */
uint64_t account_gather(struct broker *b);

/* What is in use now, exactly. */
uint64_t account_worker(const struct worker *w);
uint64_t account_tenant(const struct tenant *t);
uint64_t account_device(const struct broker *b);
/* The most that was; while several sessions run, the most that was seen. */
uint64_t account_peak(struct tenant *t);

/* Changes limits. What is above them stays, but nothing is added. */
void account_set(struct tenant *t, const struct conf_memory *m);
/* What its programs are told. Where others are what limits it, that is less by up to a
 * 64th of the device. */
void account_left(struct tenant *t, uint64_t *ret_free, uint64_t *ret_total);
/* Of the device: what nobody has, what is granted ahead of use included. */
uint64_t account_free(const struct broker *b);
/* How large the device is, as a worker says that has opened it. */
void account_open(struct broker *b, uint64_t total);
/* For workers that wait for guests or are about to, kept and missing. */
uint64_t account_set_aside(const struct broker *b, uint64_t *ret_missing);

/*
 * Memory of a share, which the worker has let go of, is the tenant's own from now on.
 * Returns how much that is; account_share_end() when it is gone.
 */
uint64_t account_share(struct worker *w, uint64_t bytes);
void account_share_end(struct tenant *t, uint64_t bytes);

/* ---- away.c: memory that has moved out ---- */

/* What more of a tenant's memory may be away. */
uint64_t away_room(const struct tenant *t);
/* For account.c: so much is charged and away. */
void away_born(struct worker *w, uint64_t bytes);
/* So much has moved out, as its worker says; returns how much of it is believed. */
uint64_t away_left(struct worker *w, uint64_t bytes);
/* And nothing more will. */
void away_left_all(struct worker *w);
/* Was freed while away. */
void away_freed(struct worker *w, uint64_t bytes);
/* Grants memory for what is away. Returns 0 or -EAGAIN (the device is full). */
int away_return(struct worker *w, uint64_t bytes);
/* So much of that came back; the rest is given up. */
void away_returned(struct worker *w, uint64_t bytes);
/* The worker has ended. */
void away_drop(struct worker *w);
/* What of a worker's memory could come back and is not on its way yet. */
uint64_t away_waiting(const struct worker *w);
/* As account_share(), of memory that is away. */
uint64_t away_share(struct worker *w, uint64_t bytes);
void away_share_end(struct tenant *t, uint64_t bytes);

#endif
