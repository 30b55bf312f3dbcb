/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading of what a worker has written for a trace (ipc/trace.h). The worker may write
 * anything at any time: what is no record is counted as lost, and reading ends.
 */
#ifndef WEFT_BROKER_TRACE_READ_H
#define WEFT_BROKER_TRACE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/trace.h"

/* Looks at a record that is not complete before it is given up: 2 s at weftd's rate. A thread
 * that was preempted while it wrote has run again by then. */
#define TRACE_LOOKS 100u

struct trace_reader {
	uint64_t next; /* number of the record that is read next */
	uint64_t lost; /* since somebody asked last; the caller sets it to 0 */
	unsigned looks; /* at that record, which was not complete */
	uint64_t named[(TRACE_NAMES + 63) / 64]; /* names that were told */
};

/* From now on: what there is in the area is not read. */
void trace_reader_init(struct trace_reader *r, const struct trace_area *area);

/*
 * Reads the next record, if there is one; *ret is checked: its kind is one, it ends after
 * it has begun, and not in time to come. Returns whether there was one.
 */
bool trace_read(struct trace_reader *r, const struct trace_area *area,
		struct trace_record *ret);
/* Call when all that there is has been read, for now: a record that a thread of the worker is
 * still writing is given up the TRACE_LOOKSth time, and counted as lost. */
void trace_read_end(struct trace_reader *r, const struct trace_area *area);

/* Copies the text of a name, clean, the first time that it is asked for. Returns whether it
 * was that, and there is one. */
bool trace_read_name(struct trace_reader *r, const struct trace_area *area, uint32_t name,
		     char text[static TRACE_NAME_TEXT]);

#endif
