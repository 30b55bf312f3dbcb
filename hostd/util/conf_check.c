/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of settings that are right line by line and wrong as a whole. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/macros.h"
#include "util/conf.h"
#include "util/conf_alias.h"
#include "util/size.h"

#define WINDOW_MIN (16ull << 20)

static int complete_tenant(struct conf *c, struct conf_tenant *t)
{
	bool local = !strcmp(t->name, CONF_LOCAL);
	int r;

	if (t->socket)
		return 0;
	if (local && c->socket) {
		t->socket = strdup(c->socket);
		t->socket_at = c->socket_at;
		return t->socket ? 0 : -ENOMEM;
	}
	r = asprintf(&t->socket, "%s/%s.sock", c->run_dir, local ? "weft" : t->name);
	if (r < 0)
		t->socket = NULL;
	return r < 0 ? -ENOMEM : 0;
}

int conf_complete(struct conf *c)
{
	struct conf_tenant *t = conf_tenant_find(c, CONF_LOCAL);
	int r = 0;

	if (!t) {
		t = conf_tenant_new(CONF_LOCAL);
		if (!t)
			return -ENOMEM;
		list_append(&c->tenants, &t->link);
	}
	if (!c->control && asprintf(&c->control, "%s/control", c->run_dir) < 0) {
		c->control = NULL;
		return -ENOMEM;
	}
	list_for_each (t, &c->tenants, link) {
		if (r == 0)
			r = complete_tenant(c, t);
	}
	return r;
}

/* ---- checks ---- */

struct check {
	const struct conf *c;
	const char *file;
	void (*say)(void *arg, bool wrong, const char *text);
	void *arg;
	unsigned wrong;
};

__attribute__((format(printf, 4, 5))) static void say(struct check *k, bool wrong,
						      struct conf_at at, const char *fmt,
						      ...)
{
	char text[768];
	va_list ap;
	int n = 0;

	if (k->file && at.line)
		n = snprintf(text, sizeof(text), "%s:%d: ", at.file, at.line);
	else if (k->file)
		n = snprintf(text, sizeof(text), "%s: ", k->file);
	n = MIN(n, (int)sizeof(text) - 1);
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	k->wrong += wrong;
	k->say(k->arg, wrong, text);
}

/* Not in a file. */
static const struct conf_at nowhere;

/* A file that weftd makes or serves, and whose it is. */
struct place {
	char *path, *real; /* as it was written; without links and dots */
	const char *what;
	const struct conf_tenant *t; /* NULL: the daemon's */
	struct conf_at at;
};

/* Where it is, as said in a line about another place. */
static void describe_at(struct conf_at at, struct conf_at other, char *buf, size_t room)
{
	*buf = '\0';
	if (at.line && at.file == other.file)
		snprintf(buf, room, ", line %d", at.line);
	else if (at.line)
		snprintf(buf, room, ", %s:%d", at.file, at.line);
}

static void describe(const struct place *p, struct conf_at other, char *buf, size_t room)
{
	char at[200];

	describe_at(p->at, other, at, sizeof(at));
	if (p->t)
		snprintf(buf, room, "the %s of tenant %s%s", p->what, p->t->name, at);
	else
		snprintf(buf, room, "the daemon's %s%s", p->what, at);
}

/* By file and line, in the order in which they were read as far as that is known. */
static int by_place(struct conf_at a, struct conf_at b)
{
	int r = a.file && b.file ? strcmp(a.file, b.file) : !!a.file - !!b.file;

	return r ? r : a.line - b.line;
}

static int by_path(const void *a, const void *b)
{
	const struct place *p = a, *q = b;
	int r = strcmp(p->real, q->real);

	return r ? r : by_place(p->at, q->at);
}

static void check_places(struct check *k, struct place *p, unsigned n)
{
	char first[300], second[300];

	qsort(p, n, sizeof(*p), by_path);
	for (unsigned i = 1; i < n; i++) {
		if (strcmp(p[i].real, p[i - 1].real) != 0)
			continue;
		describe(&p[i - 1], p[i].at, first, sizeof(first));
		describe(&p[i], p[i].at, second, sizeof(second));
		say(k, true, p[i].at, "%s is both %s, and %s", p[i].path, first, second);
	}
}

