/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/conf.h"
#include "util/size.h"

static int parse(struct conf *c, const char *text, char **ret_why)
{
	cr_assert_eq(conf_init(c), 0);
	return conf_parse(c, text, ret_why);
}

Test(conf, every_key_is_read)
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
			   "cgroup = /sys/fs/cgroup/weft\n"
			   "device = soft\n"
			   "tpcs = 8\n"
			   "threads = 2\n"
			   "memory = 512M\n"
			   "pool = 3\n"
			   "host.max = 9G\nswap = 4G\nreserve = 64M\n"
			   "piece = 128K\nreclaim.kill = 0\n"
			   "placement = largest\nextents = /etc/weft/extents\n"
			   "[tenant alice]\n"
			   "memory.max = 1G\n"
			   "sessions.max = 2\nlanes.max = 99\n"
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
	cr_assert_str_eq(c.cgroup, "/sys/fs/cgroup/weft");
	cr_assert_str_eq(c.device, "soft");
	cr_assert_str_eq(c.extents, "/etc/weft/extents");
	cr_assert(c.tpcs == 8 && c.threads == 2 && c.pool == 3);
	cr_assert_eq(c.memory, 512ull << 20);
	cr_assert(c.swap == 4ull << 30 && c.piece == 128u << 10);
	cr_assert_eq(c.host_max, 9ull << 30);
	cr_assert_eq(c.reserve, 64u << 20);
	cr_assert_eq(c.kill_s, 0);
	cr_assert_str_eq(c.placement, "largest");
	t = list_entry(c.tenants.next, struct conf_tenant, link);
	cr_assert_str_eq(t->name, "alice");
	cr_assert_eq(t->memory.max, 2ull << 30, "a section may come again");
	cr_assert(t->host_max == 1u << 20 && t->wmem_max == 3u << 20);
	cr_assert_eq(t->lanes_max, 99);
	cr_assert(t->sessions_max == 2 && t->mode == 0660);
	cr_assert_str_eq(t->socket, "/tmp/a");
	cr_assert_str_eq(t->group, "kvm");
	t = list_entry(t->link.next, struct conf_tenant, link);
	cr_assert_str_eq(t->name, "bob");
	cr_assert_eq(t->window_size, 256ull << 20);
	cr_assert_eq(t->memory.max, UINT64_MAX);
	cr_assert_eq(t->lanes_max, 768);
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
			   "memory.weight = 10000\ncompute.weight = 9\n"
			   "compute.priority = 100\n",
			   NULL),
		     0);
	m = &list_entry(c.tenants.next, struct conf_tenant, link)->memory;
	cr_assert(m->min == 1ull << 30 && m->low == 2ull << 30 && m->high == 3ull << 30);
	cr_assert(m->max == 4ull << 30 && m->swap_max == 0 && m->weight == 10000);
	cr_assert_eq(list_entry(c.tenants.next, struct conf_tenant, link)->compute.weight,
		     9);
	cr_assert_eq(
		list_entry(c.tenants.next, struct conf_tenant, link)->compute.priority,
		100);
	for (unsigned i = 0; conf_memory_keys[i]; i++)
		cr_assert_not_null(conf_memory_key(m, conf_memory_keys[i]));
	cr_assert_null(conf_memory_key(m, "memory.current"));
	conf_fini(&c);
	cr_assert_eq(parse(&c, "[tenant a]\n", NULL), 0);
	m = &list_entry(c.tenants.next, struct conf_tenant, link)->memory;
	cr_assert(m->min == 0 && m->low == 0 && m->high == UINT64_MAX);
	cr_assert(m->max == UINT64_MAX && m->swap_max == UINT64_MAX && m->weight == 100);
	cr_assert_eq(c.kill_s, 20);
	cr_assert(c.swap == 0 && c.piece == 8u << 20 && c.reserve == UINT64_MAX);
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
	bad("[daemon]\npool = 2\npoool = 3\n", "text:3: no such key: poool");
	bad("[daemon]\npool = many\n", ":2:");
	bad("[daemon]\npool = 65\n", ":2:");
	bad("[daemon]\ndevice = gpu\n", ":2:");
	bad("[daemon]\nsocket = relative\n", ":2:");
	bad("[daemon]\nmemory = 1X\n", ":2:");
	bad("[daemon]\nmemory = 99999999999999999999\n", "number too large");
	bad("[daemon]\nmemory = -1\n", ":2:");
	bad("[daemon]\npiece = 64K\n", ":2:");
	bad("[daemon]\npiece = 128M\n", ":2:");
	bad("[daemon]\npiece = 3M\n", ":2:");
	bad("[daemon]\nplacement = best\n", ":2:");
	bad("[daemon]\nreclaim.kill = never\n", "no number of seconds");
	bad("[tenant a]\nmemory.weight = 0\n", ":2:");
	bad("[tenant a]\nmemory.weight = 10001\n", ":2:");
	bad("[tenant a]\ncompute.weight = 0\n", "no number from 1 to 10000");
	bad("[tenant a]\ncompute.priority = 101\n", "no number from 0 to 100");
	bad("[tenant a]\ncompute.latency = 3600000001\n", "no number of microseconds");
	bad("[tenant a]\ncompute.class = both\n", "neither isolated nor shared");
	bad("[daemon]\nmps = run\n", "neither an absolute path nor none");
	bad("[daemon]\nextents = run\n", "neither an absolute path nor none");
	bad("[tenant a]\ntpc.set = 0,\n", ":2: tpc.set: \"0,\" is no list of TPCs");
	bad("[tenant a]\ngpc.set = 200\n", "gpc.set = 200: number too large");
	bad("[tenant a]\ntpc.count = 129\n", "nor one of per cent such as 30%, nor max");
	bad("[tenant a]\ntpc.exclusive = on\n", "neither yes nor no");
	bad("[tenant a]\ngraphics = yes\n",
	    ":2: graphics: \"yes\" is none of default, off, on");
	bad("[tenant a]\nkernel.rewrite = on\n",
	    "none of off, yield, share, auto, always");
	bad("[daemon]\nkernel.rewrite = default\n",
	    "none of off, yield, share, auto, always");
	bad("[daemon]\nkernel.policy = sum\n", "none of all, sim");
	bad("[tenant a]\nkernel.policy = sim\n", "no such key: kernel.policy");
	bad("[daemon]\ntime = unfair\n", "none of sets, fair, equal");
	bad("[vm x]\na = b\n", "no such section");
	bad("[tenant ../x]\nmemory.max = 1\n", ":1: a tenant's name is");
	bad("[tenant ]\nmemory.max = 1\n", ":1: a tenant's name is");
	bad("[tenant]\n", ":1: no such section");
	bad("[daemon]\npool = 1\n\n[tenant \xc3\xbc]\n", ":4: a tenant's name is");
	bad("[tenant vm 1]\n", ":1: a tenant's name is");
	bad("[tenant 42]\n", ":1: a tenant's name is not a number");
	bad("[tenant a]\nmemory.max = 900T\n", "number too large");
	bad("[daemon]\nmemory = 1G # half\n", "; begins a comment");
	bad("[daemon]\npool = 1\n  [tenant 7]\n", ":3: a tenant's name is");
	bad("[tenant a]\nmode = 999\n", ":2:");
	bad("[tenant a]\nmode = 07777\n", ":2:");
	bad("pool = 2\n", ":1:");
	bad("[daemon\n", ":1:");
	bad("[daemon]\nnonsense\n", ":2:");
}

