/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format, and which numbers a page makes of weftd's answers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "exporter/page.h"
#include "exporter/text.h"

static struct text t;

static const char *written(void)
{
	static char copy[65536];

	cr_assert_lt(t.n, sizeof(copy));
	memcpy(copy, t.at, t.n);
	copy[t.n] = '\0';
	text_fini(&t);
	return copy;
}

static const char *sample(const char *value, double number)
{
	const struct text_label l[] = {{"a", "x"}, {"b", value}, {NULL, NULL}};

	text_sample(&t, "m", l, number);
	return written();
}

Test(text, values_of_labels_are_escaped)
{
	cr_expect_str_eq(sample("plain", 1), "m{a=\"x\",b=\"plain\"} 1\n");
	cr_expect_str_eq(sample("\"} 7\nm2 1", 1), "m{a=\"x\",b=\"\\\"} 7\\nm2 1\"} 1\n");
	cr_expect_str_eq(sample("C:\\n", 1), "m{a=\"x\",b=\"C:\\\\n\"} 1\n");
	cr_expect_str_eq(sample("", 1), "m{a=\"x\",b=\"\"} 1\n");
}

Test(text, what_is_no_text_becomes_question_marks)
{
	cr_expect_str_eq(sample("\x1b[2J\x7f", 1), "m{a=\"x\",b=\"?[2J?\"} 1\n");
	cr_expect_str_eq(sample("gr\xc3\xbc\xc3\x9f \xf0\x9f\x90\xa7", 1),
			 "m{a=\"x\",b=\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x90\xa7\"} 1\n");
	/* a lone byte, one too long a form, half of a pair, beyond the last, cut off */
	cr_expect_str_eq(sample("\xff", 1), "m{a=\"x\",b=\"?\"} 1\n");
	cr_expect_str_eq(sample("\xc0\x80", 1), "m{a=\"x\",b=\"??\"} 1\n");
	cr_expect_str_eq(sample("\xed\xa0\x80", 1), "m{a=\"x\",b=\"???\"} 1\n");
	cr_expect_str_eq(sample("\xf4\x90\x80\x80", 1), "m{a=\"x\",b=\"????\"} 1\n");
	cr_expect_str_eq(sample("\xe2\x82", 1), "m{a=\"x\",b=\"??\"} 1\n");
}

Test(text, numbers_are_read_back_as_they_were)
{
	const double numbers[] = {
		0, 0.1, 1.0 / 3, 9007199254740991.0, 1.5e300, 18446744073709551615.0};

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		cr_expect_eq(strtod(strrchr(sample("", numbers[i]), ' '), NULL),
			     numbers[i]);
	cr_expect_str_eq(sample("", INFINITY), "m{a=\"x\",b=\"\"} +Inf\n");
}

Test(text, metrics_without_labels_have_no_braces)
{
	const struct text_label none[] = {{NULL, NULL}};

	text_metric(&t, "weft_up", "gauge", "Whether.");
	text_sample(&t, "weft_up", none, 0);
	cr_expect_str_eq(written(),
			 "# HELP weft_up Whether.\n# TYPE weft_up gauge\nweft_up 0\n");
}

/* ---- the page ---- */

static const char *page(const char *list, bool dcgm)
{
	struct answers a = {.list = json_tokener_parse(list)};

	page_write(&t, &a, dcgm);
	json_object_put(a.list);
	return written();
}

static void has(const char *text, const char *line)
{
	cr_expect(strstr(text, line) != NULL, "no %s in\n%s", line, text);
}

Test(page, a_daemon_that_is_not_there_is_down)
{
	const char *text = page("null", true);

	has(text, "\nweft_up 0\n");
	cr_expect_null(strstr(text, "weft_device"));
}

Test(page, units_are_base_units)
{
	const char *text = page(
		"{\"device\": {\"name\": \"G\", \"memory.total\": 3145728, "
		"\"memory.current\": 1572864, \"gpu.utilization\": 33, "
		"\"memory.swap.max\": \"max\"}, \"tenants\": [{\"name\": \"vm1\", "
		"\"vm.uuid\": \"u\", \"gpu.time\": 1500000, \"memory.max\": \"max\", "
		"\"memory.peak\": \"18446744073709551615\", "
		"\"memory.events\": {\"oom\": 2}, \"draining\": true}]}",
		true);

	has(text, "\nweft_device_utilization_ratio 0.33\n");
	has(text, "\nweft_swap_size_bytes +Inf\n");
	has(text, "\nweft_tenant_gpu_seconds_total{tenant=\"vm1\",vm_uuid=\"u\"} 1.5\n");
	has(text, "\nweft_tenant_memory_max_bytes{tenant=\"vm1\",vm_uuid=\"u\"} +Inf\n");
	has(text, "_peak_bytes{tenant=\"vm1\",vm_uuid=\"u\"} 1.844674407370955");
	has(text, "tenant=\"vm1\",vm_uuid=\"u\",event=\"oom\"} 2\n");
	has(text, "\nweft_tenant_draining{tenant=\"vm1\",vm_uuid=\"u\"} 1\n");
	has(text, "\nDCGM_FI_DEV_FB_USED{gpu=\"0\",modelName=\"G\"} 1\n");
	has(text, "\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",modelName=\"G\"} 33\n");
}

Test(page, members_of_another_make_are_left_out)
{
	const char *text = page("{\"device\": {\"memory.total\": \"much\"}, "
				"\"tenants\": [{\"name\": 7, \"sessions.current\": 1.5, "
				"\"refused\": []}, 3], \"sessions\": [[]]}",
				false);

	cr_expect_null(strstr(text, "\nweft_device_memory_size_bytes "));
	cr_expect_null(strstr(text, "\nweft_tenant_sessions{"));
	cr_expect_null(strstr(text, "DCGM"));
	has(text, "\nweft_up 1\n");
}

Test(page, samples_of_a_metric_follow_each_other)
{
	const char *text = page("{\"device\": {}, \"tenants\": [{\"name\": \"a\", "
				"\"memory.stat\": {\"moved_out\": 1, \"moved_in\": 2}}, "
				"{\"name\": \"b\", \"memory.stat\": {\"moved_out\": 3, "
				"\"moved_in\": 4}}]}",
				false);

	has(text, "_total{tenant=\"a\",vm_uuid=\"\",direction=\"out\"} 1\n"
		  "weft_tenant_swap_moved_bytes_total{tenant=\"a\",vm_uuid=\"\","
		  "direction=\"in\"} 2\n"
		  "weft_tenant_swap_moved_bytes_total{tenant=\"b\",vm_uuid=\"\","
		  "direction=\"out\"} 3\n");
}
