/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/uuid.h"
#include "util/siphash.h"

/* Vectors of the paper and its reference implementation: key and data are 0, 1, 2, ... */
Test(siphash, siphash_gives_the_papers_vectors)
{
	uint8_t key[16], data[16];

	for (uint8_t i = 0; i < 16; i++)
		key[i] = data[i] = i;
	cr_assert_eq(siphash(key, data, 0), 0x726fdb47dd0e0e31);
	cr_assert_eq(siphash(key, data, 15), 0xa129ca6149be45e5);
}

static void of_machine(const char *id, uint8_t *ret_uuid)
{
	char path[] = "/tmp/weft-uuid-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, id, strlen(id)), (ssize_t)strlen(id));
	close(fd);
	uuid_make(path, ret_uuid);
	unlink(path);
}

Test(uuid, of_a_machine)
{
	uint8_t a[16], again[16], b[16], raw[16];

	of_machine("0123456789abcdef0123456789abcdef\n", a);
	of_machine("0123456789abcdef0123456789abcdef\n", again);
	of_machine("1123456789abcdef0123456789abcdef\n", b);
	cr_assert_arr_eq(a, again, 16);
	cr_assert_eq(a[6] >> 4, 8);
	cr_assert_eq(a[8] >> 6, 2);
	for (unsigned i = 0; i < 16; i++)
		raw[i] = (uint8_t)(i % 8 * 0x22 + 1);
	for (unsigned i = 0; i + 8 <= 16; i++) {
		cr_assert_neq(memcmp(a + i, b, 8), 0);
		cr_assert_neq(memcmp(a + i, raw, 4), 0);
	}
}

Test(uuid, without_an_id)
{
	uint8_t a[16], b[16];

	of_machine("", a);
	uuid_make("/nonexistent", b);
	cr_assert_neq(memcmp(a, b, 16), 0, "random ones");
}
