/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_LIBVIRT_SENTENCE_H
#define WEFT_LIBVIRT_SENTENCE_H

#include <stdarg.h>
#include <stdio.h>

#include "base/macros.h"

/* A malloced sentence, the caller's; NULL: no memory. */
static inline _printf_(1, 2) char *sentence(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}

#endif
