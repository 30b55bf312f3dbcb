/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of snippets, for the tests of the PTX front end. */
#ifndef WEFT_TEST_PTX_TEXT_H
#define WEFT_TEST_PTX_TEXT_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/ptx.h"
#include "verify.h"

#define PTX_HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define PTX_REGS                                                                         \
	".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %d<8>; "          \
	".reg .f32 %f<8>; .reg .f64 %g<8>; .reg .b128 %q<4>;\n"

static char ptx_test_log[2048];

/* Parses text; checks the guarantees of what came out. */
static inline int ptx_test_parse(const char *text, struct ptx_module **ret)
{
	struct ptx_log log = {ptx_test_log, sizeof(ptx_test_log), 0};
	int r;

	*ptx_test_log = 0;
	*ret = NULL;
	r = ptx_parse(text, strlen(text), &log, ret);
	if (r == 0) {
		const char *e = ptx_verify(*ret);

		cr_assert(!e, "%s\n%s", e, text);
	}
	return r;
}

/* Must parse. */
static inline struct ptx_module *ptx_test_module(const char *text)
{
	struct ptx_module *m;

	cr_assert_eq(ptx_test_parse(text, &m), 0, "%s\n%s", ptx_test_log, text);
	return m;
}

/* Must not; the log must have what. */
static inline void ptx_test_refuse(const char *text, const char *what)
{
	struct ptx_module *m;

	cr_assert_lt(ptx_test_parse(text, &m), 0, "taken: %s", text);
	cr_assert(strstr(ptx_test_log, what), "%s\nlacks \"%s\" for\n%s", ptx_test_log,
		  what, text);
}

#endif
