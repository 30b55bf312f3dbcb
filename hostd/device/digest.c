/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: getrandom */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include "device/digest.h"

typedef unsigned __int128 wide;

static uint64_t reduced(wide v)
{
	uint64_t s = ((uint64_t)v & DIGEST_PRIME) + (uint64_t)(v >> 61);

	s = (s & DIGEST_PRIME) + (s >> 61);
	return s >= DIGEST_PRIME ? s - DIGEST_PRIME : s;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	return reduced((wide)a * b);
}

int digest_key_new(struct digest_key *ret_key)
{
	uint64_t secret[4];

	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return -EIO;
	for (unsigned i = 0; i < 2; i++) {
		ret_key->y[i][0] = reduced(secret[i]);
		for (unsigned k = 1; k < 4; k++)
			ret_key->y[i][k] = times(ret_key->y[i][k - 1], ret_key->y[i][0]);
		ret_key->z[i][0] = reduced(secret[2 + i]);
		for (unsigned k = 1; k < DIGEST_BITS; k++)
			ret_key->z[i][k] =
				times(ret_key->z[i][k - 1], ret_key->z[i][k - 1]);
	}
	return 0;
}

static uint64_t longer(const uint64_t y[4], uint64_t h, const uint32_t w[4])
{
	return reduced((wide)h * y[3] + (wide)w[0] * y[2] + (wide)w[1] * y[1] +
		       (wide)w[2] * y[0] + w[3]);
}

static uint64_t power(const uint64_t *z, uint32_t n)
{
	uint64_t v = 1;

	for (unsigned k = 0; n >> k; k++) {
		if (n >> k & 1)
			v = times(v, z[k]);
	}
	return v;
}

void digest_add(const struct digest_key *key, const void *p, uint64_t block,
		struct digest *d)
{
	uint64_t h[2][DIGEST_CHAINS] = {0};
	uint32_t w[4];

	for (uint32_t at = 0; at < DIGEST_BLOCK; at += sizeof(w)) {
		uint32_t chain = at / sizeof(w) % DIGEST_CHAINS;

		memcpy(w, (const char *)p + at, sizeof(w));
		for (unsigned i = 0; i < 2; i++)
			h[i][chain] = longer(key->y[i], h[i][chain], w);
	}
	for (unsigned i = 0; i < 2; i++) {
		uint64_t z = power(key->z[i], (uint32_t)(block * DIGEST_CHAINS));

		for (uint32_t c = 0; c < DIGEST_CHAINS; c++) {
			d->word[i] = reduced((wide)h[i][c] * z + d->word[i]);
			z = times(z, key->z[i][0]);
		}
	}
}

struct digest digest_of_sums(const uint64_t sums[4])
{
	struct digest d;

	for (unsigned i = 0; i < 2; i++)
		d.word[i] = reduced(sums[2ul * i] + ((wide)sums[2ul * i + 1] << 32));
	return d;
}

/* ---- the kernel ---- */

static_assert(offsetof(struct digest_args, key.z) == 64 &&
		      offsetof(struct digest_args, sums) == 320 &&
		      offsetof(struct digest_args, range) == 328,
	      "as the kernel has it");

/* %hi and %lo become one of the numbers that they are modulo the prime. */
#define REDUCE(to)                                                                       \
	"shl.b64 %hi, %hi, 3;\n"                                                         \
	"shr.u64 %t, %lo, 61;\n"                                                         \
	"or.b64 %hi, %hi, %t;\n"                                                         \
	"and.b64 %lo, %lo, %p;\n"                                                        \
	"add.u64 %lo, %lo, %hi;\n"                                                       \
	"shr.u64 %t, %lo, 61;\n"                                                         \
	"and.b64 %lo, %lo, %p;\n"                                                        \
	"add.u64 " to ", %lo, %t;\n"

#define ADD(w, y)                                                                        \
	"mul.lo.u64 %s, " w ", " y ";\n"                                                 \
	"mul.hi.u64 %t, " w ", " y ";\n"                                                 \
	"add.cc.u64 %lo, %lo, %s;\n"                                                     \
	"addc.u64 %hi, %hi, %t;\n"

#define LONGER(h, y1, y2, y3, y4)                                                        \
	"mul.lo.u64 %lo, " h ", " y4 ";\n"                                               \
	"mul.hi.u64 %hi, " h ", " y4 ";\n" ADD("%w0", y3) ADD("%w1", y2)                 \
		ADD("%w2", y1) "add.cc.u64 %lo, %lo, %w3;\n"                             \
			       "addc.u64 %hi, %hi, 0;\n" REDUCE(h)

#define TIMES(h, at)                                                                     \
	"ld.param.u64 %s, [args+" at "];\n"                                              \
	"mul.lo.u64 %lo, " h ", %s;\n"                                                   \
	"mul.hi.u64 %hi, " h ", %s;\n" REDUCE(h)

/* h times z to the power of the chain's number, bit by bit. */
#define POWER(bit, at0, at1)                                                             \
	"and.b32 %n, %chain, 1 << " bit ";\n"                                            \
	"setp.eq.u32 %q, %n, 0;\n"                                                       \
	"@%q bra skip" bit ";\n" TIMES("%h0", at0) TIMES("%h1", at1) "skip" bit ":\n"

