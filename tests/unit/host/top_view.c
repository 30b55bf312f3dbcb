/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of weftctl top: what is read, in which order, and how wide it gets. */
#include <criterion/criterion.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "tools/ctl/top_view.h"

static const char tenants[] =
	"{\"device\": {\"name\": \"GPU\", \"memory.current\": 1073741824, "
	"\"memory.total\": 4294967296, \"memory.swap.max\": 1073741824, "
	"\"memory.swap.current\": 0, \"gpu.utilization\": 57, \"sessions.current\": 3},"
	"\"tenants\": ["
	"{\"name\": \"b\", \"sessions.current\": 1, \"memory.current\": 5, "
	"\"memory.max\": \"max\", \"gpu.utilization\": 7, \"gpu.time\": 2000000},"
	"{\"name\": \"instance-0000002a-4a2f9b9a-0f6f-4a5e-8a60-0d4d0a6f0001\", "
	"\"sessions.current\": 2, \"sessions.waiting\": 4, \"memory.current\": 1048576, "
	"\"memory.swap.current\": 9, \"memory.max\": 2097152, \"gpu.utilization\": 50, "
	"\"draining\": true},"
	"{\"name\": \"a\"}]}";

static void read_text(struct top_view *v, const char *text, uint64_t at_us)
{
	struct json_object *o = json_tokener_parse(text);

	cr_assert_not_null(o);
	cr_assert_eq(top_read(v, o, at_us), 0);
	json_object_put(o);
}

/* Rows' names in order, by their first letters. */
static const char *order(const struct top_view *v)
{
	static char text[16];

	for (unsigned i = 0; i < v->n; i++)
		text[i] = v->rows[i].name[0];
	text[v->n] = '\0';
	return text;
}

Test(top_view, order_is_the_one_asked_for)
{
	static const struct {
		const char *sort, *order;
	} cases[] = {{"name", "abi"},    {"gpu", "iba"},  {"time", "bia"},
		     {"memory", "iba"},  {"swap", "iba"}, {"waiting", "iba"},
		     {"sessions", "iba"}};
	struct top_view v = {0};

	read_text(&v, tenants, 1);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		v.sort = top_sort_find(cases[i].sort);
		cr_assert_neq(v.sort, TOP_NUM_SORTS);
		cr_assert_not_null(strstr(top_sort_names(), cases[i].sort));
		top_sort(&v);
		cr_assert_str_eq(order(&v), cases[i].order, "%s: %s", cases[i].sort,
				 order(&v));
	}
	v.sort = TOP_NAME;
	v.reverse = true;
	top_sort(&v);
	cr_assert_str_eq(order(&v), "iba");
	cr_assert_eq(top_sort_find("nosuch"), TOP_NUM_SORTS);
	top_fini(&v);
}

Test(top_view, idle_tenants_can_be_hidden)
{
	struct top_view v = {.hide_idle = true, .sort = TOP_NAME};

	read_text(&v, tenants, 1);
	cr_assert_str_eq(order(&v), "bi");
	cr_assert_eq(v.n_tenants, 3);
	top_fini(&v);
}

Test(top_view, lines_fit_any_width)
{
	struct top_view v = {.sort = TOP_GPU};
	char line[TOP_LINE];

	read_text(&v, tenants, 1);
	for (unsigned bytes = 0; bytes < 2; bytes++) {
		v.bytes = bytes;
		for (unsigned width = 1; width < TOP_LINE + 5; width++) {
			top_titles(&v, width, line);
			cr_assert_leq(strlen(line), width);
			for (unsigned i = 0; i < v.n; i++) {
				top_line(&v, i, width, line);
				cr_assert_leq(strlen(line), width);
			}
			for (unsigned i = 0; top_head(&v, i, width, line); i++)
				cr_assert_leq(strlen(line), width);
		}
	}
	top_fini(&v);
}

Test(top_view, long_names_keep_both_ends)
{
	struct top_view v = {.sort = TOP_GPU};
	char line[TOP_LINE];

	read_text(&v, tenants, 1);
	top_line(&v, 0, 80, line);
	cr_assert(!strncmp(line, "instance-0000002a", 17) && strchr(line, '~'), "%s",
		  line);
	cr_assert_not_null(strstr(line, "01 "), "%s", line);
	top_line(&v, 0, 200, line);
	cr_assert_not_null(strstr(line, "-0d4d0a6f0001 "), "%s", line);
	cr_assert_not_null(strstr(line, "drains 2"), "%s", line);
	top_titles(&v, 80, line);
	cr_assert_not_null(strstr(line, "GPU%"));
	top_head(&v, 1, 80, line);
	cr_assert(strstr(line, "57 %") && strchr(line, '|'), "%s", line);
	top_fini(&v);
}

static const char *session(char *buf, unsigned launches, const char *name)
{
	sprintf(buf,
		"{\"sessions\": [{\"session\": 7, \"tenant\": \"t\", \"name\": \"%s\", "
		"\"kind\": \"graphics\", \"launches\": %u, \"copied.to_device\": "
		"\"18446744073709551615\"}]}",
		name, launches);
	return buf;
}

Test(top_view, rates_are_between_two_answers)
{
	struct top_view v = {.by_session = true};
	char buf[256], line[TOP_LINE];

	read_text(&v, session(buf, 100, "p"), 1000000);
	top_line(&v, 0, 200, line);
	cr_assert_not_null(strstr(line, "graphics"), "%s", line);
	cr_assert_eq(v.rows[0].launches_s, 0);
	read_text(&v, session(buf, 300, "p"), 3000000);
	cr_assert_float_eq(v.rows[0].launches_s, 100, 0.01);
	/* Somebody else answers: no rate is below 0. */
	read_text(&v, session(buf, 5, "p"), 4000000);
	cr_assert_eq(v.rows[0].launches_s, 0);
	/* Tenants have no rates, and are none's before. */
	v.by_session = false;
	read_text(&v, tenants, 5000000);
	v.by_session = true;
	read_text(&v, session(buf, 900, "p"), 6000000);
	cr_assert_eq(v.rows[0].launches_s, 0);
	top_fini(&v);
}

Test(top_view, answers_may_be_anything)
{
	static const char *const texts[] = {
		"{}", "{\"tenants\": 7, \"device\": []}",
		"{\"tenants\": [7, [], null, {\"name\": {}}], \"device\": \"x\"}",
		"{\"tenants\": [{\"name\": \"\\u001b[2J\\u00e9\", \"memory.max\": {}}]}"};
	char line[TOP_LINE];

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct top_view v = {0};

		read_text(&v, texts[i], 1);
		for (unsigned k = 0; k < v.n; k++) {
			top_line(&v, k, 80, line);
			for (const char *c = line; *c; c++)
				cr_assert(*c >= ' ' && *c <= '~');
		}
		top_fini(&v);
	}
}
