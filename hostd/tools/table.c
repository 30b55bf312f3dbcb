/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/table.h"

void table_add(struct table *t, const char *fmt, ...)
{
	char **cells = reallocarray(t->cells, t->n + 1, sizeof(*cells));
	char *text = NULL;
	va_list ap;

	if (!cells)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	t->cells = cells;
	t->cells[t->n++] = text;
}

static const char *cell(const struct table *t, size_t i)
{
	return i < t->n && t->cells[i] ? t->cells[i] : "";
}

static size_t column_width(const struct table *t, unsigned column)
{
	size_t width = strlen(t->columns[column].title);

	for (size_t i = column; i < t->n; i += t->n_columns)
		width = MAX(width, strlen(cell(t, i)));
	return width;
}

static void print_cell(const struct table *t, FILE *f, unsigned column, const char *text)
{
	const char *gap = column ? "  " : "";

	if (t->columns[column].right)
		fprintf(f, "%s%*s", gap, (int)column_width(t, column), text);
	else if (column + 1 == t->n_columns)
		fprintf(f, "%s%s", *text ? gap : "", text);
	else
		fprintf(f, "%s%-*s", gap, (int)column_width(t, column), text);
}

void table_print(struct table *t, FILE *f)
{
	for (unsigned c = 0; c < t->n_columns; c++)
		print_cell(t, f, c, t->columns[c].title);
	fputc('\n', f);
	for (size_t i = 0; i < t->n; i += t->n_columns) {
		for (unsigned c = 0; c < t->n_columns; c++)
			print_cell(t, f, c, cell(t, i + c));
		fputc('\n', f);
	}
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	t->cells = NULL;
	t->n = 0;
}
