/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs as they were recorded (recorded.py): the pages that each launch reaches, again and
 * again, and a device on which they take turns. How long a launch takes is what the device takes
 * to read its pages.
 */
#ifndef WEFT_TEST_PLAYED_H
#define WEFT_TEST_PLAYED_H

#include <stddef.h>
#include <stdint.h>

struct run_of_pages {
	uint32_t first, n;
};

struct played_launch {
	struct run_of_pages *runs;
	uint32_t n_runs;
	uint32_t n_pages; /* of all runs: those that two have count twice */
	double us;
};

struct program {
	char name[32];
	uint32_t n_pages, n_launches;
	uint64_t page; /* bytes */
	struct played_launch *launches;
};

/* Reads a recorded program as one of about so many bytes. Ends the process with a message if it is
 * none. */
void program_read(const char *path, uint64_t bytes, struct program *ret);
void program_free(struct program *p);

/* Programs side by side: n of them, of different pages; a device with room for so many bytes; how
 * long one goes until the next does. */
struct scene {
	const struct program **programs;
	uint32_t n;
	uint64_t memory;
	double turn_us, seconds;
};

struct outcome {
	double hits;   /* part of the pages reached that were there */
	double moved;  /* bytes in, a second of computing */
	double device; /* part of the time in which it computes */
};

/* Memory comes when it is reached, and what was reached longest ago leaves. */
struct outcome play_lru(const struct scene *s);
/* The page that is needed last leaves (Belady), and all that comes is on its way before it is
 * needed, as soon as the link can. No order of moves does better for these turns. */
struct outcome play_optimum(const struct scene *s);
/* As weftd does it by `sets`: turns, and placement along the line. */
struct outcome play_sets(const struct scene *s);

/* Memory for n of that size, zero; never NULL. */
void *played_get(size_t n, size_t size);

/* Bytes a microsecond: of the link, each way, and of the device's memory (H200). */
#define PLAYED_LINK   43000.0
#define PLAYED_DEVICE 3000000.0

#endif
