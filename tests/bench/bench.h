/* SPDX-License-Identifier: Apache-2.0 */
/* Common part of the benchmarks of the host's parts. */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include <stdio.h>
#include <stdlib.h>

static inline void check(long r, const char *what)
{
	if (!r)
		return;
	fprintf(stderr, "%s: %ld\n", what, r);
	exit(1);
}
#define CK(call) check((long)(call), #call)

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts them. */
static inline double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

#endif
