/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of text that are as wide as what is in them. */
#ifndef WEFT_TOOLS_TABLE_H
#define WEFT_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/macros.h"

struct table_column {
	const char *title;
	bool right; /* numbers: flush right */
};

/* Zero but for the columns, which must outlive it. */
struct table {
	const struct table_column *columns;
	unsigned n_columns;
	char **cells; /* row by row */
	size_t n;
};

/* Adds the next cell, row by row. A cell for which there is no memory is empty. */
void table_add(struct table *t, const char *fmt, ...) _printf_(2, 3);

/* Prints the titles and all rows, without blanks at their ends; then the table is empty.
 */
void table_print(struct table *t, FILE *f);

#endif
