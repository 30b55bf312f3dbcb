/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "broker/conf.h"
#include "policies/placement.h"
#include "util/sandbox.h"
#include "util/size.h"

#define TENANT_SECTION "tenant "
/* Sessions of one tenant at once: guest processes, each a worker process here. */
#define SESSIONS_DEFAULT 64u
#define POOL_DEFAULT     2u
#define POOL_MAX         64u
/* What the software device and a real one can move, both ends included. */
#define CHUNK_MIN         (128ull << 10)
#define CHUNK_MAX         (64ull << 20)
#define CHUNK_DEFAULT     (8ull << 20) /* SPACE_PIECE says why */
#define PLACEMENT_DEFAULT "lru"
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
	if (xdg && *xdg)
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
	c->chunk = CHUNK_DEFAULT;
	c->placement = strdup(PLACEMENT_DEFAULT);
	return c->run_dir && c->sandbox && c->device && c->placement ? 0 : -ENOMEM;
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
	free(c->run_dir);
	free(c->socket);
	free(c->control);
	free(c->user);
	free(c->sandbox);
	free(c->device);
	free(c->placement);
	memset(c, 0, sizeof(*c));
	list_init(&c->tenants);
}

int conf_name_check(const char *name)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789._-";
	size_t len = strlen(name);

	if (!len || len > CONF_NAME_MAX || *name == '.' || strspn(name, ok) != len)
		return -EINVAL;
	return 0;
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
	t->memory.weight = CONF_WEIGHT_DEFAULT;
	t->host_max = 2 * quarter_of_ram();
	t->wmem_max = quarter_of_ram();
	t->sessions_max = SESSIONS_DEFAULT;
	return t;
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

const char *const conf_memory_keys[] = {
	"memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", NULL,
};

uint64_t *conf_memory_key(struct conf_memory *m, const char *key)
{
	uint64_t *const field[] = {&m->min, &m->low, &m->high, &m->max, &m->swap_max};

	for (unsigned i = 0; conf_memory_keys[i]; i++) {
		if (!strcmp(key, conf_memory_keys[i]))
			return field[i];
	}
	return NULL;
}

int conf_tenant_set(struct conf_tenant *t, const char *key, const char *value)
{
	uint64_t *bytes = conf_memory_key(&t->memory, key);

	if (bytes)
		return size_parse(value, bytes);
	if (!strcmp(key, "memory.weight"))
		return set_weight(&t->memory.weight, value);
	if (!strcmp(key, "socket"))
		return set_path(&t->socket, value);
	if (!strcmp(key, "mode"))
		return set_mode(&t->mode, value);
	if (!strcmp(key, "owner"))
		return set_string(&t->owner, value);
	if (!strcmp(key, "group"))
		return set_string(&t->group, value);
	if (!strcmp(key, "host.max"))
		return size_parse(value, &t->host_max);
	if (!strcmp(key, "worker.memory.max"))
		return size_parse(value, &t->wmem_max);
	if (!strcmp(key, "sessions.max"))
		return set_number(&t->sessions_max, value, 4096);
	if (!strcmp(key, "window.path"))
		return set_path(&t->window_path, value);
	if (!strcmp(key, "window.size"))
		return size_parse(value, &t->window_size);
	return -ENOENT;
}

