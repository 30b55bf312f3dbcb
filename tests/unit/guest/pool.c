/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's table of what was allocated in stream order, against a plain array. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "object/pool.h"

#define LIVE 5000

Test(pool_live, random_against_model)
{
	static uint64_t live[LIVE];
	unsigned n = 0;

	srand(5);
	cr_assert(!pool_live_take(512));
	for (unsigned step = 0; step < 60000; step++) {
		/* few distinct addresses, so that they collide and come again */
		uint64_t ptr = 0x200000000000ull + ((uint64_t)rand() % 20000 << 9);
		unsigned i = 0;

		while (i < n && live[i] != ptr)
			i++;
		if (rand() % 2 && (i < n || n < LIVE)) {
			pool_live_add(ptr);
			if (i == n)
				live[n++] = ptr;
		} else {
			cr_assert_eq(pool_live_take(ptr), i < n);
			if (i < n)
				live[i] = live[--n];
		}
	}
	while (n)
		cr_assert(pool_live_take(live[--n]));
	cr_assert(!pool_live_take(live[0]));
	cr_assert(!pool_live_take(0));
}