/* A line continues nothing, however it is indented and however long it is. */
Test(conf, a_line_continues_nothing_however_long)
{
	char text[900], name[64];
	struct conf_tenant *t;
	struct conf c;

	cr_assert_eq(parse(&c, "\xef\xbb\xbf[daemon]\n  pool = 1\n\ttpcs = 3\n", NULL),
		     0);
	cr_assert(c.pool == 1 && c.tpcs == 3);
	conf_fini(&c);
	memset(name, 'n', 63);
	name[63] = '\0';
	snprintf(text, sizeof(text), "; %0400d\n[tenant %s]\nmemory.max = 1G\n", 7, name);
	cr_assert_eq(parse(&c, text, NULL), 0);
	t = list_entry(c.tenants.next, struct conf_tenant, link);
	cr_assert_str_eq(t->name, name);
	cr_assert_eq(t->memory.max, 1u << 30);
	cr_assert_eq(t->at.line, 2);
	conf_fini(&c);
	snprintf(text, sizeof(text), "[tenant a]\nsocket = /%0400d\nmemory.max = 1G\n",
		 7);
	bad(text, ":2: the line is too long");
}

/* ---- the whole ---- */

struct said {
	char wrong[600], warned[600];
};

static void listen_to(void *arg, bool wrong, const char *text)
{
	struct said *s = arg;
	char *to = wrong ? s->wrong : s->warned;

	snprintf(to + strlen(to), 600 - strlen(to), "%s\n", text);
}