struct places {
	struct place *v;
	unsigned n;
};

/* Where a path leads, as far as it exists already; malloced, or NULL. */
static char *real_path(const char *path)
{
	_cleanup_free_ char *dir = NULL;
	const char *name = strrchr(path, '/');
	char *real = realpath(path, NULL), *whole = NULL;

	if (real || !name)
		return real ? real : strdup(path);
	dir = strndup(path, (size_t)(name - path) + 1);
	real = dir ? realpath(dir, NULL) : NULL;
	if (!real)
		return strdup(path);
	if (asprintf(&whole, "%s%s", real, real[1] ? name : name + 1) < 0)
		whole = NULL;
	free(real);
	return whole;
}

/* Takes over path; NULL, for want of memory, is left out. */
static void add_place(struct places *p, char *path, const char *what,
		      const struct conf_tenant *t, struct conf_at at)
{
	char *real = path ? real_path(path) : NULL;

	if (real)
		p->v[p->n++] = (struct place){path, real, what, t, at};
	else
		free(path);
}

static char *in_run_dir(const struct conf *c, const char *name, const char *suffix)
{
	char *path;

	return asprintf(&path, "%s/%s%s", c->run_dir, name, suffix) < 0 ? NULL : path;
}

/* No file is two things. */
static void check_paths(struct check *k)
{
	const struct conf *c = k->c;
	const struct conf_tenant *t;
	struct places p = {0};
	unsigned n = 2;

	list_for_each (t, &c->tenants, link)
		n += 3;
	p.v = calloc(n, sizeof(*p.v));
	if (!p.v) {
		say(k, true, nowhere, "out of memory");
		return;
	}
	add_place(&p, in_run_dir(c, "lock", ""), "lock", NULL, nowhere);
	add_place(&p, strdup(c->control), "control socket", NULL, c->control_at);
	list_for_each (t, &c->tenants, link) {
		add_place(&p, strdup(t->socket), "socket", t,
			  t->socket_at.line ? t->socket_at : t->at);
		if (!t->window_path)
			continue;
		add_place(&p, strdup(t->window_path), "window", t, t->window_at);
		add_place(&p, in_run_dir(c, t->name, ".window"), "window's note", t,
			  t->at);
	}
	check_places(k, p.v, p.n);
	for (unsigned i = 0; i < p.n; i++) {
		free(p.v[i].path);
		free(p.v[i].real);
	}
	free(p.v);
}

static void check_names(struct check *k, const struct conf_tenant *t)
{
	if (t->again_at.line)
		say(k, false, t->again_at,
		    "[tenant %s] is there already, in line %d: both count, the later key "
		    "wins",
		    t->name, t->at.line);
	if (t->group && !getgrnam(t->group))
		say(k, true, t->at, "tenant %s: no group \"%s\"", t->name, t->group);
	if (t->owner && !getpwnam(t->owner))
		say(k, true, t->at, "tenant %s: no user \"%s\" (owner)", t->name,
		    t->owner);
}

static void check_window(struct check *k, const struct conf_tenant *t)
{
	if (!t->window_path && t->window_size)
		say(k, true, t->at, "tenant %s: window.size without window.path",
		    t->name);
	if (!t->window_path)
		return;
	if (t->window_size < WINDOW_MIN || t->window_size == UINT64_MAX ||
	    t->window_size & (t->window_size - 1))
		say(k, true, t->window_at.line ? t->window_at : t->at,
		    "tenant %s: window.size must be a power of two, 16M or more",
		    t->name);
}

/* Returns 0 if that is not known before the device is open. */
static uint64_t device_size(const struct conf *c)
{
	return c->device_total ? c->device_total : c->memory;
}

/* Where a key of a tenant's memory is, else its section. */
static struct conf_at memory_at(const struct conf_tenant *t, const char *key)
{
	for (unsigned i = 0; conf_memory_keys[i]; i++) {
		if (!strcmp(key, conf_memory_keys[i]) && t->memory_at[i].line)
			return t->memory_at[i];
	}
	return t->at;
}

