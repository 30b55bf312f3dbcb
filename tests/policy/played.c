/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "played.h"

/* Time that the device takes to begin a launch. */
#define LAUNCH_US 4.0
/* Memory that moves at once: so many such pages are one that was recorded, of a smaller
 * program. */
#define PAGE_BYTES (32ull << 20)

void *played_get(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		abort();
	return p;
}

static void *more(void *list, size_t n, size_t size)
{
	/* Twice as much whenever it is full: at powers of two. */
	if (n & (n - 1))
		return list;
	list = realloc(list, (n ? 2 * n : 1) * size);
	if (!list)
		abort();
	return list;
}

static void wrong(const char *path, unsigned line, const char *what)
{
	fprintf(stderr, "%s:%u: %s\n", path, line, what);
	exit(1);
}

/* A launch: runs of pages, FIRST+N, each of which are so many here. */
static void read_launch(const char *path, unsigned at, char *text, uint32_t each,
			struct program *p)
{
	struct played_launch l = {0};
	char *save, *word, *end;

	for (word = strtok_r(text, " \n", &save); word;
	     word = strtok_r(NULL, " \n", &save)) {
		unsigned long first = strtoul(word, &end, 10), n, all = p->n_pages / each;
		struct run_of_pages r;

		if (*end != '+')
			wrong(path, at, "no run of pages");
		n = strtoul(end + 1, &end, 10);
		if (*end || !n || first >= all || n > all - first)
			wrong(path, at, "pages that there are not");
		r = (struct run_of_pages){each * (uint32_t)first, each * (uint32_t)n};
		l.runs = more(l.runs, l.n_runs, sizeof(r));
		l.runs[l.n_runs++] = r;
		l.n_pages += r.n;
	}
	if (!l.n_runs)
		return;
	p->launches = more(p->launches, p->n_launches, sizeof(l));
	p->launches[p->n_launches++] = l;
}

void program_read(const char *path, uint64_t bytes, struct program *ret)
{
	char *line = NULL;
	size_t room = 0;
	unsigned at = 2;
	uint32_t each;
	FILE *f = fopen(path, "r");

	memset(ret, 0, sizeof(*ret));
	if (!f)
		wrong(path, 0, "cannot be opened");
	if (fscanf(f, "program %31s\npages %" SCNu32 "\n", ret->name, &ret->n_pages) !=
		    2 ||
	    !ret->n_pages || ret->n_pages > bytes / PAGE_BYTES)
		wrong(path, 1, "no recorded program, or a larger one");
	ret->page = PAGE_BYTES;
	each = (uint32_t)(bytes / PAGE_BYTES) / ret->n_pages;
	ret->n_pages *= each;
	while (getline(&line, &room, f) > 0)
		read_launch(path, ++at, line, each, ret);
	if (!ret->n_launches)
		wrong(path, at, "no launches");
	for (uint32_t i = 0; i < ret->n_launches; i++) {
		struct played_launch *l = &ret->launches[i];

		l->us = LAUNCH_US + (double)(l->n_pages * ret->page) / PLAYED_DEVICE;
	}
	free(line);
	fclose(f);
}

void program_free(struct program *p)
{
	for (uint32_t i = 0; i < p->n_launches; i++)
		free(p->launches[i].runs);
	free(p->launches);
}
