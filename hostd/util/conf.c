/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "util/conf.h"
#include "util/conf_alias.h"
#include "policies/blocks.h"
#include "policies/placement.h"
#include "policies/time.h"
#include "util/sandbox.h"
#include "util/size.h"
#include "util/tpcs.h"

/* Sessions of one tenant at once: guest processes, each a worker process here. */
#define SESSIONS_DEFAULT 64u
/* Lanes of one tenant: all that one program may have, and some hundreds for others. */
#define LANES_DEFAULT 768u
#define LANES_MAX     65536u
#define POOL_DEFAULT  2u
#define POOL_MAX      64u
/* Sizes of pieces that the software device and a real one can move, both ends included. */
#define PIECE_BYTES_MIN     (128ull << 10)
#define PIECE_BYTES_MAX     (64ull << 20)
#define PIECE_BYTES_DEFAULT (8ull << 20) /* SPACE_PIECE says why */
#define PLACEMENT_DEFAULT   "lru"
/* Less than a charge waits, so that one which memory.min promises is granted in the end. */
#define KILL_DEFAULT 20u
#define KILL_MAX     86400u
/* Numbers that neither distributions nor systemd (UIDS-GIDS) give to anybody. */
#define USERS_FIRST 2000000000u
#define USERS_N     65536u
#define USERS_MAX   (1u << 20)

/* Where an unprivileged daemon keeps its sockets. */
static char *default_run_dir(void)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char *path = NULL;
	int r;

	if (geteuid() == 0)
		return strdup("/run/weft");
	if (xdg && *xdg && access(xdg, F_OK) == 0)
		r = asprintf(&path, "%s/weft", xdg);
	else
		r = asprintf(&path, "/tmp/weft-%u", (unsigned)geteuid());
	return r < 0 ? NULL : path;
}

/* Limits of host memory are parts of it: more would leave the host without. */
static uint64_t quarter_of_ram(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 4 : 1ull << 29;
}

int conf_init(struct conf *c)
{
	memset(c, 0, sizeof(*c));
	list_init(&c->tenants);
	c->pool = POOL_DEFAULT;
	c->host_max = 3 * quarter_of_ram();
	c->run_dir = default_run_dir();
	c->users_first = USERS_FIRST;
	c->users_n = USERS_N;
	c->sandbox = strdup("on");
	c->device = strdup("auto");
	c->reserve = UINT64_MAX;
	c->piece = PIECE_BYTES_DEFAULT;
	c->kill_s = KILL_DEFAULT;
	c->placement = strdup(PLACEMENT_DEFAULT);
	c->time = strdup(time_policy_at(0)->name);
	c->rewrite = CONF_REWRITE_OFF;
	c->blocks = strdup(blocks_policy_at(0)->name);
	return c->run_dir && c->sandbox && c->device && c->placement && c->time &&
			       c->blocks
		       ? 0
		       : -ENOMEM;
}

void conf_tenant_free(struct conf_tenant *t)
{
	if (!t)
		return;
	free(t->socket);
	free(t->owner);
	free(t->group);
	free(t->window_path);
	free(t);
}

void conf_fini(struct conf *c)
{
	struct conf_tenant *t, *tmp;

	list_for_each_safe (t, tmp, &c->tenants, link) {
		list_remove(&t->link);
		conf_tenant_free(t);
	}
	free(c->text);
	free(c->run_dir);
	free(c->socket);
	free(c->control);
	free(c->operators);
	free(c->viewers);
	free(c->user);
	free(c->sandbox);
	free(c->cgroup);
	free(c->device);
	free(c->placement);
	free(c->time);
	free(c->blocks);
	free(c->mps);
	free(c->extents);
	memset(c, 0, sizeof(*c));
	list_init(&c->tenants);
}

