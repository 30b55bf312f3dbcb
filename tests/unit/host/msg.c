/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "ipc/msg.h"

Test(msg, each_has_a_name_of_its_own)
{
	for (uint32_t i = 1; i < MSG_NUM; i++) {
		cr_assert_str_neq(msg_name(i), "?", "message %u", i);
		for (uint32_t j = 1; j < i; j++)
			cr_assert_str_neq(msg_name(i), msg_name(j));
	}
}

Test(msg, any_number_can_be_named)
{
	cr_assert_str_eq(msg_name(0), "?");
	cr_assert_str_eq(msg_name(MSG_NUM), "?");
	cr_assert_str_eq(msg_name(UINT32_MAX), "?");
}
