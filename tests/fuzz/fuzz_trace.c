/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that a worker has written for a trace, as weftd reads them. Input:
 *
 *	8 bytes		numbers that the worker says it gave out, at first
 *	1 byte		how many it says it has names, and what the first begins with
 *	18 bytes each	a slot: its index (2), whether its number is right (1), kind (1),
 *			begin and end, after or before now (4 each), name (2), how much
 *			later the worker says that it gave out more (4)
 *
 * After each slot all is read that there is: reading ends, and what it gives is a record.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/operator/trace_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD 9
#define SLOT 18

static struct trace_area area;

static void write_slot(const uint8_t *d, uint64_t now_ns)
{
	uint16_t index, name;
	int32_t begin, end;
	uint32_t more;
	struct trace_slot *s;

	memcpy(&index, d, sizeof(index));
	memcpy(&begin, d + 4, sizeof(begin));
	memcpy(&end, d + 8, sizeof(end));
	memcpy(&name, d + 12, sizeof(name));
	memcpy(&more, d + 14, sizeof(more));
	area.taken += more;
	s = &area.ring[index % TRACE_RECORDS];
	s->number = d[2] ? area.taken - (area.taken - index) % TRACE_RECORDS : d[2];
	s->kind = d[3];
	s->begin_ns = now_ns + (uint64_t)(int64_t)begin;
	s->end_ns = now_ns + (uint64_t)(int64_t)end;
	s->name = name;
}

static void check(const struct trace_record *c, struct trace_reader *r)
{
	char text[TRACE_NAME_TEXT];

	if ((unsigned)c->kind >= TRACE_NUM_KINDS || c->begin_ns > c->end_ns ||
	    c->end_ns > clock_now_ns() || c->name > TRACE_NAMES)
		abort();
	if (trace_read_name(r, &area, c->name, text)) {
		for (const char *p = text; *p; p++) {
			if (*p < ' ' || *p > '~')
				abort();
		}
		if (trace_read_name(r, &area, c->name, text))
			abort(); /* it is told once */
	}
}

static void read_all(struct trace_reader *r)
{
	struct trace_record c;
	unsigned n = 0;

	while (trace_read(r, &area, &c)) {
		check(&c, r);
		if (++n > TRACE_RECORDS)
			abort();
	}
	trace_read_end(r, &area);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t now_ns = clock_now_ns();
	struct trace_reader r;

	if (size < HEAD || size > 4096)
		return 0;
	memset(&area, 0, sizeof(area));
	memcpy((void *)&area.taken, data, sizeof(uint64_t));
	for (unsigned i = 0; i < TRACE_NAMES; i++) {
		memset(area.names[i].text, data[8], sizeof(area.names[i].text));
		area.names[i].ready = i <= data[8];
	}
	trace_reader_init(&r, &area);
	for (size_t at = HEAD; at + SLOT <= size; at += SLOT) {
		write_slot(data + at, now_ns);
		read_all(&r);
	}
	return 0;
}
