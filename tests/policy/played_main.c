/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that moves, and what that costs, where recorded programs share a device:
 *
 *	policy_played PROMISED COPIES FILE...
 *
 * PROMISED: how much more memory they have together than the device, 1.5. COPIES: of each program,
 * so many. Prints a row for each way: the part of pages reached that were there, GiB moved in for a
 * second of computing, the part of time that the device computes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "played.h"

#define GIB (1ull << 30)

static void row(const char *name, struct outcome o)
{
	printf("%-24s %.4f %8.2f %.3f\n", name, o.hits, o.moved / (double)GIB, o.device);
}

int main(int argc, char **argv)
{
	double promised = argc > 3 ? atof(argv[1]) : 0;
	uint32_t copies = argc > 3 ? (uint32_t)atoi(argv[2]) : 0, n = (uint32_t)argc - 3;
	struct scene s = {.turn_us = 2000, .seconds = 60};
	struct program *programs;
	uint64_t all = 0;

	if (promised <= 0 || !copies || copies > 1000) {
		fputs("usage: policy_played PROMISED COPIES FILE...\n", stderr);
		return 64;
	}
	programs = calloc(n, sizeof(*programs));
	s.programs = calloc((size_t)n * copies, sizeof(*s.programs));
	if (!programs || !s.programs)
		return 1;
	for (uint32_t i = 0; i < n; i++)
		program_read(argv[3 + i], 8 * GIB, &programs[i]);
	for (s.n = 0; s.n < n * copies; s.n++) {
		s.programs[s.n] = &programs[s.n % n];
		all += s.programs[s.n]->page * s.programs[s.n]->n_pages;
	}
	s.memory = (uint64_t)((double)all / promised);
	row("lru, slices of 2 ms", play_lru(&s));
	row("optimum, slices of 2 ms", play_optimum(&s));
	s.turn_us = 500000;
	row("lru, turns", play_lru(&s));
	row("optimum, turns", play_optimum(&s));
	row("sets", play_sets(&s));
	for (uint32_t i = 0; i < n; i++)
		program_free(&programs[i]);
	free(programs);
	free(s.programs);
	return 0;
}
