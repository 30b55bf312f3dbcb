/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "check/report.h"

static const char *const words[] = {
	[VERDICT_OK] = "ok",
	[VERDICT_NO] = "no",
	[VERDICT_SLOW] = "slow",
	[VERDICT_NONE] = "-",
};

static enum verdict worst;

void report(enum verdict v, const char *what, const char *fmt, ...)
{
	va_list ap;

	printf("%-5s %-18s ", words[v], what);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	if (v != VERDICT_NONE && (v == VERDICT_NO || worst == VERDICT_OK))
		worst = v;
}

void report_advice(const char *fmt, ...)
{
	va_list ap;

	printf("%-5s %-18s ", "", "->");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

enum verdict report_verdict(void)
{
	return worst;
}
