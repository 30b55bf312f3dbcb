/* SPDX-License-Identifier: Apache-2.0 */
/* Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012. */
#include <string.h>

#include "util/siphash.h"

static uint64_t rotl(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static void rounds(uint64_t v[4], unsigned n)
{
	while (n--) {
		v[0] += v[1];
		v[1] = rotl(v[1], 13) ^ v[0];
		v[0] = rotl(v[0], 32);
		v[2] += v[3];
		v[3] = rotl(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotl(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotl(v[1], 17) ^ v[2];
		v[2] = rotl(v[2], 32);
	}
}

static void compress(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

uint64_t siphash(const uint8_t key[16], const void *data, size_t n)
{
	const uint8_t *p = data;
	uint64_t k[2], word, v[4];
	size_t left = n;

	memcpy(k, key, sizeof(k));
	v[0] = k[0] ^ 0x736f6d6570736575;
	v[1] = k[1] ^ 0x646f72616e646f6d;
	v[2] = k[0] ^ 0x6c7967656e657261;
	v[3] = k[1] ^ 0x7465646279746573;
	for (; left >= 8; left -= 8, p += 8) {
		memcpy(&word, p, 8);
		compress(v, word);
	}
	word = 0;
	memcpy(&word, p, left);
	compress(v, word | (uint64_t)n << 56);
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