/* Complains of a key that is above memory.max, at the later of the two. */
static void say_above(struct check *k, const struct conf_tenant *t, bool wrong,
		      const char *key, uint64_t value)
{
	struct conf_at one = memory_at(t, key), other = memory_at(t, "memory.max");
	bool one_later = by_place(one, other) > 0;
	struct conf_at later = one_later ? one : other;
	struct conf_at earlier = one_later ? other : one;
	char a[32], b[32], at[200] = "";

	if (by_place(one, other))
		describe_at(earlier, later, at, sizeof(at));
	say(k, wrong, later, "tenant %s: %s %s is above memory.max %s%s%s", t->name, key,
	    size_format(value, a, sizeof(a)), size_format(t->memory.max, b, sizeof(b)),
	    *at ? ", see " : "", *at ? at + strlen(", ") : "");
}

static void check_memory(struct check *k, const struct conf_tenant *t)
{
	const struct conf_memory *m = &t->memory;
	uint64_t device = device_size(k->c);
	char a[32], b[32];

	if (m->min > m->max)
		say_above(k, t, true, "memory.min", m->min);
	if (m->low > m->max)
		say_above(k, t, false, "memory.low", m->low);
	if (device && m->max != UINT64_MAX && m->max > device + k->c->swap)
		say(k, false, memory_at(t, "memory.max"),
		    "tenant %s: memory.max %s is more than the device%s has: %s", t->name,
		    size_format(m->max, a, sizeof(a)),
		    k->c->swap ? " and swap together" : "",
		    size_format(device + k->c->swap, b, sizeof(b)));
	if (!k->c->swap && m->high != UINT64_MAX)
		say(k, false, memory_at(t, "memory.high"),
		    "tenant %s: memory.high has no effect without swap in [daemon]: "
		    "nothing can be evicted",
		    t->name);
}

static void check_profile(struct check *k, const struct conf_tenant *t)
{
	char *text = conf_alias_warning(t);

	if (text)
		say(k, false, memory_at(t, "memory.max"), "%s", text);
	free(text);
}

/* One virtual machine is one tenant. */
static void check_uuids(struct check *k)
{
	const struct conf_tenant *t, *u;
	char at[200];

	list_for_each (t, &k->c->tenants, link) {
		list_for_each (u, &k->c->tenants, link) {
			if (u == t)
				break;
			if (!*t->vm_uuid || strcmp(t->vm_uuid, u->vm_uuid) != 0)
				continue;
			describe_at(u->uuid_at, t->uuid_at, at, sizeof(at));
			say(k, true, t->uuid_at,
			    "vm.uuid %s is that of tenant %s, and of tenant %s%s",
			    t->vm_uuid, t->name, u->name, at);
		}
	}
}

/* Memory that is promised to all tenants together has to be there. */
static void check_promises(struct check *k)
{
	uint64_t device = device_size(k->c);
	const struct conf_tenant *t;
	uint64_t sum = 0;
	char a[32], b[32];

	list_for_each (t, &k->c->tenants, link)
		sum += MIN(t->memory.min, UINT64_MAX - sum);
	if (device && sum > device)
		say(k, true, nowhere,
		    "memory.min of all tenants is %s, the device has %s",
		    size_format(sum, a, sizeof(a)), size_format(device, b, sizeof(b)));
}

unsigned conf_check(const struct conf *c, const char *file,
		    void (*fn)(void *arg, bool wrong, const char *text), void *arg)
{
	struct check k = {.c = c, .file = file, .say = fn, .arg = arg};
	const struct conf_tenant *t;

	if (c->user && !getpwnam(c->user))
		say(&k, true, nowhere, "no user \"%s\" ([daemon] user)", c->user);
	if (c->operators && !getgrnam(c->operators))
		say(&k, true, nowhere, "no group \"%s\" ([daemon] operators)",
		    c->operators);
	if (c->viewers && !getgrnam(c->viewers))
		say(&k, true, nowhere, "no group \"%s\" ([daemon] viewers)", c->viewers);
	list_for_each (t, &c->tenants, link) {
		check_names(&k, t);
		check_window(&k, t);
		check_memory(&k, t);
		check_profile(&k, t);
	}
	check_uuids(&k);
	check_promises(&k);
	check_paths(&k);
	return k.wrong;
}
