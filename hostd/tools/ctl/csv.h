/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables as CSV (RFC 4180, lines that end with a line feed): a line of names, which are the
 * control protocol's keys, and a line for each object; numbers as the protocol has them.
 */
#ifndef WEFT_TOOLS_CSV_H
#define WEFT_TOOLS_CSV_H

#include <json-c/json.h>

/* Columns, which end with NULL. */
extern const char *const csv_tenants[], *const csv_sessions[], *const csv_ended[];
extern const char *const csv_events[];

/* Prints the names. */
void csv_head(const char *const *columns);
/* Prints a line; what the object does not have is empty. */
void csv_row(const char *const *columns, struct json_object *of);
/* Prints names, and a line for each of a list. */
void csv_list(const char *const *columns, struct json_object *list);
/* Prints one cell, and what ends it: ',' or '\n'. */
void csv_cell(const char *text, int end);

#endif
