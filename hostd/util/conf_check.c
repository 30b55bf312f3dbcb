/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of settings that are right line by line and wrong as a whole. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "util/conf.h"
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
		t->socket_line = c->socket_line;
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
						      int line, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n = 0;

	if (k->file && line)
		n = snprintf(text, sizeof(text), "%s:%d: ", k->file, line);
	else if (k->file)
		n = snprintf(text, sizeof(text), "%s: ", k->file);
	n = MIN(n, (int)sizeof(text) - 1);
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	k->wrong += wrong;
	k->say(k->arg, wrong, text);
}

/* A file that weftd makes or serves, and whose it is. */
struct place {
	char *path;
	const char *what;
	const struct conf_tenant *t; /* NULL: the daemon's */
	int line;
};

static void describe(const struct place *p, char *buf, size_t room)
{
	char at[32] = "";

	if (p->line)
		snprintf(at, sizeof(at), ", line %d", p->line);
	if (p->t)
		snprintf(buf, room, "the %s of tenant %s%s", p->what, p->t->name, at);
	else
		snprintf(buf, room, "the daemon's %s%s", p->what, at);
}

static int by_path(const void *a, const void *b)
{
	const struct place *p = a, *q = b;
	int r = strcmp(p->path, q->path);

	return r ? r : p->line - q->line;
}

static void check_places(struct check *k, struct place *p, unsigned n)
{
	char first[160], second[160];

	qsort(p, n, sizeof(*p), by_path);
	for (unsigned i = 1; i < n; i++) {
		if (strcmp(p[i].path, p[i - 1].path) != 0)
			continue;
		describe(&p[i - 1], first, sizeof(first));
		describe(&p[i], second, sizeof(second));
		say(k, true, p[i].line, "%s is both %s, and %s", p[i].path, first,
		    second);
	}
}

struct places {
	struct place *v;
	unsigned n;
};

/* Takes over path; NULL, for want of memory, is left out. */
static void add_place(struct places *p, char *path, const char *what,
		      const struct conf_tenant *t, int line)
{
	if (path)
		p->v[p->n++] = (struct place){path, what, t, line};
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
		say(k, true, 0, "out of memory");
		return;
	}
	add_place(&p, in_run_dir(c, "lock", ""), "lock", NULL, 0);
	add_place(&p, strdup(c->control), "control socket", NULL, c->control_line);
	list_for_each (t, &c->tenants, link) {
		add_place(&p, strdup(t->socket), "socket", t,
			  t->socket_line ? t->socket_line : t->line);
		if (!t->window_path)
			continue;
		add_place(&p, strdup(t->window_path), "window", t, t->window_line);
		add_place(&p, in_run_dir(c, t->name, ".window"), "window's note", t,
			  t->line);
	}
	check_places(k, p.v, p.n);
	for (unsigned i = 0; i < p.n; i++)
		free(p.v[i].path);
	free(p.v);
}

static void check_names(struct check *k, const struct conf_tenant *t)
{
	if (t->again_line)
		say(k, false, t->again_line,
		    "[tenant %s] is there already, in line %d: both count, the later key "
		    "wins",
		    t->name, t->line);
	if (t->group && !getgrnam(t->group))
		say(k, true, t->line, "tenant %s: no group \"%s\"", t->name, t->group);
	if (t->owner && !getpwnam(t->owner))
		say(k, true, t->line, "tenant %s: no user \"%s\" (owner)", t->name,
		    t->owner);
}

static void check_window(struct check *k, const struct conf_tenant *t)
{
	if (!t->window_path && t->window_size)
		say(k, true, t->line, "tenant %s: window.size without window.path",
		    t->name);
	if (!t->window_path)
		return;
	if (t->window_size < WINDOW_MIN || t->window_size == UINT64_MAX ||
	    t->window_size & (t->window_size - 1))
		say(k, true, t->window_line ? t->window_line : t->line,
		    "tenant %s: window.size must be a power of two, 16M or more",
		    t->name);
}

/* Returns 0 if that is not known before the device is open. */
static uint64_t device_size(const struct conf *c)
{
	return c->device_total ? c->device_total : c->memory;
}

static void check_memory(struct check *k, const struct conf_tenant *t)
{
	const struct conf_memory *m = &t->memory;
	uint64_t device = device_size(k->c);
	char a[32], b[32];

	if (m->min > m->max)
		say(k, true, t->line, "tenant %s: memory.min %s is above memory.max %s",
		    t->name, size_format(m->min, a, sizeof(a)),
		    size_format(m->max, b, sizeof(b)));
	if (m->low > m->max)
		say(k, false, t->line, "tenant %s: memory.low %s is above memory.max %s",
		    t->name, size_format(m->low, a, sizeof(a)),
		    size_format(m->max, b, sizeof(b)));
	if (device && m->max != UINT64_MAX && m->max > device + k->c->swap)
		say(k, false, t->line,
		    "tenant %s: memory.max %s is more than the device%s has: %s", t->name,
		    size_format(m->max, a, sizeof(a)),
		    k->c->swap ? " and swap together" : "",
		    size_format(device + k->c->swap, b, sizeof(b)));
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
		say(k, true, 0, "memory.min of all tenants is %s, the device has %s",
		    size_format(sum, a, sizeof(a)), size_format(device, b, sizeof(b)));
}

unsigned conf_check(const struct conf *c, const char *file,
		    void (*fn)(void *arg, bool wrong, const char *text), void *arg)
{
	struct check k = {.c = c, .file = file, .say = fn, .arg = arg};
	const struct conf_tenant *t;

	if (c->user && !getpwnam(c->user))
		say(&k, true, 0, "no user \"%s\" ([daemon] user)", c->user);
	if (c->operators && !getgrnam(c->operators))
		say(&k, true, 0, "no group \"%s\" ([daemon] operators)", c->operators);
	if (c->viewers && !getgrnam(c->viewers))
		say(&k, true, 0, "no group \"%s\" ([daemon] viewers)", c->viewers);
	list_for_each (t, &c->tenants, link) {
		check_names(&k, t);
		check_window(&k, t);
		check_memory(&k, t);
	}
	check_promises(&k);
	check_paths(&k);
	return k.wrong;
}
