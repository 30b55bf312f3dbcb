/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA_VISIBLE_DEVICES. */
#include <criterion/criterion.h>

#include "core/device_visible.h"

static const uint8_t uuid[16] = {0xde, 0xad, 0xbe, 0xef, 1, 2,  3,  4,
				 5,    6,    7,    8,    9, 10, 11, 12};

Test(guest_visible, visible_ordinals_end_at_the_first_wrong_one)
{
	cr_expect_eq(device_visible(NULL, uuid), 1);
	cr_expect_eq(device_visible("0", uuid), 1);
	cr_expect_eq(device_visible(" 0", uuid), 1);
	cr_expect_eq(device_visible("0,1", uuid), 1);
	cr_expect_eq(device_visible("", uuid), 0);
	cr_expect_eq(device_visible("-1", uuid), 0);
	cr_expect_eq(device_visible("1", uuid), 0);
	cr_expect_eq(device_visible("1,0", uuid), 0, "an invalid entry ends the list");
	cr_expect_eq(device_visible("none", uuid), 0);
	cr_expect_eq(device_visible(",0", uuid), 0);
	cr_expect_eq(device_visible("99999999999999999999", uuid), 0);
}

Test(guest_visible, a_uuid_is_matched_by_its_beginning)
{
	char text[DEVICE_UUID_TEXT];

	device_uuid_text(uuid, text);
	cr_expect_str_eq(text, "GPU-deadbeef-0102-0304-0506-0708090a0b0c");
	cr_expect_eq(device_visible(text, uuid), 1);
	cr_expect_eq(device_visible("GPU-dead", uuid), 1);
	cr_expect_eq(device_visible("gpu-DEADBEEF", uuid), 1);
	cr_expect_eq(device_visible("GPU-", uuid), 0);
	cr_expect_eq(device_visible("GPU-feed", uuid), 0);
	cr_expect_eq(device_visible("GPU-deadbeef-0102-0304-0506-0708090a0b0c0", uuid),
		     0);
	cr_expect_eq(device_visible("GPU-feed,0", uuid), 0);
	cr_expect_eq(device_visible("MIG-dead", uuid), 0);
}
