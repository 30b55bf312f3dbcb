/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of guests whose library is older or newer than the host. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "../guest/call.h"
#include "fake.h"
#include "feature.h"
#include "refusal.h"

static struct session *s;
static struct loopback lb;

static void setup(void)
{
	struct loopback_opts o = {.carrier = WIRE_CARRIER_STREAM};

	s = fake_session();
	cr_assert_eq(loopback_init(&lb, &o), 0);
	cr_assert_eq(sess_lane_reserve(s), 0);
	cr_assert_eq(sess_lane_start(s, steal(lb.worker), 0), 0);
}

static void teardown(void)
{
	loopback_fini(&lb);
	sess_join(s);
	sess_free(s);
}

TestSuite(age, .init = setup, .fini = teardown, .timeout = 20);

#define G   (lb.guest)
#define CTX handle_make(HANDLE_CONTEXT, 1, 1)

static void retain(void)
{
	begin(G, primary_retain)->ctx = CTX;
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
	begin(G, ctx_set_current)->ctx = CTX;
	cr_assert_eq(lane_post(G), 0);
}

static uint32_t sync_now(void)
{
	begin(G, cuCtxSynchronize);
	return call(G, NULL);
}

/* The operator sees that, so often. */
static void expect_refused(const char *what, uint64_t count)
{
	const struct page_refusal *f = s->count->refusals;
	uint64_t n = s->count->n_refusals;

	for (uint64_t i = 0; i < n; i++) {
		if (f[i].kind == REFUSAL_VERSION && !strcmp(f[i].what, what)) {
			cr_assert_eq(f[i].count, count);
			return;
		}
	}
	cr_assert_fail("\"%s\" is not there", what);
}

static void meet(const char *version)
{
	struct session_open_cmd *cmd = begin(G, session_open);

	*cmd = (struct session_open_cmd){0};
	strcpy((char *)cmd->library, version);
	cr_assert_eq(call(G, NULL), CUDA_SUCCESS);
}

Test(age, an_unknown_operation_is_refused_and_the_session_goes_on)
{
	static const uint16_t ops[] = {WIRE_NUM_OPS, UINT16_MAX};

	log_set_level(LOG_LVL_NONE);
	meet("9.8.7");
	retain();
	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
		char what[REFUSAL_TEXT];

		cr_assert_not_null(lane_begin(G, ops[i], 40, 100, NULL));
		cr_assert_eq(call(G, NULL), CUDA_ERROR_NOT_SUPPORTED);
		snprintf(what, sizeof(what),
			 "operation %u: library 9.8.7, host " WEFT_VERSION, ops[i]);
		expect_refused(what, 1);
		cr_assert_not_null(lane_begin(G, ops[i], 8, 0, NULL));
		cr_assert_eq(lane_post(G), 0);
		cr_assert_eq(sync_now(), CUDA_ERROR_NOT_SUPPORTED, "of the post");
		cr_assert_eq(sync_now(), CUDA_SUCCESS);
		expect_refused(what, 2);
	}
	cr_assert_eq(s->count->n_refusals, 2, "nothing was counted twice");
}

/* A newer library's: zeros beyond what is known mean nothing. */
Test(age, longer_commands_are_taken_as_far_as_they_are_known)
{
	struct {
		struct cuMemAlloc_v2_cmd cmd;
		uint64_t more[2];
	} * c;

	log_set_level(LOG_LVL_NONE);
	meet("9.8.7");
	retain();
	for (unsigned i = 0; i < 2; i++) {
		c = lane_begin(G, WIRE_OP_cuMemAlloc_v2, sizeof(*c), 0, NULL);
		memset(c, 0, sizeof(*c));
		c->cmd.bytesize = 100;
		c->more[1] = i;
		cr_assert_eq(call(G, NULL), i ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS);
	}
	expect_refused("field of cuMemAlloc_v2: library 9.8.7, host " WEFT_VERSION, 1);
	cr_assert_eq(sync_now(), CUDA_SUCCESS);
}

/* A field of a newer library that lies in what is padding here. */
Test(age, a_field_in_padding_is_refused_by_name)
{
	struct session_open_cmd *c;

	log_set_level(LOG_LVL_NONE);
	meet("9.8.7");
	c = begin(G, session_open);
	*c = (struct session_open_cmd){.pad0 = 1};
	cr_assert_eq(call(G, NULL), CUDA_ERROR_NOT_SUPPORTED);
	expect_refused("field of session_open: library 9.8.7, host " WEFT_VERSION, 1);
}

/* An older library's: what is missing is zero. */
Test(age, shorter_commands_end_in_zeros)
{
	const struct session_open_rep *rep;
	uint8_t *p;

	p = lane_begin(G, WIRE_OP_session_open, 16, 0, NULL);
	memset(p, 0, 16);
	memcpy(p, "0.0.1", 5);
	cr_assert_eq(call(G, (const void **)&rep), CUDA_SUCCESS);
	cr_assert_str_eq((const char *)rep->name, "fake");
	retain();
	/* Nothing at all of the allocation: as if it had asked for no bytes. */
	cr_assert_not_null(lane_begin(G, WIRE_OP_cuMemAlloc_v2, 0, 0, NULL));
	cr_assert_eq(call(G, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(age, versions_are_cleaned_for_the_log)
{
	log_set_level(LOG_LVL_NONE);
	meet("1.\x1b[2J");
	cr_assert_not_null(lane_begin(G, 4000, 0, 0, NULL));
	cr_assert_eq(call(G, NULL), CUDA_ERROR_NOT_SUPPORTED);
	expect_refused("operation 4000: library 1.?[2J, host " WEFT_VERSION, 1);
}
