/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: how many of their kernels' blocks sessions of class shared may have on an SM, while
 * several have kernels on the device at once, by a policy (policies/blocks.h) and by what workers
 * say of their kernels; told by their pages. weftd's thread only.
 */
#ifndef WEFT_BROKER_BLOCKS_H
#define WEFT_BROKER_BLOCKS_H

#include <stdint.h>

struct broker;

/* Decides anew. When it was just looked who has work (compute/pace.c). */
void blocks_look(struct broker *b, uint64_t now_ns);

#endif
