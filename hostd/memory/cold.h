/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cold memory: what no launch, graph or copy has named for so long that the next turn will do
 * without. It is not brought back before a turn, and what leaves of it is mapped, so that a kernel
 * that reaches it all the same reads it over PCIe. What was named while it was mapped is a miss: it
 * is not cold any more, and from then on memory is taken to be cold later.
 */
#ifndef WEFT_MEM_COLD_H
#define WEFT_MEM_COLD_H

#include <stdbool.h>
#include <stdint.h>

struct space;

/* Periods without being named after which memory is cold: at first, and at most. */
#define COLD_PERIODS     8u
#define COLD_PERIODS_MAX 64u

struct cold {
	uint32_t begins[COLD_PERIODS_MAX +
			1]; /* of the last periods, in launches (touch.h) */
	unsigned n, periods;
	uint64_t began_ns; /* the last one; 0: nobody has asked */
	uint32_t since;    /* named then or before, it is cold; 0: nothing is */
};

/* A turn of the session has ended: a period, if it was longer than a moment; from the first on
 * it is known what is cold, and the worker's page says so. One thread. */
void cold_turn_ended(struct space *sp, uint64_t now_ns);
/* Some hundred milliseconds have gone by without turns. */
void cold_tick(struct space *sp, uint64_t now_ns);
/* Whether something that so many launches have not named is. */
bool cold_is(const struct space *sp, uint64_t age);

#endif
