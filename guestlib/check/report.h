/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that weft-guest-check prints, and the verdict that they add up to. */
#ifndef WEFT_CHECK_REPORT_H
#define WEFT_CHECK_REPORT_H

#include "base/macros.h"

/* In order of weight; the exit status of the worst row is the program's. */
enum verdict {
	VERDICT_OK = 0,
	VERDICT_NO = 1,   /* no GPU can be used */
	VERDICT_SLOW = 2, /* one can, a hundred times slower than it might be */
	VERDICT_NONE = 3, /* not there, which is all right: no verdict */
};

/* Prints one row on standard output: the verdict, what was looked at, what was found. */
void report(enum verdict v, const char *what, const char *fmt, ...) _printf_(3, 4);

/* Prints what to do about the row before. */
void report_advice(const char *fmt, ...) _printf_(1, 2);

/* Worst verdict of all rows. */
enum verdict report_verdict(void);

#endif
