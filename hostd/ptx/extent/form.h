/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that differ between the threads of a launch, as affine forms: a constant, and terms
 * coef * sym, each sym from 0 to count - 1. Forms that share a sym cancel when one is taken from the
 * other. No form is smaller than what it stands for; where one would be too large to say, a flag
 * says so instead. No allocation, no lock. A result is written to *ret, which is none of what it is
 * made of.
 */
#ifndef WEFT_PTX_EXTENT_FORM_H
#define WEFT_PTX_EXTENT_FORM_H

#include <stdbool.h>
#include <stdint.h>

#define FORM_TERMS 6
/* A sym that is like no other. */
#define FORM_ANY       UINT16_MAX

#define FORM_UP        (1u << 0) /* nothing is known of how large it may be */
#define FORM_DOWN      (1u << 1) /* or how small */
#define FORM_EMPTY     (1u << 2) /* no thread comes there */
#define FORM_AWAY      (1u << 3) /* an address in shared or local memory, or of a variable */

#define FORM_COUNT_MAX ((1ull << 48) - 1)

struct form_term {
	int64_t coef;        /* not 0 */
	uint64_t count : 48; /* 2 at least */
	uint64_t sym : 16;
};

struct form {
	int64_t c;
	uint8_t n, flags;
	struct form_term t[FORM_TERMS];
};

void form_const(struct form *ret, int64_t c);
void form_unknown(struct form *ret);
/* From lo to hi, both in it. */
void form_range(struct form *ret, int64_t lo, int64_t hi);
/* coef * sym, sym from 0 to count - 1. */
void form_sym(struct form *ret, uint16_t sym, int64_t coef, uint64_t count);

/* The smallest and the largest number; INT64_MIN and INT64_MAX where nothing is known. */
int64_t form_lo(const struct form *f);
int64_t form_hi(const struct form *f);
/* Both ends are known. */
bool form_is_bounded(const struct form *f);
bool form_is_const(const struct form *f);

/* Sorts terms by their steps, which are made to go up. False: too large to say. */
bool form_sort(struct form *f);

void form_add(struct form *ret, const struct form *a, const struct form *b);
void form_sub(struct form *ret, const struct form *a, const struct form *b);
void form_mul(struct form *ret, const struct form *a, const struct form *b);
/* a / 2^shift and a / b, rounded down; a % b, as C has it; a & b; a | b; a ^ b. */
void form_shr(struct form *ret, const struct form *a, unsigned shift);
void form_div(struct form *ret, const struct form *a, const struct form *b);
void form_rem(struct form *ret, const struct form *a, const struct form *b);
void form_and(struct form *ret, const struct form *a, const struct form *b);
void form_or(struct form *ret, const struct form *a, const struct form *b);
void form_xor(struct form *ret, const struct form *a, const struct form *b);
void form_min(struct form *ret, const struct form *a, const struct form *b);
void form_max(struct form *ret, const struct form *a, const struct form *b);
/* All that is in one of them. */
void form_union(struct form *ret, const struct form *a, const struct form *b);
/* The part of a that is no larger, and no smaller, than that. */
void form_at_most(struct form *ret, const struct form *a, int64_t hi);
void form_at_least(struct form *ret, const struct form *a, int64_t lo);
/* a as an unsigned number of so many bits. */
void form_unsigned(struct form *ret, const struct form *a, unsigned bits);

#endif
