/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of knowing where kernels reach memory: looking at each kernel of a PTX file once, and
 * each of its launches, of 1,000 blocks of 256 threads whose parameters are all 1 << 20.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "ptx/extent/extent.h"

#define LAUNCHES 20000u
#define GRAIN    (2u << 20)

static void told(void *arg, uint64_t addr, uint64_t bytes)
{
	++*(uint64_t *)arg;
}

static void measure(const struct ptx_module *m, const struct ptx_func *f)
{
	const struct ptx_grid shape = {{1000, 1, 1}, {256, 1, 1}};
	uint64_t params[64], n = 0, begin = clock_now_ns(), learnt;
	struct ptx_extent *e = ptx_extent_new(m, f);
	unsigned all, known;

	learnt = clock_now_ns() - begin;
	if (!e) {
		printf("%-40.40s nothing is known\n", f->name);
		return;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(params); i++)
		params[i] = 1 << 20;
	begin = clock_now_ns();
	for (unsigned i = 0; i < LAUNCHES; i++)
		ptx_extent_each(e, params, sizeof(params), &shape, GRAIN, told, &n);
	ptx_extent_counts(e, &all, &known);
	printf("%-40.40s %4u of %4u  %6.0f us  %6.0f ns  %5.1f\n", f->name, known, all,
	       (double)learnt / 1e3, (double)(clock_now_ns() - begin) / LAUNCHES,
	       (double)n / LAUNCHES);
	ptx_extent_free(e);
}

int main(int argc, char **argv)
{
	_cleanup_free_ char *text = NULL;
	struct ptx_module *m;
	size_t n = 0, cap = 0;
	FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;

	if (!f) {
		fprintf(stderr, "usage: bench_extent FILE.ptx\n");
		return 2;
	}
	if (getdelim(&text, &cap, 0, f) > 0)
		n = strlen(text);
	fclose(f);
	if (ptx_parse(text, n, NULL, &m) < 0) {
		fprintf(stderr, "%s: no PTX\n", argv[1]);
		return 1;
	}
	printf("%-40s %12s  %9s  %9s  %5s\n", "kernel", "accesses", "to learn",
	       "a launch", "parts");
	for (uint32_t i = 0; i < m->nfuncs; i++) {
		if (m->funcs[i].is_entry)
			measure(m, &m->funcs[i]);
	}
	ptx_module_free(m);
	return 0;
}
