/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that `swap` and memory.swap.max bound: what is evicted, and copies of what has come
 * back (memory/hostpool.h). Of these a session may have so much of what is left as it has of what
 * all have on the device: nobody else has anything to keep copies of. Bytes everywhere;
 * weftd's thread only.
 */
#ifndef WEFT_BROKER_SWAP_H
#define WEFT_BROKER_SWAP_H

#include <stdint.h>

struct broker;
struct tenant;
struct worker;

/* In use now. Copies are the worker's word, and no more than it was granted. */
uint64_t swap_worker(const struct worker *w);
uint64_t swap_tenant(const struct tenant *t);
uint64_t swap_device(const struct broker *b);
/* Tells all workers how much of copies they may have: a limit, what is evicted, or the number of
 * sessions has changed. */
void swap_tell_keep(const struct broker *b);

#endif
