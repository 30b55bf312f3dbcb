/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers by seed: the same on every machine.
 */
#ifndef WEFT_TESTS_POLICY_RANDOM_H
#define WEFT_TESTS_POLICY_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* 0 to n - 1. */
static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
	return random_next(state) % n;
}

/* Any number, those at the ends often. */
static inline uint64_t random_any(uint64_t *state)
{
	uint64_t x = random_next(state);

	switch (random_below(state, 5)) {
	case 0:
		return x % 4;
	case 1:
		return UINT64_MAX - x % 4;
	case 2:
		return 1ull << x % 64;
	default:
		return x >> random_below(state, 64);
	}
}

#endif
