/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's commands to a session, on a loopback lane: for tests of sessions. */
#ifndef WEFT_TEST_GUEST_CALL_H
#define WEFT_TEST_GUEST_CALL_H

#include <criterion/criterion.h>
#include <string.h>

#include "codec.h"
#include "loopback.h"

/* A command, all zero, to be filled in and sent. */
#define begin(l, name)                                                                   \
	({                                                                               \
		struct name##_cmd *_c =                                                  \
			lane_begin(l, WIRE_OP_##name, sizeof(*_c), 0, NULL);             \
		cr_assert_not_null(_c);                                                  \
		memset(_c, 0, sizeof(*_c));                                              \
		_c;                                                                      \
	})

/* Sends it and waits. The body of the reply may be NULL; it is good until the next. */
static inline uint32_t call(struct lane *l, const void **ret_body)
{
	struct lane_reply r;

	cr_assert_eq(lane_call(l, &r), 0);
	if (ret_body)
		*ret_body = r.body;
	return ((const struct wire_result *)r.body)->result;
}

#endif