static int set_device(struct conf *c, const char *value)
{
	if (strcmp(value, "soft") && strcmp(value, "cuda") && strcmp(value, "auto"))
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

static int set_chunk(uint64_t *field, const char *value)
{
	uint64_t n;
	int r = size_parse(value, &n);

	if (r < 0)
		return r;
	if (n < CHUNK_MIN || n > CHUNK_MAX || n & (n - 1))
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

int conf_daemon_set(struct conf *c, const char *key, const char *value)
{
	if (!strcmp(key, "run-dir"))
		return set_path(&c->run_dir, value);
	if (!strcmp(key, "socket"))
		return set_path(&c->socket, value);
	if (!strcmp(key, "control"))
		return set_path(&c->control, value);
	if (!strcmp(key, "user"))
		return set_string(&c->user, value);
	if (!strcmp(key, "users"))
		return set_users(c, value);
	if (!strcmp(key, "sandbox"))
		return set_sandbox(c, value);
	if (!strcmp(key, "device"))
		return set_device(c, value);
	if (!strcmp(key, "pool"))
		return set_number(&c->pool, value, POOL_MAX);
	if (!strcmp(key, "tpcs"))
		return set_number(&c->tpcs, value, 1024);
	if (!strcmp(key, "threads"))
		return set_number(&c->threads, value, 1024);
	if (!strcmp(key, "memory"))
		return size_parse(value, &c->memory);
	if (!strcmp(key, "host.max"))
		return size_parse(value, &c->host_max);
	if (!strcmp(key, "swap"))
		return size_parse(value, &c->swap);
	if (!strcmp(key, "reserve"))
		return size_parse(value, &c->reserve);
	if (!strcmp(key, "chunk"))
		return set_chunk(&c->chunk, value);
	if (!strcmp(key, "placement"))
		return set_placement(c, value);
	return -ENOENT;
}

/* ---- the file ---- */

struct reading {
	struct conf *c;
	FILE *f;
	char *why; /* about the first mistake */
	int error;
};

static struct conf_tenant *tenant_named(struct conf *c, const char *name)
{
	struct conf_tenant *t;

	list_for_each (t, &c->tenants, link) {
		if (!strcmp(t->name, name))
			return t;
	}
	t = conf_tenant_new(name);
	if (t)
		list_append(&c->tenants, &t->link);
	return t;
}

static int set(struct conf *c, const char *section, const char *key, const char *value)
{
	size_t n = strlen(TENANT_SECTION);
	struct conf_tenant *t;

	if (!strcmp(section, "daemon"))
		return conf_daemon_set(c, key, value);
	if (strncmp(section, TENANT_SECTION, n) || conf_name_check(section + n) < 0)
		return -ENXIO;
	t = tenant_named(c, section + n);
	return t ? conf_tenant_set(t, key, value) : -ENOMEM;
}

static const char *mistake(int error)
{
	switch (error) {
	case -ENOENT:
		return "no such key";
	case -ENXIO:
		return "no such section";
	case -ERANGE:
		return "number too large";
	case -ENOMEM:
		return "out of memory";
	default:
		return "bad value";
	}
}

/* inih: nonzero is success. */
static int on_key(void *user, const char *section, const char *key, const char *value)
{
	struct reading *rd = user;
	int r = set(rd->c, section, key, value);

	if (r == 0)
		return 1;
	if (!rd->error) {
		rd->error = r == -ENOMEM ? r : -EINVAL;
		if (asprintf(&rd->why, "[%s] %s = %s: %s", section, key, value,
			     mistake(r)) < 0)
			rd->why = NULL;
	}
	return 0;
}

/* A section without keys still makes a tenant; inih tells of keys only. */
static void see_section(struct reading *rd, const char *line)
{
	char name[CONF_NAME_MAX + 2];

	if (sscanf(line, " [" TENANT_SECTION "%64[^] \t\n]]", name) == 1 &&
	    conf_name_check(name) == 0)
		(void)tenant_named(rd->c, name);
}

static char *read_line(char *buf, int room, void *arg)
{
	struct reading *rd = arg;
	char *line = fgets(buf, room, rd->f);

	if (line)
		see_section(rd, line);
	return line;
}

static int read_all(struct reading *rd, const char *name, char **ret_why)
{
	FILE *f = rd->f;
	int line, r = 0;

	line = ini_parse_stream(read_line, rd, on_key, rd);
	fclose(f);
	if (line) {
		r = rd->error ? rd->error : -EINVAL;
		if (ret_why &&
		    asprintf(ret_why, "%s:%d: %s", name, MAX(line, 1),
			     rd->why ? rd->why : "neither a section nor a key = value") <
			    0)
			*ret_why = NULL;
	}
	free(rd->why);
	return r;
}

int conf_read(struct conf *c, const char *path, char **ret_why)
{
	struct reading rd = {.c = c, .f = fopen(path, "re")};
	int error = errno;

	if (rd.f)
		return read_all(&rd, path, ret_why);
	if (ret_why && asprintf(ret_why, "%s: %s", path, strerror(error)) < 0)
		*ret_why = NULL;
	return -error;
}

int conf_parse(struct conf *c, const char *text, char **ret_why)
{
	struct reading rd = {.c = c};

	/* fmemopen() refuses an empty buffer. */
	if (!*text)
		return 0;
	rd.f = fmemopen((void *)text, strlen(text), "r");
	return rd.f ? read_all(&rd, "text", ret_why) : -errno;
}