const char *conf_name_error(const char *name)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789._-";
	size_t len = strlen(name);

	if (!len || len > CONF_NAME_MAX || *name == '.' || strspn(name, ok) != len)
		return "a tenant's name is letters, digits, '.', '_' and '-', not a dot "
		       "first, at most 63";
	if (strspn(name, "0123456789") == len)
		return "a tenant's name is not a number: that would be a session";
	return NULL;
}

struct conf_tenant *conf_tenant_new(const char *name)
{
	struct conf_tenant *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	snprintf(t->name, sizeof(t->name), "%s", name);
	list_init(&t->link);
	t->mode = 0600;
	t->memory.high = t->memory.max = t->memory.swap_max = UINT64_MAX;
	t->memory.weight = t->compute.weight = CONF_WEIGHT_DEFAULT;
	t->host_max = 2 * quarter_of_ram();
	t->wmem_max = quarter_of_ram();
	t->sessions_max = SESSIONS_DEFAULT;
	t->lanes_max = LANES_DEFAULT;
	return t;
}

struct conf_tenant *conf_tenant_find(const struct conf *c, const char *name)
{
	struct conf_tenant *t;

	list_for_each (t, &c->tenants, link) {
		if (!strcmp(t->name, name))
			return t;
	}
	return NULL;
}

static int set_string(char **field, const char *value)
{
	char *s = strdup(value);

	if (!s)
		return -ENOMEM;
	free(*field);
	*field = s;
	return 0;
}

static int set_path(char **field, const char *value)
{
	return *value == '/' ? set_string(field, value) : -EINVAL;
}

static int set_number(unsigned *field, const char *value, unsigned max)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || n > max)
		return -EINVAL;
	*field = (unsigned)n;
	return 0;
}

static int set_mode(mode_t *field, const char *value)
{
	unsigned long n;
	char *end;

	n = strtoul(value, &end, 8);
	if (*value < '0' || *value > '7' || *end || n > 0777)
		return -EINVAL;
	*field = (mode_t)n;
	return 0;
}

static int set_weight(unsigned *field, const char *value)
{
	unsigned n;
	int r = set_number(&n, value, CONF_WEIGHT_MAX);

	if (r < 0 || !n)
		return -EINVAL;
	*field = n;
	return 0;
}

/* As cpu.max of cgroup v2: "max" or a quota, and perhaps a period, in microseconds. */
static int set_cap(struct cap *field, const char *value)
{
	struct cap c = {.period_us = CAP_PERIOD_US};
	char quota[16], period[16], more;
	int n = sscanf(value, "%15s %15s %c", quota, period, &more);

	if (n < 1 || n > 2)
		return -EINVAL;
	if (n == 2 && (set_number(&c.period_us, period, CAP_MAX_US) < 0 ||
		       c.period_us < CAP_MIN_US))
		return -EINVAL;
	if (strcmp(quota, "max") != 0 &&
	    (set_number(&c.quota_us, quota, CAP_MAX_US) < 0 || c.quota_us < CAP_MIN_US))
		return -EINVAL;
	*field = c;
	return 0;
}

const char *conf_format_cap(const struct cap *c, char *text, size_t size)
{
	if (c->quota_us)
		snprintf(text, size, "%" PRIu32 " %" PRIu32, c->quota_us, c->period_us);
	else
		snprintf(text, size, "max");
	return text;
}

static const char *const class_names[] = {"isolated", "shared"};

static int set_class(bool *shared, const char *value)
{
	for (unsigned i = 0; i < ARRAY_SIZE(class_names); i++) {
		if (strcmp(value, class_names[i]) != 0)
			continue;
		*shared = i;
		return 0;
	}
	return -EINVAL;
}

const char *conf_format_class(bool shared)
{
	return class_names[shared];
}

/* Above that a unit was mistaken: no device has as much. */
#define MEMORY_MAX (1ull << 44)

static int set_memory(uint64_t *field, const char *value)
{
	uint64_t n;
	int r = size_parse(value, &n);

	if (r < 0)
		return r;
	if (n > MEMORY_MAX && n != UINT64_MAX)
		return -ERANGE;
	*field = n;
	return 0;
}

