/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filler: a worker that waits for a guest and takes the device's time meanwhile, so that
 * a tenant that has had its quota does not, whose kernel does not end in time: nobody can
 * take the device away from it but somebody who wants it. weftd's thread only.
 */
#ifndef WEFT_BROKER_FILLER_H
#define WEFT_BROKER_FILLER_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct worker;

/* Begins to fill, if there is a worker for it, or ends that. */
void filler_set(struct broker *b, bool on);
/* Whether a worker fills now: to begin may take it a tenth of a second. */
bool filler_works(const struct broker *b);
/* Has a worker that fills stop, for it is to serve a guest. */
void filler_give_up(struct worker *w);
/* Forgets a worker that has ended. */
void filler_forget(struct worker *w);

#endif
