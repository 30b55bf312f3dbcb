/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of TPCs or GPCs as text: numbers and ranges, "0-19,40"; "all" is no set at all. */
#ifndef WEFT_UTIL_TPCS_H
#define WEFT_UTIL_TPCS_H

#include <stddef.h>

struct space_set;
struct space_want;

/* Room for any set as text. */
#define TPCS_TEXT 320

/* Returns 0, -EINVAL (no such text), or -ERANGE (above SPACE_TPCS_MAX - 1). "all": an empty
 * set. */
int tpcs_parse(const char *text, struct space_set *ret_set);

/* How many are asked for, as tpc.count has it: a number, one with "%", or "max"; buf. */
const char *tpcs_format_count(const struct space_want *want, char *buf, size_t room);

/* The shortest text; buf. */
const char *tpcs_format(const struct space_set *set, char *buf, size_t room);

#endif
