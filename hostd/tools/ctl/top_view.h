/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of weftctl top as text: rows of tenants or sessions out of an answer to
 * "list", sorted, and cut to a width. No terminal here; top.c has that.
 */
#ifndef WEFT_TOOLS_TOP_VIEW_H
#define WEFT_TOOLS_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

#define TOP_LINE 1024u /* bytes of a line, its end included; terminals are narrower */

enum top_sort {
	TOP_NAME,
	TOP_GPU,
	TOP_TIME, /* GPU time of tenants, age of sessions */
	TOP_MEMORY,
	TOP_SWAP,
	TOP_WAITING,
	TOP_SESSIONS, /* of tenants; launches of sessions */
	TOP_NUM_SORTS
};

struct top_row {
	char name[64], program[32], kind[16]; /* printable ASCII */
	uint64_t session, pid;      /* session 0: a tenant */
	uint64_t sessions, waiting, busy, gpu_us, age_us;
	uint64_t memory, swap, max, launches, copied;
	double launches_s, copied_s; /* since the answer before */
	bool drains;
};

/* Zero at first, but for what is to be shown. */
struct top_view {
	bool by_session, hide_idle, reverse, bytes;
	enum top_sort sort;

	/* of the latest answer */
	char device[96];
	uint64_t memory, memory_total, swap, swap_max, busy;
	uint64_t n_tenants, n_sessions, n_waiting;
	bool drains;
	struct top_row *rows;
	unsigned n;
	/* sessions of the one before, by number */
	struct top_row *before;
	unsigned n_before;
	uint64_t at_us;
};

void top_fini(struct top_view *v);
/* Takes rows out of an answer at a time on any clock, and sorts them. 0 or -ENOMEM. */
int top_read(struct top_view *v, struct json_object *answer, uint64_t now_us);
/* Sorts again, after a change of what is to be shown. */
void top_sort(struct top_view *v);
/* Sort of that name ("memory"), or TOP_NUM_SORTS; and the names, for sentences. */
enum top_sort top_sort_find(const char *name);
const char *top_sort_names(void);

/* Lines of the picture, each of width characters at most, into buf of TOP_LINE bytes:
 * line i of the head (false: it has no more), the titles, row i. */
bool top_head(const struct top_view *v, unsigned i, unsigned width, char *buf);
void top_titles(const struct top_view *v, unsigned width, char *buf);
void top_line(const struct top_view *v, unsigned i, unsigned width, char *buf);

#endif
