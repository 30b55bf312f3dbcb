/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as a file in Chrome's trace event format, which ui.perfetto.dev opens: a process
 * for each tenant, in it threads for what happens one after the other in a session, and
 * counters. Written as it comes; what weftd said is looked at as what anybody said.
 */
#ifndef WEFT_TOOLS_TRACE_FILE_H
#define WEFT_TOOLS_TRACE_FILE_H

#include <stdint.h>
#include <stdio.h>

struct json_object;

/* Zero but for f and begin, which are the caller's. */
struct trace_file {
	FILE *f;
	const char *begin; /* when it begins, RFC 3339 */
	uint64_t n,
		lost; /* records written, and those of which only the number is known */
	uint64_t lost_sessions;
	struct trace_tenant *tenants;
	struct trace_thread *threads;
	struct trace_kernel *kernels;
	unsigned n_tenants, n_threads, n_kernels, n_events;
};

/* hello: what weftd answered. */
void trace_file_begin(struct trace_file *t, struct json_object *hello);
/* Adds what a line says. */
void trace_file_add(struct trace_file *t, struct json_object *line);
/* Ends the file's text, and forgets all but the numbers. */
void trace_file_end(struct trace_file *t);

#endif
