/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/conf.h"
#include "util/size.h"

static int parse(struct conf *c, const char *text, char **ret_why)
{
	cr_assert_eq(conf_init(c), 0);
	return conf_parse(c, text, ret_why);
}

Test(conf, everything)
{
	struct conf_tenant *t;
	struct conf c;
	char *why = NULL;

	cr_assert_eq(parse(&c,
			   "; a comment\n"
			   "[daemon]\n"
			   "run-dir = /run/x\n"
			   "socket = /run/x/s\n"
			   "control=/run/x/c\n"
			   "user = nobody\n"
			   "sandbox = log\n"
			   "device = soft\n"
			   "tpcs = 8\n"
			   "threads = 2\n"
			   "memory = 512M\n"
			   "pool = 3\n"
			   "host.max = 9G\nswap = 4G\nreserve = 64M\n"
			   "chunk = 128K\n"
			   "placement = largest\n"
			   "[tenant alice]\n"
			   "memory.max = 1G\n"
			   "sessions.max = 2\n"
			   "host.max = 1M\nworker.memory.max = 3M\n"
			   "socket = /tmp/a\n"
			   "mode = 0660\n"
			   "group = kvm\n"
			   "[tenant bob]\n"
			   "window.path = /dev/shm/bob\n"
			   "window.size = 256MiB\n"
			   "[tenant alice]\n"
			   "memory.max = 2G\n",
			   &why),
		     0, "%s", why);
	cr_assert_str_eq(c.run_dir, "/run/x");
	cr_assert_str_eq(c.socket, "/run/x/s");
	cr_assert_str_eq(c.control, "/run/x/c");
	cr_assert_str_eq(c.user, "nobody");
	cr_assert_str_eq(c.sandbox, "log");
	cr_assert_str_eq(c.device, "soft");
	cr_assert(c.tpcs == 8 && c.threads == 2 && c.pool == 3);
	cr_assert_eq(c.memory, 512ull << 20);
	cr_assert(c.swap == 4ull << 30 && c.chunk == 128u << 10);
	cr_assert_eq(c.host_max, 9ull << 30);
	cr_assert_eq(c.reserve, 64u << 20);
	cr_assert_str_eq(c.placement, "largest");
	t = list_entry(c.tenants.next, struct conf_tenant, link);
	cr_assert_str_eq(t->name, "alice");
	cr_assert_eq(t->memory.max, 2ull << 30, "a section may come again");
	cr_assert(t->host_max == 1u << 20 && t->wmem_max == 3u << 20);
	cr_assert(t->sessions_max == 2 && t->mode == 0660);
	cr_assert_str_eq(t->socket, "/tmp/a");
	cr_assert_str_eq(t->group, "kvm");
	t = list_entry(t->link.next, struct conf_tenant, link);
	cr_assert_str_eq(t->name, "bob");
	cr_assert_eq(t->window_size, 256ull << 20);
	cr_assert_eq(t->memory.max, UINT64_MAX);
	cr_assert_eq(t->link.next, &c.tenants);
	conf_fini(&c);
}

Test(conf, memory_keys)
{
	struct conf_memory *m;
	struct conf c;

	cr_assert_eq(parse(&c,
			   "[tenant a]\nmemory.min = 1G\nmemory.low = 2G\n"
			   "memory.high = 3G\nmemory.max = 4G\nmemory.swap.max = 0\n"
			   "memory.weight = 10000\n",
			   NULL),
		     0);
	m = &list_entry(c.tenants.next, struct conf_tenant, link)->memory;
	cr_assert(m->min == 1ull << 30 && m->low == 2ull << 30 && m->high == 3ull << 30);
	cr_assert(m->max == 4ull << 30 && m->swap_max == 0 && m->weight == 10000);
	for (unsigned i = 0; conf_memory_keys[i]; i++)
		cr_assert_not_null(conf_memory_key(m, conf_memory_keys[i]));
	cr_assert_null(conf_memory_key(m, "memory.current"));
	conf_fini(&c);
	cr_assert_eq(parse(&c, "[tenant a]\n", NULL), 0);
	m = &list_entry(c.tenants.next, struct conf_tenant, link)->memory;
	cr_assert(m->min == 0 && m->low == 0 && m->high == UINT64_MAX);
	cr_assert(m->max == UINT64_MAX && m->swap_max == UINT64_MAX && m->weight == 100);
	cr_assert(c.swap == 0 && c.chunk == 8u << 20 && c.reserve == UINT64_MAX);
	cr_assert_str_eq(c.placement, "lru");
	conf_fini(&c);
}