static struct said check(const char *text, uint64_t device)
{
	struct said s = {0};
	struct conf c;
	unsigned n;

	cr_assert_eq(parse(&c, text, NULL), 0, "%s", text);
	c.device_total = device;
	cr_assert_eq(conf_complete(&c), 0);
	cr_assert_eq(conf_complete(&c), 0, "twice is the same");
	n = conf_check(&c, "text", listen_to, &s);
	cr_assert_eq(n > 0, *s.wrong != 0, "%u wrong: %s", n, s.wrong);
	conf_fini(&c);
	return s;
}

static void is_wrong(const char *text, const char *words)
{
	struct said s = check(text, 0);

	cr_expect(strstr(s.wrong, words), "%s: said \"%s\"", text, s.wrong);
}

static void is_warned(const char *text, const char *words)
{
	struct said s = check(text, 1u << 30);

	cr_expect(!*s.wrong && strstr(s.warned, words), "%s: said \"%s\", \"%s\"", text,
		  s.wrong, s.warned);
}

#define RUN "[daemon]\nrun-dir = /r\n"

Test(conf, one_file_is_one_thing)
{
	struct said s;

	is_wrong("[tenant a]\nsocket = /x\n[tenant b]\nsocket = /x\n",
		 "text:4: /x is both the socket of tenant a, line 2, and the socket of "
		 "tenant "
		 "b, line 4");
	is_wrong("[tenant a]\nwindow.path = /x\nwindow.size = 16M\n"
		 "[tenant b]\nwindow.path = /x\nwindow.size = 16M\n",
		 "text:5: /x is both the window of tenant a, line 2, and the window of "
		 "tenant "
		 "b, line 5");
	is_wrong("[tenant a]\nsocket = /x\nwindow.path = /x\nwindow.size = 16M\n",
		 "/x is both");
	is_wrong(RUN "[tenant weft]\n", "/r/weft.sock is both");
	is_wrong(RUN "[tenant a]\nsocket = /r/control\n",
		 "the daemon's control socket, and the socket of tenant a, line 4");
	is_wrong(RUN "[tenant a]\nsocket = /r/lock\n", "the daemon's lock");
	is_wrong(RUN "control = /r/a.sock\n[tenant a]\n", "/r/a.sock is both");
	is_wrong(RUN "[tenant a]\nsocket = /r/b.sock\n[tenant b]\n", "/r/b.sock is both");
	s = check(RUN "[tenant control]\n[tenant lock]\n[tenant local]\n", 0);
	cr_assert(!*s.wrong && !*s.warned, "%s%s", s.wrong, s.warned);
}

