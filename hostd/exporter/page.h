/* SPDX-License-Identifier: Apache-2.0 */
/* The page: weftd's answers, as metrics. hostd/doc/metrics.md has every one. */
#ifndef WEFT_EXPORTER_PAGE_H
#define WEFT_EXPORTER_PAGE_H

#include <stdbool.h>
#include <stdint.h>

struct json_object;
struct text;

/* The answers of weftd to a scrape. Objects of another make than weftd's are shown as far as
 * they go. */
struct answers {
	struct json_object *list;   /* its answer to "list"; NULL: there is none */
	uint64_t sessions_left_out; /* taken out of it */
	double seconds;             /* that asking took */
};

/* Writes the page; dcgm: with DCGM's names for the device as well. */
void page_write(struct text *t, const struct answers *a, bool dcgm);

#endif