#define SUM(h, at)                                                                       \
	"and.b64 %s, " h ", 4294967295;\n"                                               \
	"shr.u64 %t, " h ", 32;\n"                                                       \
	"red.shared.add.u64 [%here+" at "], %s;\n"                                       \
	"red.shared.add.u64 [%here+" at "+8], %t;\n"

/* clang-format off */
const char digest_ptx[] =
	".version 6.4\n.target sm_75\n.address_size 64\n"
	".visible .global .align 8 .b8 totals[4096];\n"
	".visible .entry digest(.param .align 8 .b8 args[2376])\n"
	"{\n"
	".shared .align 8 .b8 sums[32];\n"
	".reg .b64 %h0, %h1, %lo, %hi, %s, %t, %p, %w0, %w1, %w2, %w3;\n"
	".reg .b64 %y00, %y01, %y02, %y03, %y10, %y11, %y12, %y13;\n"
	".reg .b64 %at, %range, %end, %b, %there;\n"
	".reg .b32 %x0, %x1, %x2, %x3, %n, %chain, %thread, %block, %here, %sum;\n"
	".reg .pred %q, %few;\n"
	"mov.u32 %block, %ctaid.x;\n"
	"mov.u32 %thread, %tid.x;\n"
	"mov.u32 %n, %ctaid.y;\n"
	/* range[ctaid.y], if it has the block */
	"mul.wide.u32 %range, %n, 16;\n"
	"mov.b64 %at, args;\n"
	"add.u64 %range, %range, %at;\n"
	"ld.param.u64 %end, [%range+336];\n"
	"cvt.u64.u32 %b, %block;\n"
	"setp.ge.u64 %q, %b, %end;\n"
	"@%q ret;\n"
	"ld.param.u64 %at, [%range+328];\n"
	"ld.param.u64 %there, [args+320];\n"
	"mul.wide.u32 %s, %n, 32;\n"
	"add.u64 %there, %there, %s;\n"
	/* its 16 bytes of each 4 KiB of the block */
	"shl.b64 %b, %b, 19;\n"
	"add.u64 %at, %at, %b;\n"
	"add.u64 %end, %at, 524288;\n"
	"mul.wide.u32 %s, %thread, 16;\n"
	"add.u64 %at, %at, %s;\n"
	"mov.u32 %here, sums;\n"
	"setp.lt.u32 %few, %thread, 4;\n"
	"shl.b32 %sum, %thread, 3;\n"
	"add.u32 %sum, %sum, %here;\n"
	"mov.u64 %s, 0;\n"
	"@%few st.shared.u64 [%sum], %s;\n"
	"ld.param.u64 %y00, [args];\n"
	"ld.param.u64 %y01, [args+8];\n"
	"ld.param.u64 %y02, [args+16];\n"
	"ld.param.u64 %y03, [args+24];\n"
	"ld.param.u64 %y10, [args+32];\n"
	"ld.param.u64 %y11, [args+40];\n"
	"ld.param.u64 %y12, [args+48];\n"
	"ld.param.u64 %y13, [args+56];\n"
	"mov.u64 %p, 2305843009213693951;\n"
	"mov.u64 %h0, 0;\n"
	"mov.u64 %h1, 0;\n"
	"more:\n"
	"ld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%at];\n"
	"cvt.u64.u32 %w0, %x0;\n"
	"cvt.u64.u32 %w1, %x1;\n"
	"cvt.u64.u32 %w2, %x2;\n"
	"cvt.u64.u32 %w3, %x3;\n"
	LONGER("%h0", "%y00", "%y01", "%y02", "%y03")
	LONGER("%h1", "%y10", "%y11", "%y12", "%y13")
	"add.u64 %at, %at, 4096;\n"
	"setp.lt.u64 %q, %at, %end;\n"
	"@%q bra more;\n"
	"shl.b32 %chain, %block, 8;\n"
	"add.u32 %chain, %chain, %thread;\n"
	POWER("0", "64", "192")
	POWER("1", "72", "200")
	POWER("2", "80", "208")
	POWER("3", "88", "216")
	POWER("4", "96", "224")
	POWER("5", "104", "232")
	POWER("6", "112", "240")
	POWER("7", "120", "248")
	POWER("8", "128", "256")
	POWER("9", "136", "264")
	POWER("10", "144", "272")
	POWER("11", "152", "280")
	POWER("12", "160", "288")
	POWER("13", "168", "296")
	POWER("14", "176", "304")
	POWER("15", "184", "312")
	"bar.sync 0;\n"
	SUM("%h0", "0")
	SUM("%h1", "16")
	"bar.sync 0;\n"
	"@!%few ret;\n"
	"ld.shared.u64 %s, [%sum];\n"
	"mul.wide.u32 %t, %thread, 8;\n"
	"add.u64 %there, %there, %t;\n"
	"red.global.add.u64 [%there], %s;\n"
	"ret;\n"
	"}\n";
/* clang-format on */

static_assert(sizeof(struct digest_args) == 2376, "as the kernel has it");