const char *const conf_memory_keys[] = {
	"memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", NULL,
};
static_assert(ARRAY_SIZE(conf_memory_keys) == CONF_MEMORY_KEYS + 1, "each has a place");

/* Index in conf_memory_keys; -1: it is none of them. */
static int memory_key(const char *key)
{
	for (int i = 0; conf_memory_keys[i]; i++) {
		if (!strcmp(conf_memory_keys[i], key))
			return i;
	}
	return -1;
}

uint64_t *conf_memory_key(struct conf_memory *m, const char *key)
{
	uint64_t *const field[] = {&m->min, &m->low, &m->high, &m->max, &m->swap_max};
	int i = memory_key(key);

	static_assert(ARRAY_SIZE(field) == ARRAY_SIZE(conf_memory_keys) - 1,
		      "one for each");
	return i < 0 ? NULL : field[i];
}

/* A profile ends where its memory is changed. */
static int set_limit(struct conf_tenant *t, uint64_t *field, const char *value)
{
	int r = set_memory(field, value);

	if (r == 0 && (field == &t->memory.min || field == &t->memory.max))
		*t->profile = '\0';
	return r;
}

/* As libvirt prints it, whatever the case of its digits. */
static int set_uuid(char *field, const char *value)
{
	char text[CONF_UUID_LEN + 1];

	if (strlen(value) != CONF_UUID_LEN)
		return -EINVAL;
	for (unsigned i = 0; i <= CONF_UUID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (value[i] &&
		    (dash ? value[i] != '-' : !isxdigit((unsigned char)value[i])))
			return -EINVAL;
		text[i] = (char)tolower((unsigned char)value[i]);
	}
	memcpy(field, text, sizeof(text));
	return 0;
}

static int set_yes(bool *field, const char *value)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return -EINVAL;
	*field = *value == 'y';
	return 0;
}

static const char *const rewrites[] = {
	[CONF_REWRITE_DEFAULT] = "default",
	[CONF_REWRITE_OFF] = "off",
	[CONF_REWRITE_SHARE] = "share",
	[CONF_REWRITE_ALWAYS] = "always",
	[CONF_REWRITE_AUTO] = "auto",
	[CONF_REWRITE_YIELD] = "yield",
	[CONF_REWRITE_ALWAYS_YIELD] = "always-yield",
};

const char *conf_format_rewrite(enum conf_rewrite r)
{
	return rewrites[r];
}

static int set_rewrite(enum conf_rewrite *field, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(rewrites); i++) {
		if (!strcmp(value, rewrites[i])) {
			*field = (enum conf_rewrite)i;
			return 0;
		}
	}
	return -EINVAL;
}

static const char *const graphics[] = {
	[CONF_GRAPHICS_DEFAULT] = "default",
	[CONF_GRAPHICS_OFF] = "off",
	[CONF_GRAPHICS_ON] = "on",
};

const char *conf_format_graphics(enum conf_graphics g)
{
	return graphics[g];
}

