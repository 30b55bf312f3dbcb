/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: which parts of a piece that leaves have changed since they left last. Host
 * memory that they came back from keeps their contents as long as nobody needs it (hostpool.h);
 * digests (device/digest.h) say whether it still has what is to leave.
 */
#ifndef WEFT_MEM_CHANGES_H
#define WEFT_MEM_CHANGES_H

#include "memory/transfer.h"

/* Has the transfer wait for digests of its parts, if that is worth while; false: it is not. */
bool changes_begin(const struct mover *mv, struct transfer *t);
/* The parts, one for each host piece, as ranges; ret has room for t->n_host. */
void changes_ranges(const struct transfer *t, struct digest_range *ret);
/* The digests are there, or (NULL) could not be had: copies may begin. Returns how many bytes need
 * none. */
uint64_t changes_known(struct transfer *t, const struct digest *d);
/* True if the i-th host piece has what is to be copied into it. */
bool changes_none(const struct transfer *t, unsigned i);
/* The host pieces have what left. */
void changes_note(struct transfer *t);
/* Or nobody knows what they have: kernels may write there, or copying failed. */
void changes_forget(struct transfer *t);

#endif
