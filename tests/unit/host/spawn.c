/* SPDX-License-Identifier: Apache-2.0 */
/* Output of weftd's children, and the users that they get. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/child/output.h"
#include "broker/child/users.h"
#include "broker/loop/loop.h"

/* The loop is not there. */
int source_add(struct loop *l, struct source *src, int fd, uint32_t events,
	       void (*fn)(struct source *, uint32_t))
{
	return -1;
}

void source_remove(struct loop *l, struct source *src)
{
}

int source_pause(struct loop *l, struct source *src)
{
	return -1;
}

int source_resume(struct loop *l, struct source *src, uint32_t events)
{
	return -1;
}

/* Returns the log's text for bytes that a child writes in these pieces. */
static char *logged(const char *const *pieces)
{
	static char text[8192];
	struct output_budget budget = {0};
	struct output o = {.program = "weft-worker", .pid = 7, .budget = &budget};
	int p[2], saved = dup(2);
	ssize_t n;

	cr_assert_eq(pipe(p), 0);
	dup2(p[1], 2);
	for (; *pieces; pieces++)
		output_take(&o, *pieces, strlen(*pieces));
	dup2(saved, 2);
	close(saved);
	close(p[1]);
	n = read(p[0], text, sizeof(text) - 1);
	close(p[0]);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

#define LOGGED(...) logged((const char *const[]){__VA_ARGS__, NULL})

Test(output, says_who_speaks)
{
	cr_assert_str_eq(LOGGED("weft-worker: warning: a\nb\n"),
			 "weft-worker[7]: warning: a\nweft-worker[7]: b\n");
	cr_assert_str_eq(LOGGED("in ", "pieces\n", "rest"),
			 "weft-worker[7]: in pieces\n");
	cr_assert_str_eq(LOGGED("\n\n"), "");
}

Test(output, nothing_is_forged)
{
	cr_assert_str_eq(LOGGED("x\rweftd: info: y\n"),
			 "weft-worker[7]: x?weftd: info: y\n");
	cr_assert_str_eq(LOGGED("\x1b[2J\x9b\t\n"), "weft-worker[7]: ?[2J? \n");
}

Test(output, long_lines_go_on)
{
	char many[OUTPUT_LINE + 10];
	char *text;

	memset(many, 'm', sizeof(many));
	many[sizeof(many) - 2] = '\n';
	many[sizeof(many) - 1] = '\0';
	text = LOGGED(many);
	cr_assert_eq(strlen(text), sizeof(many) - 2 + 2 * strlen("weft-worker[7]: \n"));
}

Test(users, each_has_its_own)
{
	uint64_t taken[2] = {0};
	struct users u = {.first = 1000, .n = 70, .taken = taken};

	for (uint32_t i = 0; i < 70; i++)
		cr_assert_eq(users_take(&u), 1000 + i);
	cr_assert_eq(users_take(&u), 0, "none is left");
	users_give_back(&u, 1069);
	users_give_back(&u, 1003);
	users_give_back(&u, 0);
	users_give_back(&u, 5000);
	cr_assert_eq(users_take(&u), 1003);
	cr_assert_eq(users_take(&u), 1069);
	cr_assert_eq(users_take(&u), 0);
}

Test(users, the_last_one_comes_last)
{
	uint64_t taken[1] = {0};
	struct users u = {.first = 10, .n = 3, .taken = taken};

	cr_assert_eq(users_take(&u), 10);
	users_give_back(&u, 10);
	cr_assert_eq(users_take(&u), 11);
	cr_assert_eq(users_take(&u), 12);
	cr_assert_eq(users_take(&u), 10);
}

Test(users, a_name_space_may_lack_them)
{
	char path[] = "/tmp/weft-map-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_gt(dprintf(fd, "0 1000 1\n1 100000 65536\n"), 0);
	close(fd);
	cr_assert(users_known(path, 1, 65536));
	cr_assert(!users_known(path, 2, 65536));
	cr_assert(!users_known(path, 2000000000, 1));
	unlink(path);
	cr_assert(!users_known(path, 1, 1), "no map at all");
}
