/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_UTIL_SIPHASH_H
#define WEFT_UTIL_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4: without the key, what it gives says nothing about it. */
uint64_t siphash(const uint8_t key[16], const void *data, size_t n);

#endif
