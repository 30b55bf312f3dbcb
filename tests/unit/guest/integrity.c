/* SPDX-License-Identifier: Apache-2.0 */
/* MD2 and HMAC-MD2 against published values; the runtime's check against a known answer.
 */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "core/integrity.h"

static void check_md2(const char *text, const char *want)
{
	struct md2 m;
	uint8_t digest[MD2_SIZE];
	char hex[2 * MD2_SIZE + 1];
	unsigned i;

	md2_init(&m);
	md2_update(&m, text, strlen(text));
	md2_final(&m, digest);
	for (i = 0; i < MD2_SIZE; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	cr_expect_str_eq(hex, want, "MD2(\"%s\")", text);
}

/* Appendix A.5 of RFC 1319. */
Test(guest_integrity, md2_rfc1319)
{
	check_md2("", "8350e5a3e24c153df2275c9f80692773");
	check_md2("a", "32ec01ec4a6dac72c0ab96fb34c0b5d1");
	check_md2("abc", "da853b0d3f88d99b30283a69e6ded6bb");
	check_md2("message digest", "ab4f496bfb2a530b219ff33031fe06b0");
	check_md2("abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b");
	check_md2("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
		  "da33def2a42df13975352846c30338cd");
	check_md2("123456789012345678901234567890123456789012345678901234567890123456789"
		  "01234567890",
		  "d5976f79d83d3a0dc9806c3c66f3efd8");
}

Test(guest_integrity, md2_in_pieces)
{
	static const char text[] = "123456789012345678901234567890123";
	uint8_t whole[MD2_SIZE], pieces[MD2_SIZE];
	struct md2 m;
	size_t cut;

	md2_init(&m);
	md2_update(&m, text, sizeof(text));
	md2_final(&m, whole);
	for (cut = 0; cut <= sizeof(text); cut++) {
		md2_init(&m);
		md2_update(&m, text, cut);
		md2_update(&m, text + cut, sizeof(text) - cut);
		md2_final(&m, pieces);
		cr_expect_arr_eq(whole, pieces, sizeof(whole), "cut at %zu", cut);
	}
}

static struct integrity_input known(void)
{
	return (struct integrity_input){
		.driver_version = 12080,
		.runtime_version = 12082,
		.pid = 0x002fa423,
		.thread = 0xf79c1000,
		.cudart_table = 0x7ffff6958240,
		.integrity_table = 0x7ffff6958220,
		.function = 0x7ffff2aaf4a0,
		.unix_seconds = 0x682b9cee,
	};
}

static void check_answer(const struct integrity_input *in, uint64_t low, uint64_t high)
{
	uint64_t answer[2] = {0};

	integrity_answer(in, answer);
	cr_expect_eq(answer[0], low);
	cr_expect_eq(answer[1], high);
}

Test(guest_integrity, known_answer)
{
	static const uint32_t uuid[4] = {0x8a2bfe9a, 0x382d25ac, 0xc5ae37ea, 0x5f32716d};
	struct integrity_device dev = {.pci_domain = 0, .pci_bus = 2, .pci_device = 0};
	struct integrity_input in = known();

	check_answer(&in, 0xd22dfa4f5eef7907, 0xfa7b90d103755207);
	memcpy(dev.uuid, uuid, sizeof(dev.uuid));
	in.devices = &dev;
	in.n_devices = 1;
	check_answer(&in, 0xf7ce26b071a14844, 0xdd021b05393e8c6c);
}

Test(guest_integrity, constant_answers)
{
	struct integrity_input in = known();
	uint64_t answer[2];

	in.runtime_version = 13000;
	integrity_answer(&in, answer);
	cr_expect_eq(answer[0], 0x3341181C03CB675Cull);
	cr_expect_eq(answer[1], 0x8ED383AA1F4CD1E8ull);
	in.runtime_version = 13001;
	integrity_answer(&in, answer);
	cr_expect_eq(answer[0], 0x1841181C03CB675Cull);
	cr_expect_eq(answer[1], 0x8ED383AA1F4CD1E8ull);
}
