/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TPCs (pairs of SMs) that the kernels of each tenant run on, from what operators ask for:
 * certain ones, whole GPCs, or so many of any.
 *
 * Pure, as placement.h: numbers in, decisions out, and any numbers are safe.
 *
 * TPC k has the SMs 2k and 2k + 1, as programs see them (%smid). A cluster of blocks lies
 * within one GPC, and the TPCs of a GPC share much, so who asks for a number gets as few
 * GPCs as can be, and leaves others whole.
 */
#ifndef WEFT_POLICIES_SPACE_H
#define WEFT_POLICIES_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#define SPACE_TPCS_MAX 128u

/* Bit i % 64 of word i / 64 is TPC i. */
struct space_set {
	uint64_t bits[SPACE_TPCS_MAX / 64];
};

struct space_map {
	uint32_t n; /* TPCs; 0: not known */
	uint8_t gpc[SPACE_TPCS_MAX];
};

/* TPCs that an operator asks for, by one of the first three at most; by none: all. */
struct space_want {
	struct space_set tpcs; /* these; empty: not asked for */
	struct space_set gpcs; /* those of these; likewise */
	uint32_t count;        /* so many; 0: likewise */
	bool percent;          /* ... in a hundred, rounded down, but one at least */
	bool exclusive;        /* nobody else has them */
};

struct space_tenant {
	struct space_want want;
	struct space_set has;  /* before; who asks for a number keeps it if it can */
	struct space_set gets; /* afterwards, if that can be */
};

enum space_error {
	SPACE_OK,
	SPACE_CONTRADICTS, /* asks for two things at once */
	SPACE_ALL_ALONE,   /* asks for nothing, and to have it alone */
	SPACE_NO_TPC,      /* asks for one that is not there: what */
	SPACE_NO_GPC,      /* likewise */
	SPACE_TAKEN,       /* what is one that another has, and one of the two alone */
	SPACE_TOO_MANY,    /* what: as many as there are for it */
};

/* Why not. */
struct space_why {
	enum space_error error;
	uint32_t tenant, other, what;
};

/*
 * Decides. Who asks for certain ones gets these, then come those who ask for a number, in
 * order, and who asks for nothing has all that is nobody's alone.
 */
struct space_why space_assign(const struct space_map *m, struct space_tenant *t,
			      uint32_t n);

static inline bool space_has(const struct space_set *s, uint32_t i)
{
	return i < SPACE_TPCS_MAX && s->bits[i / 64] >> i % 64 & 1;
}

static inline void space_add(struct space_set *s, uint32_t i)
{
	s->bits[i / 64] |= 1ull << i % 64;
}

static inline bool space_is_empty(const struct space_set *s)
{
	return !s->bits[0] && !s->bits[1];
}

static inline uint32_t space_count(const struct space_set *s)
{
	return (uint32_t)(__builtin_popcountll(s->bits[0]) +
			  __builtin_popcountll(s->bits[1]));
}

static inline bool space_same(const struct space_set *a, const struct space_set *b)
{
	return a->bits[0] == b->bits[0] && a->bits[1] == b->bits[1];
}

#endif
