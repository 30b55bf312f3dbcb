/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up functions by name, version and kind of default stream. */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/macros.h"
#include "gen/proc.h"

static char f[8];

/* Sorted as the generated table is. */
const struct proc proc_table[] = {
	{"cuAlpha", 2000, NULL, NULL},    {"cuAlpha", 3020, &f[0], NULL},
	{"cuAlpha", 11040, &f[1], NULL},  {"cuBeta", 4000, &f[2], &f[3]},
	{"cuBetaMax", 12000, NULL, NULL}, {"cuGamma", 9000, &f[4], &f[5]},
	{"cuGamma", 12000, NULL, NULL},
};
const unsigned proc_count = ARRAY_SIZE(proc_table);

static int find(const char *name, int version, bool per_thread)
{
	void *fn = NULL;
	int r = proc_find(name, version, per_thread, &fn);

	return r < 0 ? r : (int)((char *)fn - f);
}

Test(proc, newest_version_that_the_program_knows)
{
	cr_assert_eq(find("cuAlpha", 3020, false), 0);
	cr_assert_eq(find("cuAlpha", 11030, false), 0);
	cr_assert_eq(find("cuAlpha", 11040, false), 1);
	cr_assert_eq(find("cuAlpha", 13000, true), 1);
}

Test(proc, per_thread_variants_since_7_0)
{
	cr_assert_eq(find("cuBeta", 13000, false), 2);
	cr_assert_eq(find("cuBeta", 13000, true), 3);
	cr_assert_eq(find("cuBeta", 6050, true), 2);
}

Test(proc, what_is_not_there)
{
	cr_assert_eq(find("cuBeta", 3020, false), -ERANGE);
	cr_assert_eq(find("cuAlpha", 2000, false), -ENOENT, "not supported");
	cr_assert_eq(find("cuGamma", 13000, false), -ENOENT, "the old one will not do");
	cr_assert_eq(find("cuGamma", 11080, false), 4);
	cr_assert_eq(find("cuBet", 13000, false), -ENOENT);
	cr_assert_eq(find("cuBetaMaximal", 13000, false), -ENOENT);
	cr_assert_eq(find("cuZeta", 13000, false), -ENOENT);
	cr_assert_eq(find("", 13000, false), -ENOENT);
}