Test(conf, empty_sections_make_tenants)
{
	struct conf_tenant *t;
	struct conf c;

	cr_assert_eq(parse(&c, "[tenant a]\n  [tenant b]  ; comment\n[daemon]\npool=1\n",
			   NULL),
		     0);
	t = list_entry(c.tenants.next, struct conf_tenant, link);
	cr_assert_str_eq(t->name, "a");
	t = list_entry(t->link.next, struct conf_tenant, link);
	cr_assert_str_eq(t->name, "b");
	cr_assert_eq(c.pool, 1);
	conf_fini(&c);
	cr_assert_eq(parse(&c, "", NULL), 0);
	conf_fini(&c);
}

static void bad(const char *text, const char *where)
{
	struct conf c;
	char *why = NULL;

	cr_assert_lt(parse(&c, text, &why), 0, "%s", text);
	cr_assert(why && strstr(why, where), "%s: said \"%s\"", text, why);
	free(why);
	conf_fini(&c);
}

Test(conf, mistakes_name_their_line)
{
	bad("[daemon]\npool = 2\npoool = 3\n", "text:3: [daemon] poool = 3: no such key");
	bad("[daemon]\npool = many\n", ":2:");
	bad("[daemon]\npool = 65\n", ":2:");
	bad("[daemon]\ndevice = gpu\n", ":2:");
	bad("[daemon]\nsocket = relative\n", ":2:");
	bad("[daemon]\nmemory = 1X\n", ":2:");
	bad("[daemon]\nmemory = 99999999999999999999\n", "number too large");
	bad("[daemon]\nmemory = -1\n", ":2:");
	bad("[daemon]\nchunk = 64K\n", ":2:");
	bad("[daemon]\nchunk = 128M\n", ":2:");
	bad("[daemon]\nchunk = 3M\n", ":2:");
	bad("[daemon]\nplacement = best\n", ":2:");
	bad("[tenant a]\nmemory.weight = 0\n", ":2:");
	bad("[tenant a]\nmemory.weight = 10001\n", ":2:");
	bad("[vm x]\na = b\n", "no such section");
	bad("[tenant ../x]\nmemory.max = 1\n", "no such section");
	bad("[tenant ]\nmemory.max = 1\n", "no such section");
	bad("[tenant a]\nmode = 999\n", ":2:");
	bad("[tenant a]\nmode = 07777\n", ":2:");
	bad("pool = 2\n", ":1:");
	bad("[daemon\n", ":1:");
	bad("[daemon]\nnonsense\n", ":2:");
}

Test(conf, missing_file)
{
	struct conf c;
	char *why = NULL;

	cr_assert_eq(conf_init(&c), 0);
	cr_assert_eq(conf_read(&c, "/nonexistent/weftd.conf", &why), -ENOENT);
	cr_assert(why && strstr(why, "/nonexistent/weftd.conf"));
	free(why);
	conf_fini(&c);
}

Test(conf, names)
{
	cr_assert_eq(conf_name_check("vm-1.example_x"), 0);
	cr_assert_lt(conf_name_check(""), 0);
	cr_assert_lt(conf_name_check(".hidden"), 0);
	cr_assert_lt(conf_name_check("a/b"), 0);
	cr_assert_lt(conf_name_check("a b"), 0);
	cr_assert_lt(conf_name_check("012345678901234567890123456789012345678901234567890"
				     "1234567890123"),
		     0);
}

Test(size, parse)
{
	static const struct {
		const char *text;
		uint64_t want;
	} good[] = {
		{"0", 0},
		{"4096", 4096},
		{"1K", 1024},
		{"2k", 2048},
		{"512M", 512ull << 20},
		{"16GiB", 16ull << 30},
		{"1TB", 1ull << 40},
		{"7B", 7},
		{"max", UINT64_MAX},
		{"18446744073709551615", UINT64_MAX},
	};
	static const char *const wrong[] = {"",
					    "x",
					    "-1",
					    "+1",
					    " 1",
					    "1.5G",
					    "1GG",
					    "1iB",
					    "G",
					    "1 G",
					    "0x10",
					    "1Mi ",
					    "18446744073709551616",
					    "16777216T"};
	uint64_t v;

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_assert_eq(size_parse(good[i].text, &v), 0, "%s", good[i].text);
		cr_assert_eq(v, good[i].want, "%s", good[i].text);
	}
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		v = 42;
		cr_assert_lt(size_parse(wrong[i], &v), 0, "%s", wrong[i]);
		cr_assert_eq(v, 42, "written on failure");
	}
}

Test(size, format)
{
	char buf[32];

	cr_assert_str_eq(size_format(0, buf, sizeof(buf)), "0 B");
	cr_assert_str_eq(size_format(1536, buf, sizeof(buf)), "1.5 KiB");
	cr_assert_str_eq(size_format(14ull << 20, buf, sizeof(buf)), "14 MiB");
	cr_assert_str_eq(size_format(UINT64_MAX, buf, sizeof(buf)), "max");
}
