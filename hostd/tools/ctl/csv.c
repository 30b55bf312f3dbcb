/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tools/client.h"
#include "tools/ctl/csv.h"

/* clang-format off */
const char *const csv_tenants[] = {
	"name", "sessions.current", "sessions.waiting", "sessions.max", "sessions.total",
	"gpu.utilization", "gpu.time",
	"memory.current", "memory.swap.current", "memory.peak", "memory.min", "memory.low",
	"memory.high", "memory.max", "memory.swap.max", "memory.weight", "host.current",
	"host.max", "worker.memory.current", "worker.memory.max", "lanes.current",
	"lanes.max", "draining", "profile", "vm.uuid", "socket", NULL,
};

const char *const csv_sessions[] = {
	"session", "tenant", "name", "pid", "worker.pid", "carrier", "time",
	"gpu.utilization", "gpu.time", "calls", "calls.answered", "launches",
	"copied.to_device", "copied.from_device", "memory.current", "memory.swap.current",
	"memory.peak", "memory.moved_out", "memory.moved_in", "memory.waiting",
	"worker.memory.current", "lanes.current", "kind", NULL,
};

const char *const csv_ended[] = {
	"session", "tenant", "name", "pid", "time", "gpu.time", "calls", "calls.answered",
	"launches", "copied.to_device", "copied.from_device", "memory.peak", "end", NULL,
};

const char *const csv_events[] = {
	"number", "at", "event", "tenant", "session", "name", "pid", "worker.pid", "key",
	"from", "to", "by", "why", "time", "gpu.time", "state", "end", "count",
	"memory.current", "memory.swap.current", "device", "left_out", NULL,
};
/* clang-format on */

void csv_cell(const char *text, int end)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, stdout);
	} else {
		putchar('"');
		for (; *text; text++) {
			if (*text == '"')
				putchar('"');
			putchar(*text);
		}
		putchar('"');
	}
	putchar(end);
}

void csv_head(const char *const *columns)
{
	for (; *columns; columns++)
		csv_cell(*columns, columns[1] ? ',' : '\n');
}

void csv_row(const char *const *columns, struct json_object *of)
{
	for (; *columns; columns++)
		csv_cell(json_str(of, *columns), columns[1] ? ',' : '\n');
}

void csv_list(const char *const *columns, struct json_object *list)
{
	csv_head(columns);
	for (size_t i = 0; i < json_count(list); i++)
		csv_row(columns, json_object_array_get_idx(list, i));
}
