/* SPDX-License-Identifier: Apache-2.0 */
/* Code images on their way: order of pieces, limits, endings. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "session/image.h"
#include "session/command.h"

/* Nobody counts, unless a test sets it. */
static struct accounts broker;

Test(image, pieces_in_order)
{
	struct images *i;
	struct image img;

	cr_assert_eq(images_new(&broker, &i), 0);
	cr_assert_eq(images_add(i, 1, 0, 6, "abc", 3), 0);
	cr_assert_eq(images_take(i, 1, &img), -ENOENT, "not complete");
	cr_assert_eq(images_add(i, 2, 0, 2, "xy", 2), 0, "another in between");
	cr_assert_eq(images_add(i, 1, 3, 6, "def", 3), 0);
	cr_assert_eq(images_take(i, 1, &img), 0);
	cr_assert_eq(img.size, 6);
	cr_assert_str_eq(img.data, "abcdef", "a NUL stands behind it");
	image_free(i, &img);
	cr_assert_eq(images_take(i, 1, &img), -ENOENT, "taken");
	images_drop(i, 2);
	images_drop(i, 99);
	cr_assert_eq(images_take(i, 2, &img), -ENOENT);
	images_free(i);
}

Test(image, parts_that_do_not_fit_together_are_refused)
{
	struct images *i;
	struct image img;

	cr_assert_eq(images_new(&broker, &i), 0);
	cr_assert_eq(images_add(i, 1, 3, 6, "def", 3), -EPROTO, "no beginning");
	cr_assert_eq(images_add(i, 1, 0, 6, "abc", 3), 0);
	cr_assert_eq(images_add(i, 1, 2, 6, "c", 1), -EPROTO, "a gap or a repetition");
	cr_assert_eq(images_take(i, 1, &img), -ENOENT, "dropped for it");
	cr_assert_eq(images_add(i, 1, 0, 6, "abc", 3), 0);
	cr_assert_eq(images_add(i, 1, 3, 7, "def", 3), -EPROTO, "another total");
	cr_assert_eq(images_add(i, 1, 0, 2, "abc", 3), -EPROTO, "more than the total");
	cr_assert_eq(images_add(i, 1, 0, UINT64_MAX, "a", 1), -ENOMEM);
	cr_assert_eq(images_add(i, 1, 0, IMAGES_BYTES_MAX + 1, "a", 1), -ENOMEM);
	images_free(i);
}

Test(image, images_in_the_making_are_bounded_in_number_and_bytes)
{
	struct images *i;

	cr_assert_eq(images_new(&broker, &i), 0);
	for (unsigned n = 0; n < IMAGES_MAX; n++)
		cr_assert_eq(images_add(i, n, 0, 10, "a", 1), 0);
	cr_assert_eq(images_add(i, IMAGES_MAX, 0, 10, "a", 1), -ENOMEM);
	images_drop(i, 5);
	cr_assert_eq(images_add(i, IMAGES_MAX, 0, 10, "a", 1), 0);
	images_free(i);
	cr_assert_eq(images_new(&broker, &i), 0);
	cr_assert_eq(images_add(i, 1, 0, IMAGES_BYTES_MAX, "a", 1), 0);
	cr_assert_eq(images_add(i, 2, 0, 1, "a", 1), -ENOMEM, "bytes are counted");
	images_free(i);
}

/* Bytes kept here and bytes kept by the driver are one sum. */
Test(image, bytes_kept_here_and_by_the_driver_are_one_sum)
{
	struct image img = {malloc(1), 10, 10}, kept, none = {0};
	struct images *i;

	cr_assert_eq(images_new(&broker, &i), 0);
	cr_assert_eq(images_charge(i, IMAGES_KEPT_MAX - 9), 0);
	cr_assert_eq(images_keep(i, &img, &kept), -ENOMEM);
	cr_assert_not_null(img.data, "still the caller's");
	images_uncharge(i, 1);
	cr_assert_eq(images_keep(i, &img, &kept), 0);
	cr_assert_null(img.data);
	cr_assert_eq(images_charge(i, 1), -ENOMEM);
	cr_assert_eq(images_charge(i, UINT64_MAX), -ENOMEM);
	images_unkeep(i, &kept);
	images_unkeep(i, &kept);
	images_unkeep(i, &none);
	cr_assert_eq(images_charge(i, 10), 0);
	cr_assert_eq(images_charge(i, 1), -ENOMEM);
	images_free(i);
}

/* ---- the tenant's limit ---- */

static uint64_t charged, allowed;

static int charge(void *arg, uint64_t bytes)
{
	if (bytes > allowed - charged)
		return -EDQUOT;
	charged += bytes;
	return 0;
}

static void uncharge(void *arg, uint64_t bytes)
{
	cr_assert_leq(bytes, charged);
	charged -= bytes;
}

/* The charge for an image lasts as long as the image is there, whatever becomes of it. */
Test(image, charged_to_the_tenant)
{
	struct image img, kept, made = {malloc(11), 10};
	struct images *i;

	broker.wmem_charge = charge;
	broker.wmem_uncharge = uncharge;
	allowed = 100;
	cr_assert_eq(images_new(&broker, &i), 0);
	cr_assert_eq(images_add(i, 1, 0, 101, "abc", 3), -ENOMEM);
	cr_assert_eq(images_add(i, 1, 0, 60, "abc", 3), 0);
	cr_assert_eq(charged, 60, "all of it, with the first piece");
	cr_assert_eq(images_add(i, 1, 3, 60, "abc", 3), 0);
	cr_assert_eq(images_add(i, 2, 0, 60, "abc", 3), -ENOMEM);
	images_drop(i, 1);
	cr_assert_eq(charged, 0);
	cr_assert_eq(images_add(i, 1, 0, 3, "abc", 3), 0);
	cr_assert_eq(images_take(i, 1, &img), 0);
	cr_assert_eq(charged, 3, "taken, not gone");
	cr_assert_eq(images_keep(i, &img, &kept), 0);
	cr_assert_eq(charged, 3);
	images_unkeep(i, &kept);
	cr_assert_eq(charged, 0);
	cr_assert_eq(images_keep(i, &made, &kept), 0);
	cr_assert_eq(charged, 10, "made here");
	cr_assert_eq(images_charge(i, 91), -ENOMEM);
	cr_assert_eq(images_charge(i, 90), 0);
	images_uncharge(i, 90);
	images_unkeep(i, &kept);
	cr_assert_eq(images_add(i, 1, 0, 3, "abc", 3), 0);
	cr_assert_eq(images_add(i, 1, 0, 3, "abc", 3), -EPROTO, "again");
	cr_assert_eq(charged, 0);
	cr_assert_eq(images_add(i, 1, 0, 60, "abc", 3), 0);
	images_free(i);
	cr_assert_eq(charged, 0);
}
