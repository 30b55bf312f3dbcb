/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a link: packing, and unpacking of what a program made of it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/fatbin.h"
#include "session/linked.h"

static struct image text(const char *s)
{
	return (struct image){(void *)s, strlen(s) + 1};
}

Test(linked, texts_come_out_as_containers)
{
	const char *words[2] = {".version 8.0 one", ".version 8.0 the second one"};
	struct image in[2] = {text(words[0]), text(words[1])}, all, out;
	uint64_t at = 0;

	cr_assert_eq(linked_pack(in, 0, &all), -EINVAL);
	cr_assert_eq(linked_pack(in, 2, &all), 0);
	cr_assert(linked_is(&all) && !linked_is(&in[0]));
	/* the length shows in the first bytes */
	cr_assert_eq(((uint64_t *)all.data)[1] + 16, all.size);
	cr_assert_eq(linked_unpack(&all, &out), 0);
	for (unsigned i = 0; i < 2; i++) {
		const char *p = (const char *)out.data + at;
		uint64_t size = 16 + *(const uint64_t *)(p + 8);
		char *ptx;
		size_t n;

		cr_assert_leq(at + size, out.size);
		cr_assert_eq(fatbin_ptx(p, size, 90, &ptx, &n), 0);
		cr_assert_str_eq(ptx, words[i]);
		free(ptx);
		at += size;
	}
	cr_assert_eq(at, out.size);
	free(all.data);
	free(out.data);
}

Test(linked, results_are_inputs_again)
{
	struct image in = text("x"), once, twice, out;

	cr_assert_eq(linked_pack(&in, 1, &once), 0);
	cr_assert_eq(linked_pack(&once, 1, &twice), 0);
	cr_assert_eq(linked_unpack(&twice, &out), 0);
	cr_assert_eq(out.size, once.size);
	cr_assert_eq(memcmp(out.data, once.data, once.size), 0);
	free(once.data);
	free(twice.data);
	free(out.data);
}

/* Every cut and every changed byte is refused or comes out within bounds (ASan looks). */
Test(linked, damaged_code_is_refused_or_within_bounds)
{
	struct image in[2] = {text("one"), text("two")}, all, out;

	cr_assert_eq(linked_pack(in, 2, &all), 0);
	for (uint64_t size = 80; size < all.size; size++) {
		struct image cut = {malloc(size), size};

		memcpy(cut.data, all.data, size);
		if (linked_is(&cut))
			cr_assert(linked_unpack(&cut, &out) == -EBADMSG ||
				  (free(out.data), size == 16 + (all.size - 16) / 2));
		free(cut.data);
	}
	for (uint64_t at = 16; at < all.size; at++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			((uint8_t *)all.data)[at] ^= 1u << bit;
			if (linked_is(&all) && linked_unpack(&all, &out) == 0) {
				cr_assert_leq(out.size, all.size);
				free(out.data);
			}
			((uint8_t *)all.data)[at] ^= 1u << bit;
		}
	}
	free(all.data);
}
