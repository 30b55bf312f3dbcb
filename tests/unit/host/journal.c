/* SPDX-License-Identifier: Apache-2.0 */
/* The tenant and session that a message of weftd's is about. */
#include <criterion/criterion.h>
#include <string.h>

#include "util/conf.h"
#include "util/journal.h"

static char name[CONF_NAME_MAX + 1];
static uint64_t session;

static bool about(const char *text)
{
	return journal_about(text, name, &session);
}

Test(journal, a_message_about_a_tenant_begins_with_it)
{
	cr_assert(about("tenant vm1: memory.max was max, is 1 GiB (uid 0, pid 7)"));
	cr_expect_str_eq(name, "vm1");
	cr_expect_eq(session, 0);
	cr_assert(about("tenant a-b.c_d has its 64 sessions"));
	cr_expect_str_eq(name, "a-b.c_d");
	cr_expect_eq(session, 0);
	cr_assert(about("tenant vm1 session 18446744073709551615: ended"));
	cr_expect_eq(session, UINT64_MAX);
	cr_assert(about("tenant vm1 session 6: tenant vm2 session 7: over unix"));
	cr_expect_str_eq(name, "vm1");
	cr_expect_eq(session, 6);
}

Test(journal, other_messages_are_about_none)
{
	char longest[100] = "tenant ";

	cr_expect_not(about("ends: tenant vm1"));
	cr_expect_not(about("tenant"));
	cr_expect_not(about("tenant "));
	cr_expect_not(about("tenant vm1"));
	cr_expect_not(about("tenant : x"));
	cr_expect_not(about("tenant ../x: y"));
	memset(longest + 7, 'a', CONF_NAME_MAX);
	strcpy(longest + 7 + CONF_NAME_MAX, ": x");
	cr_expect(about(longest));
	strcpy(longest + 7 + CONF_NAME_MAX, "a: x");
	cr_expect_not(about(longest));
}