Test(conf, contradicting_keys_are_an_error)
{
	is_wrong("[tenant a]\nmemory.min = 4G\nmemory.max = 1G\n",
		 "text:3: tenant a: memory.min 4 GiB is above memory.max 1 GiB, see line "
		 "2");
	is_wrong("[daemon]\nmemory = 1G\n[tenant a]\nmemory.min = 600M\n"
		 "[tenant b]\nmemory.min = 600M\n",
		 "memory.min of all tenants is 1.2 GiB, the device has 1 GiB");
	is_wrong("[tenant a]\nmemory.min = max\n[tenant b]\nmemory.min = max\n"
		 "[daemon]\nmemory = 1G\n",
		 "the device has 1 GiB");
	is_wrong("[tenant a]\nvm.uuid = 6d2f6a0e-4b0c-4d3a-9a5e-0f3c1c1b2a3d\n"
		 "[tenant b]\nvm.uuid = 6D2F6A0E-4B0C-4D3A-9A5E-0F3C1C1B2A3D\n",
		 "text:4: vm.uuid 6d2f6a0e-4b0c-4d3a-9a5e-0f3c1c1b2a3d is that of tenant "
		 "b, and of tenant a, line 2");
	is_wrong("[tenant a]\nwindow.size = 16M\n", "window.size without window.path");
	is_wrong("[tenant a]\nwindow.path = /w\n",
		 "text:2: tenant a: window.size must be");
	is_wrong("[tenant a]\nwindow.path = /w\nwindow.size = 1000\n",
		 "text:2: tenant a");
	is_wrong("[tenant a]\nwindow.path = /w\nwindow.size = 60M\n", "power of two");
	is_wrong("[tenant a]\ngroup = no-such-group\n", "text:1: tenant a: no group");
	is_wrong("[tenant a]\nowner = no-such-user\n", "text:1: tenant a: no user");
	is_wrong("[daemon]\nuser = no-such-user\n", "no user \"no-such-user\"");
	is_wrong("[daemon]\noperators = no-such-group\n", "no group \"no-such-group\"");
}

Test(conf, class_shared_has_no_order)
{
	is_wrong("[tenant a]\ncompute.class = shared\ncompute.priority = 1\n",
		 "compute.class = shared and compute.priority contradict");
	is_wrong("[tenant a]\ncompute.class = shared\ncompute.weight = 200\n",
		 "compute.class = shared and compute.weight contradict");
	is_wrong("[daemon]\ndevice = cuda\n[tenant a]\ncompute.class = shared\n",
		 "compute.class = shared wants mps in [daemon]");
}