static int set_graphics(enum conf_graphics *field, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(graphics); i++) {
		if (!strcmp(value, graphics[i])) {
			*field = (enum conf_graphics)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int set_count(struct space_want *w, const char *value)
{
	size_t n = strlen(value);
	bool percent = n > 1 && n < 5 && value[n - 1] == '%';
	char digits[5] = "";
	unsigned count = 0;

	if (percent)
		memcpy(digits, value, n - 1);
	if (strcmp(value, "max") != 0 &&
	    (set_number(&count, percent ? digits : value,
			percent ? 100 : SPACE_TPCS_MAX) < 0 ||
	     !count))
		return -EINVAL;
	w->percent = percent && count < 100;
	w->count = percent && count == 100 ? 0 : count;
	return 0;
}

/* Keys of which TPCs it has; -ENOENT: it is none of them. */
static int set_space(struct space_want *w, const char *key, const char *value)
{
	if (!strcmp(key, "tpc.set"))
		return tpcs_parse(value, &w->tpcs);
	if (!strcmp(key, "gpc.set"))
		return tpcs_parse(value, &w->gpcs);
	if (!strcmp(key, "tpc.count"))
		return set_count(w, value);
	if (!strcmp(key, "tpc.exclusive"))
		return set_yes(&w->exclusive, value);
	return -ENOENT;
}

bool conf_is_space_key(const char *key)
{
	struct space_want w = {0};

	return set_space(&w, key, "") != -ENOENT;
}

int conf_tenant_set(struct conf_tenant *t, const char *key, const char *value)
{
	if (conf_is_space_key(key))
		return set_space(&t->space, key, value);
	if (memory_key(key) >= 0)
		return set_limit(t, conf_memory_key(&t->memory, key), value);
	if (!strcmp(key, "memory.weight"))
		return set_weight(&t->memory.weight, value);
	if (!strcmp(key, "compute.weight"))
		return set_weight(&t->compute.weight, value);
	if (!strcmp(key, "compute.priority"))
		return set_number(&t->compute.priority, value, CONF_PRIORITY_MAX);
	if (!strcmp(key, "compute.latency"))
		return set_number(&t->compute.latency, value, CONF_LATENCY_MAX);
	if (!strcmp(key, "compute.class"))
		return set_class(&t->compute.shared, value);
	if (!strcmp(key, "kernel.rewrite"))
		return set_rewrite(&t->compute.rewrite, value);
	if (!strcmp(key, "graphics"))
		return set_graphics(&t->compute.graphics, value);
	if (!strcmp(key, "compute.max"))
		return set_cap(&t->compute.max, value);
	if (!strcmp(key, "socket"))
		return set_path(&t->socket, value);
	if (!strcmp(key, "mode"))
		return set_mode(&t->mode, value);
	if (!strcmp(key, "owner"))
		return set_string(&t->owner, value);
	if (!strcmp(key, "group"))
		return set_string(&t->group, value);
	if (!strcmp(key, "host.max"))
		return set_memory(&t->host_max, value);
	if (!strcmp(key, "worker.memory.max"))
		return set_memory(&t->wmem_max, value);
	if (!strcmp(key, "sessions.max"))
		return set_number(&t->sessions_max, value, 4096);
	if (!strcmp(key, "lanes.max"))
		return set_number(&t->lanes_max, value, LANES_MAX);
	if (!strcmp(key, "vm.uuid"))
		return set_uuid(t->vm_uuid, value);
	if (!strcmp(key, "window.path"))
		return set_path(&t->window_path, value);
	if (!strcmp(key, "window.size"))
		return set_memory(&t->window_size, value);
	return conf_alias_set(t, key, value);
}

static int set_device(struct conf *c, const char *value)
{
	if (strcmp(value, "soft") != 0 && strcmp(value, "cuda") != 0 &&
	    strcmp(value, "auto") != 0)
		return -EINVAL;
	return set_string(&c->device, value);
}

/* FIRST-LAST, or "none". */
static int set_users(struct conf *c, const char *value)
{
	unsigned long first, last;
	char *end;

	if (!strcmp(value, "none")) {
		c->users_n = 0;
		return 0;
	}
	first = strtoul(value, &end, 10);
	if (*value < '1' || *value > '9' || *end != '-' || end[1] < '1' || end[1] > '9')
		return -EINVAL;
	last = strtoul(end + 1, &end, 10);
	if (*end || last < first || last - first >= USERS_MAX || last >= UINT32_MAX)
		return -EINVAL;
	c->users_first = (uint32_t)first;
	c->users_n = (uint32_t)(last - first + 1);
	return 0;
}

static int set_sandbox(struct conf *c, const char *value)
{
	enum sandbox_mode mode;
	int r = sandbox_mode_parse(value, &mode);

	return r < 0 ? r : set_string(&c->sandbox, value);
}

static int set_cgroup(struct conf *c, const char *value)
{
	return strcmp(value, "none") ? set_path(&c->cgroup, value)
				     : set_string(&c->cgroup, value);
}

static int set_path_or_none(char **field, const char *value)
{
	if (strcmp(value, "none") != 0)
		return set_path(field, value);
	free(*field);
	*field = NULL;
	return 0;
}

static int set_piece(uint64_t *field, const char *value)
{
	uint64_t n;
	int r = size_parse(value, &n);

	if (r < 0)
		return r;
	if (n < PIECE_BYTES_MIN || n > PIECE_BYTES_MAX || n & (n - 1))
		return -EINVAL;
	*field = n;
	return 0;
}

static int set_placement(struct conf *c, const char *value)
{
	if (!placement_find(value))
		return -EINVAL;
	return set_string(&c->placement, value);
}

static int set_time(struct conf *c, const char *value)
{
	if (*value != '/' && !time_policy_find(value))
		return -EINVAL;
	return set_string(&c->time, value);
}

static int set_blocks(struct conf *c, const char *value)
{
	return blocks_policy_find(value) ? set_string(&c->blocks, value) : -EINVAL;
}

static int set_daemon_rewrite(struct conf *c, const char *value)
{
	enum conf_rewrite to;
	int r = set_rewrite(&to, value);

	if (r == 0 && to == CONF_REWRITE_DEFAULT)
		return -EINVAL;
	if (r == 0)
		c->rewrite = to;
	return r;
}

int conf_daemon_set(struct conf *c, const char *key, const char *value)
{
	if (!strcmp(key, "run-dir"))
		return set_path(&c->run_dir, value);
	if (!strcmp(key, "socket"))
		return set_path(&c->socket, value);
	if (!strcmp(key, "control"))
		return set_path(&c->control, value);
	if (!strcmp(key, "operators"))
		return set_string(&c->operators, value);
	if (!strcmp(key, "viewers"))
		return set_string(&c->viewers, value);
	if (!strcmp(key, "user"))
		return set_string(&c->user, value);
	if (!strcmp(key, "users"))
		return set_users(c, value);
	if (!strcmp(key, "sandbox"))
		return set_sandbox(c, value);
	if (!strcmp(key, "cgroup"))
		return set_cgroup(c, value);
	if (!strcmp(key, "device"))
		return set_device(c, value);
	if (!strcmp(key, "pool"))
		return set_number(&c->pool, value, POOL_MAX);
	if (!strcmp(key, "tpcs"))
		return set_number(&c->tpcs, value, 1024);
	if (!strcmp(key, "threads"))
		return set_number(&c->threads, value, 1024);
	if (!strcmp(key, "memory"))
		return set_memory(&c->memory, value);
	if (!strcmp(key, "host.max"))
		return set_memory(&c->host_max, value);
	if (!strcmp(key, "swap"))
		return set_memory(&c->swap, value);
	if (!strcmp(key, "reserve"))
		return size_parse(value, &c->reserve);
	if (!strcmp(key, "piece"))
		return set_piece(&c->piece, value);
	if (!strcmp(key, "placement"))
		return set_placement(c, value);
	if (!strcmp(key, "time"))
		return set_time(c, value);
	if (!strcmp(key, "kernel.rewrite"))
		return set_daemon_rewrite(c, value);
	if (!strcmp(key, "kernel.policy"))
		return set_blocks(c, value);
	if (!strcmp(key, "mps"))
		return set_path_or_none(&c->mps, value);
	if (!strcmp(key, "extents"))
		return set_path_or_none(&c->extents, value);
	if (!strcmp(key, "reclaim.kill"))
		return set_number(&c->kill_s, value, KILL_MAX);
	return -ENOENT;
}

/* ---- what is wrong, in words ---- */

static const struct {
	const char *key, *words;
} value_words[] = {
	{"run-dir", "is no absolute path"},
	{"socket", "is no absolute path"},
	{"control", "is no absolute path"},
	{"window.path", "is no absolute path"},
	{"cgroup", "is neither an absolute path nor none"},
	{"mps", "is neither an absolute path nor none"},
	{"extents", "is neither an absolute path nor none"},
	{"vm.uuid", "is no UUID such as 6d2f6a0e-4b0c-4d3a-9a5e-0f3c1c1b2a3d"},
	{"mode", "is no octal mode such as 0660"},
	{"memory.weight", "is no number from 1 to 10000"},
	{"compute.weight", "is no number from 1 to 10000"},
	{"compute.class", "is neither isolated nor shared"},
	{"graphics", "is none of default, off, on"},
	{"compute.priority", "is no number from 0 to 100"},
	{"compute.latency", "is no number of microseconds up to 3600000000"},
	{"compute.max",
	 "is neither max nor a quota, and perhaps a period, of 1000 to 10000000 "
	 "microseconds such as 25000 100000"},
	{"tpc.set", "is no list of TPCs such as 0-19,40, nor all"},
	{"gpc.set", "is no list of GPCs such as 0-2, nor all"},
	{"tpc.count",
	 "is neither a number from 1 to 128, nor one of per cent such as 30%, nor max"},
	{"tpc.exclusive", "is neither yes nor no"},
	{"sessions.max", "is no number from 0 to 4096"},
	{"lanes.max", "is no number from 0 to 65536"},
	{"device", "is none of soft, cuda, auto"},
	{"kernel.rewrite", "is none of off, yield, share, auto, always, always-yield, "
			   "and default of a tenant"},
	{"sandbox", "is none of on, log, off"},
	{"pool", "is no number from 0 to 64"},
	{"reclaim.kill", "is no number of seconds from 0 to 86400"},
	{"tpcs", "is no number from 0 to 1024"},
	{"threads", "is no number from 0 to 1024"},
	{"piece", "is no power of two from 128K to 64M"},
};

static const char *placement_name(unsigned i)
{
	return placement_at(i) ? placement_at(i)->name : NULL;
}

static const char *time_name(unsigned i)
{
	return time_policy_at(i) ? time_policy_at(i)->name : NULL;
}

static const char *blocks_name(unsigned i)
{
	return blocks_policy_at(i) ? blocks_policy_at(i)->name : NULL;
}

/* Words about a value that names a policy: those that there are. */
static void policy_words(const char *(*name)(unsigned i), char *buf, size_t room)
{
	size_t n = (size_t)snprintf(buf, room, "is none of");

	for (unsigned i = 0; name(i) && n < room; i++)
		n += (size_t)snprintf(buf + n, room - n, "%s %s", i ? "," : "", name(i));
}

static const struct {
	const char *key, *(*name)(unsigned i);
} names[] = {
	{"placement", placement_name},
	{"time", time_name},
	{"kernel.policy", blocks_name},
};

char *conf_error(const char *key, const char *value, int error)
{
	const char *words = "is no size: 1536M, 1.5G, 1GiB, max";
	const char *hint =
		strchr(value, '#') ? " (; begins a comment after a value)" : "";
	char *text = conf_alias_error(key, value, error), policies[200];
	int r;

	if (text)
		return text;
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(key, names[i].key) != 0)
			continue;
		policy_words(names[i].name, policies, sizeof(policies));
		words = policies;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(value_words); i++) {
		if (!strcmp(key, value_words[i].key))
			words = value_words[i].words;
	}
	if (error == -ENOENT)
		r = asprintf(&text, "no such key: %s", key);
	else if (error == -ERANGE)
		r = asprintf(&text, "%s = %s: number too large", key, value);
	else if (error == -ENOMEM)
		r = asprintf(&text, "out of memory");
	else
		r = asprintf(&text, "%s: \"%s\" %s%s", key, value, words, hint);
	return r < 0 ? NULL : text;
}
