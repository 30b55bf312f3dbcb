/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write them: "16G", "512MiB", "4096". */
#ifndef WEFT_UTIL_SIZE_H
#define WEFT_UTIL_SIZE_H

#include <stddef.h>
#include <stdint.h>

/*
 * A number with an optional suffix: K, M, G, T, each a power of 1024, an "iB" or "B"
 * after it being allowed; with a suffix also "1.5". "max" is UINT64_MAX. Returns 0,
 * -EINVAL or -ERANGE.
 */
int size_parse(const char *text, uint64_t *ret_bytes);

/* "1.5 GiB"; "max" for UINT64_MAX. Returns buf. */
char *size_format(uint64_t bytes, char *buf, size_t room);

#endif
