/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversions of a printf format, as CUDA lays out their arguments, and the record
 * that carries one call from the kernel to simt_printf_text().
 */
#ifndef WEFT_SIMT_PRINTF_H
#define WEFT_SIMT_PRINTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRINTF_MAX_TEXT 8192u /* of a format or a string argument, the rest is cut */
#define PRINTF_MAX_ARGS 32u

enum printf_kind {
	PRINTF_TEXT, /* no argument: ordinary text, or %% */
	PRINTF_INT,  /* 4 bytes, signed */
	PRINTF_UINT, /* 4 bytes, unsigned */
	PRINTF_LONG, /* 8 bytes */
	PRINTF_CHAR,
	PRINTF_DOUBLE,
	PRINTF_STRING,
	PRINTF_POINTER,
};

/* One piece of a format: text, or a conversion with its "*" arguments before it. */
struct printf_spec {
	enum printf_kind kind;
	const char *begin;
	size_t len;
	unsigned stars;
	char conv; /* the letter */
};

/* Reads the next piece at *pos; false at the end. */
bool printf_next(const char **pos, struct printf_spec *ret_spec);

/*
 * Record: this header, the format with its NUL, padding to 8 bytes, one slot of 8 bytes
 * for each argument ("*" too), then the strings. The slot of a string is its offset in
 * the record, 0 for NULL.
 */
#define PRINTF_MAGIC 0x50544657u /* "WFTP" */

struct printf_record {
	uint32_t magic;
	uint32_t bytes;      /* of the whole record */
	uint32_t format_len; /* without the NUL */
	uint32_t num_args;
};

#endif
