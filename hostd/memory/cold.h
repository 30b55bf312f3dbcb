/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cold memory: what no launch, graph or copy has named for so long that the next turn will do
 * without. It is not brought back while there is no room for everybody's, and what leaves of it is
 * mapped, so that a kernel that reaches it all the same reads it over PCIe. What was named while it
 * was mapped is a miss: it is not cold any more, and from then on memory is taken to be cold later.
 *
 * A launch names where something begins, and not how long that is. So what follows in the same
 * allocation, or range of addresses, counts as named with it, though it was named by itself before,
 * as the place of something else that was there: a kernel that reads host memory for each element
 * takes many times as long as memory that comes for nothing. While a kernel whose PTX follows
 * addresses in memory is among the launches that count, nothing is cold.
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
	/* Named then or before, it is cold; 0: nothing is. Changes under the space's lock. */
	_Atomic uint32_t since;
};

/* A turn of the session has ended: a period, if it was longer than a moment and something was
 * launched; from the first on it is known what is cold, and the worker's page says so. One
 * thread. */
void cold_turn_ended(struct space *sp, uint64_t now_ns);
/* Some hundred milliseconds have gone by without turns. */
void cold_tick(struct space *sp, uint64_t now_ns);
/* Memory has moved: the worker's page says where what is cold is now. */
void cold_moved(struct space *sp);
/* Whether something that so many launches have not named is. */
bool cold_is(const struct space *sp, uint64_t age);

#endif
