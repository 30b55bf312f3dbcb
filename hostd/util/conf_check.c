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
#include "util/tpcs.h"

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

static void check_cap(struct check *k, const struct conf_tenant *t)
{
	const struct cap *c = &t->compute.max;

	if (c->quota_us && c->quota_us >= c->period_us)
		say(k, false, t->at,
		    "tenant %s: compute.max has a quota of the whole period: there is no "
		    "limit",
		    t->name);
}

/* Side by side with others nobody is first, nor has a weight. */
static void check_class(struct check *k, const struct conf_tenant *t)
{
	const struct conf_compute *c = &t->compute;

	if (!c->shared)
		return;
	if (c->priority)
		say(k, true, t->at,
		    "tenant %s: compute.class = shared and compute.priority contradict "
		    "each other: nobody comes first there",
		    t->name);
	if (c->weight != CONF_WEIGHT_DEFAULT)
		say(k, true, t->at,
		    "tenant %s: compute.class = shared and compute.weight contradict "
		    "each "
		    "other: its parts are TPCs (tpc.set, tpc.count)",
		    t->name);
	if (!strcmp(k->c->device, "cuda") && !k->c->mps)
		say(k, true, t->at,
		    "tenant %s: compute.class = shared wants mps in [daemon]: where the "
		    "control daemon of MPS listens",
		    t->name);
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

/* ---- TPCs ---- */

static bool asks_for_space(const struct conf_tenant *t)
{
	return !space_is_empty(&t->space.tpcs) || !space_is_empty(&t->space.gpcs) ||
	       t->space.count || t->space.exclusive;
}

/* A tenant that asks for nothing and may have no session needs none. */
static bool wants_space(const struct conf_tenant *t)
{
	return t->sessions_max || asks_for_space(t);
}

/* The i-th that wants some. */
static const struct conf_tenant *space_tenant_at(const struct conf *c, uint32_t i)
{
	const struct conf_tenant *t;

	list_for_each (t, &c->tenants, link) {
		if (wants_space(t) && !i--)
			return t;
	}
	return NULL;
}

/* The two keys that a tenant has, and may have one of. */
static void say_two(struct check *k, const struct conf_tenant *t)
{
	const char *a = space_is_empty(&t->space.tpcs) ? "gpc.set" : "tpc.set";
	const char *b = t->space.count ? "tpc.count" : "gpc.set";

	say(k, true, t->space_at,
	    "tenant %s: %s and %s contradict each other: one of them has to be %s",
	    t->name, a, b, t->space.count ? "all, or the second max" : "all");
}

static void say_space(struct check *k, const struct space_why *why)
{
	const struct conf_tenant *t = space_tenant_at(k->c, why->tenant);
	const struct conf_tenant *other = space_tenant_at(k->c, why->other);
	uint32_t n = k->c->space.n;
	char text[TPCS_TEXT];

	switch (why->error) {
	case SPACE_CONTRADICTS:
		say_two(k, t);
		break;
	case SPACE_ALL_ALONE:
		say(k, true, t->space_at,
		    "tenant %s: tpc.exclusive wants tpc.set, gpc.set or tpc.count: which "
		    "TPCs it has alone",
		    t->name);
		break;
	case SPACE_NO_TPC:
		say(k, true, t->space_at,
		    "tenant %s: tpc.set has TPC %u, the device has 0 to %u", t->name,
		    why->what, n - 1);
		break;
	case SPACE_NO_GPC:
		say(k, true, t->space_at,
		    "tenant %s: gpc.set has GPC %u, which the device has not", t->name,
		    why->what);
		break;
	case SPACE_TAKEN:
		say(k, true, t->space_at,
		    "TPC %u is that of tenant %s, and of tenant %s, and %s is to have it "
		    "alone (tpc.exclusive)",
		    why->what, t->name, other->name,
		    t->space.exclusive ? t->name : other->name);
		break;
	case SPACE_TOO_MANY:
		if (t->space.count)
			say(k, true, t->space_at,
			    "tenant %s: tpc.count is %s, and %u TPCs are left that are "
			    "nobody's alone",
			    t->name, tpcs_format_count(&t->space, text, sizeof(text)),
			    why->what);
		else
			say(k, true, t->at,
			    "tenant %s: all TPCs are other tenants' alone: leave some, "
			    "or have it begin no sessions (sessions.max = 0)",
			    t->name);
		break;
	case SPACE_OK:
		break;
	}
}

/* Sets that are not there, sums that exceed the device, and who is in whose way. */
static void check_space(struct check *k)
{
	uint32_t n = 0, room = 0;
	_cleanup_free_ struct space_tenant *v = NULL;
	const struct conf_tenant *t;
	struct space_why why;

	list_for_each (t, &k->c->tenants, link)
		room++;
	v = calloc(room + 1u, sizeof(*v));
	if (!v)
		return;
	list_for_each (t, &k->c->tenants, link) {
		if (k->c->space_known && !k->c->space.n && asks_for_space(t))
			say(k, true, t->space_at,
			    "tenant %s: this device cannot keep kernels to some of its "
			    "TPCs (tpc.set, gpc.set, tpc.count)",
			    t->name);
		if (wants_space(t))
			v[n++].want = t->space;
	}
	why = space_assign(&k->c->space, v, n);
	/* Before the device is known only what contradicts itself is wrong. */
	if (k->c->space.n || why.error == SPACE_CONTRADICTS ||
	    why.error == SPACE_ALL_ALONE || why.error == SPACE_TAKEN)
		say_space(k, &why);
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
		check_cap(&k, t);
		check_class(&k, t);
	}
	check_uuids(&k);
	check_promises(&k);
	check_space(&k);
	check_paths(&k);
	return k.wrong;
}
