/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text format, version 0.0.4: a page that grows line by line. A page for which
 * there was no memory says so at its end, and is then not to be served.
 */
#ifndef WEFT_EXPORTER_TEXT_H
#define WEFT_EXPORTER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Zero at first. */
struct text {
	char *at; /* not terminated */
	size_t n, room;
	bool failed; /* out of memory */
};

/* A label; a list of them ends with a NULL name. Any bytes may be a value. */
struct text_label {
	const char *name, *value;
};

void text_fini(struct text *t);
/* Begins a metric; type is "counter" or "gauge". help has no line's end in it. */
void text_metric(struct text *t, const char *name, const char *type, const char *help);
/* Adds a sample of it; infinity is a value. */
void text_sample(struct text *t, const char *name, const struct text_label *labels,
		 double value);

#endif