Test(conf, doubtful_keys_are_a_warning)
{
	is_warned("[tenant a]\n[tenant b]\n[tenant a]\n",
		  "text:3: [tenant a] is there already, in line 1");
	is_warned("[tenant a]\nmemory.low = 2G\nmemory.max = 1G\n", "memory.low 2 GiB");
	is_warned("[tenant a]\nmemory.max = 2G\n",
		  "memory.max 2 GiB is more than the device has: 1 GiB");
	is_warned("[tenant a]\nmemory.high = 1G\n",
		  "text:2: tenant a: memory.high has no effect without swap");
	is_warned("[tenant a]\ncompute.max = 5000 2000\n", "there is no limit");
	is_warned("[daemon]\nswap=1G\n[tenant a]\nmemory.max = 3G\n",
		  "device and swap together has: 2 GiB");
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

Test(conf, a_name_fits_a_file_and_is_no_number)
{
	cr_assert_null(conf_name_error("vm-1.example_x"));
	cr_assert_null(conf_name_error("42a"));
	cr_assert_not_null(conf_name_error("42"));
	cr_assert_not_null(conf_name_error(""));
	cr_assert_not_null(conf_name_error(".hidden"));
	cr_assert_not_null(conf_name_error("a/b"));
	cr_assert_not_null(conf_name_error("a b"));
	cr_assert_not_null(
		conf_name_error("012345678901234567890123456789012345678901234567890"
				"1234567890123"));
}

Test(size, a_size_is_read_with_its_unit_or_refused)
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
		{"1.5G", 3ull << 29},
		{"0.5K", 512},
		{"1.0009765625M", (1u << 20) + 1023},
		{"2.25GiB", 9ull << 28},
		{"7B", 7},
		{"max", UINT64_MAX},
		{"18446744073709551615", UINT64_MAX},
	};
	static const char *const wrong[] = {"",
					    "x",
					    "-1",
					    "+1",
					    " 1",
					    "1.5",
					    "1.G",
					    ".5G",
					    "1.5.5G",
					    "1.5B",
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

Test(size, a_size_is_written_in_its_largest_unit)
{
	char buf[32];

	cr_assert_str_eq(size_format(0, buf, sizeof(buf)), "0 B");
	cr_assert_str_eq(size_format(1536, buf, sizeof(buf)), "1.5 KiB");
	cr_assert_str_eq(size_format(14ull << 20, buf, sizeof(buf)), "14 MiB");
	cr_assert_str_eq(size_format(UINT64_MAX, buf, sizeof(buf)), "max");
}

/* ---- what others call it ---- */

static struct conf_tenant *tenant;

static int set(const char *key, const char *value)
{
	conf_tenant_free(tenant);
	tenant = conf_tenant_new("vm1");
	return conf_tenant_set(tenant, key, value);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
}

Test(conf, what_was_read_can_be_read_again)
{
	char dir[] = "/tmp/weft-conf-XXXXXX", file[64], drops[64], drop[80];
	struct conf c, again;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/conf", dir);
	snprintf(drops, sizeof(drops), "%s/conf.d", dir);
	snprintf(drop, sizeof(drop), "%s/a.conf", drops);
	cr_assert_eq(mkdir(drops, 0700), 0);
	write_file(file, "[daemon]\npool = 3\n[tenant a]\nmemory.max = 1G");
	write_file(drop, "[tenant a]\nmemory.max = 2G\n[tenant b]\n");
	cr_assert_eq(conf_init(&c), 0);
	cr_assert_eq(conf_read_all(&c, file, true, NULL), 0);
	cr_assert_eq(parse(&again, c.text, NULL), 0);
	cr_expect_eq(again.pool, 3);
	cr_expect_eq(conf_tenant_find(&again, "a")->memory.max, 2ull << 30);
	cr_expect_not_null(conf_tenant_find(&again, "b"));
	conf_fini(&again);
	conf_fini(&c);
	cr_assert_eq(conf_init(&c), 0);
	cr_expect_eq(conf_read(&c, dir, NULL), -EISDIR);
	cr_expect_null(c.text);
	conf_fini(&c);
	unlink(drop);
	rmdir(drops);
	unlink(file);
	rmdir(dir);
}

Test(alias, profiles_become_memory)
{
	static const struct {
		const char *name;
		uint64_t bytes;
		unsigned quota, weight;
	} all[] = {
		{"1g.18gb", 18000000000, 14285, 100},
		{"MIG 3g.71gb", 71000000000, 42857, 300},
		{"7g.141gb", 141000000000, 0, 700},
		{"1g.5GB", 5000000000, 14285, 100},
		{"H200X-18C", 18ull << 30, 0, 100},
		{"NVIDIA A40-48Q", 48ull << 30, 0, 100},
		{"GRID M10-0B", 1ull << 29, 0, 100},
		{"A100-1-5C", 5ull << 30, 14285, 100},
		{"DC-4-24Q", 24ull << 30, 57142, 400},
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		cr_assert_eq(set("profile", all[i].name), 0, "%s", all[i].name);
		cr_expect_eq(tenant->memory.max, all[i].bytes, "%s", all[i].name);
		cr_expect_eq(tenant->memory.min, all[i].bytes, "%s", all[i].name);
		cr_expect_eq(tenant->compute.max.quota_us, all[i].quota, "%s",
			     all[i].name);
		cr_expect_eq(tenant->compute.weight, all[i].weight, "%s", all[i].name);
		cr_expect_str_eq(tenant->profile, all[i].name);
	}
}

Test(alias, what_is_no_profile_is_refused)
{
	static const char *const no[] = {
		"",           "1g",        "g.18gb",  "0g.18gb",  "8g.18gb",
		"1g.gb",      "1g.0gb",    "1g.18",   "1g.18gbx", "1g.99999gb",
		"H200X",      "H200X-",    "H200X-C", "H200X-18", "H200X-18X",
		"H200X-18CC", "h200x-18C", "X-8-18C", "X-0-18C",  "-18C",
	};

	for (unsigned i = 0; i < sizeof(no) / sizeof(*no); i++) {
		cr_expect_eq(set("profile", no[i]), -EINVAL, "%s", no[i]);
		cr_expect_eq(tenant->memory.max, UINT64_MAX, "%s", no[i]);
	}
	cr_expect_eq(set("profile", "1g.18gb+me"), -EOPNOTSUPP);
	cr_expect_eq(set("profile", "H200X-1-18CME"), -EOPNOTSUPP);
}

Test(alias, a_profile_ends_when_its_memory_is_changed)
{
	cr_assert_eq(set("profile", "1g.18gb"), 0);
	cr_assert_eq(conf_tenant_set(tenant, "memory.weight", "7"), 0);
	cr_expect_str_eq(tenant->profile, "1g.18gb");
	cr_assert_eq(conf_tenant_set(tenant, "memory.max", "1G"), 0);
	cr_expect_str_eq(tenant->profile, "");
}

Test(alias, limits_of_hami_and_mps_are_memory_max)
{
	cr_assert_eq(set("gpumem", "3000"), 0);
	cr_expect_eq(tenant->memory.max, 3000ull << 20);
	cr_assert_eq(set("nvidia.com/gpumem", "16384"), 0);
	cr_expect_eq(tenant->memory.max, 16ull << 30);
	cr_assert_eq(set("CUDA_DEVICE_MEMORY_LIMIT", "1g"), 0);
	cr_expect_eq(tenant->memory.max, 1ull << 30);
	cr_assert_eq(set("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=512M"), 0);
	cr_expect_eq(tenant->memory.max, 512ull << 20);
	cr_expect_eq(tenant->memory.min, 0);
	cr_expect_eq(set("gpumem", "3000M"), -EINVAL);
	cr_expect_eq(set("gpumem", "99999999999"), -ERANGE);
	cr_expect_eq(set("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "1=512M"), -EINVAL);
	cr_expect_eq(set("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G,1=1G"), -EINVAL);
}

Test(alias, per_cents_are_caps)
{
	static const char *const keys[] = {"gpucores", "CUDA_DEVICE_SM_LIMIT",
					   "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"};

	for (unsigned i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		cr_expect_eq(set(keys[i], "50"), 0);
		cr_expect_eq(tenant->compute.max.quota_us, 50000);
		cr_expect_eq(tenant->compute.max.period_us, 100000);
		cr_expect_eq(set(keys[i], "101"), -EINVAL);
		cr_expect_eq(set(keys[i], "100"), 0);
		cr_expect_eq(tenant->compute.max.quota_us, 0);
	}
	cr_expect_eq(set("gpucores", "0"), 0);
	cr_expect_eq(set("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "0"), -EINVAL);
	cr_expect_eq(set("gpumem-percentage", "50"), -EOPNOTSUPP);
	cr_expect_eq(set("gpu", "50"), -ENOENT);
}

Test(alias, caps_are_quota_and_period)
{
	static const struct {
		const char *text;
		uint32_t quota, period;
	} good[] = {
		{"max", 0, 100000},
		{"25000", 25000, 100000},
		{"25000 50000", 25000, 50000},
		{" 1000\t10000000 ", 1000, 10000000},
		{"max 5000", 0, 5000},
	};
	static const char *const bad[] = {"",    "0",      "999",      "10000001",
					  "-1",  "1000 0", "1000 max", "1000 2000 3",
					  "25%", "x"};
	char text[CONF_CAP_TEXT];

	for (unsigned i = 0; i < sizeof(good) / sizeof(*good); i++) {
		cr_expect_eq(set("compute.max", good[i].text), 0, "%s", good[i].text);
		cr_expect_eq(tenant->compute.max.quota_us, good[i].quota);
		cr_expect_eq(tenant->compute.max.period_us, good[i].period);
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_expect_eq(set("compute.max", bad[i]), -EINVAL, "%s", bad[i]);
	cr_expect_eq(set("compute.max", "2000 3000"), 0);
	cr_expect_str_eq(conf_format_cap(&tenant->compute.max, text, sizeof(text)),
			 "2000 3000");
}

Test(alias, counts_of_tpcs_may_be_per_cents)
{
	cr_expect_eq(set("tpc.count", "30%"), 0);
	cr_expect(tenant->space.percent && tenant->space.count == 30);
	cr_expect_eq(set("tpc.count", "30"), 0);
	cr_expect(!tenant->space.percent && tenant->space.count == 30);
	cr_expect_eq(set("tpc.count", "100%"), 0);
	cr_expect_eq(tenant->space.count, 0);
	cr_expect_eq(set("tpc.count", "0%"), -EINVAL);
	cr_expect_eq(set("tpc.count", "101%"), -EINVAL);
	cr_expect_eq(set("tpc.count", "%"), -EINVAL);
	cr_expect_eq(set("tpc.count", "3%%"), -EINVAL);
}
