/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: sections, keys, where they are, and drop-ins. */
#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/macros.h"
#include "util/conf.h"
#include "util/conf_alias.h"

#define TENANT_SECTION "tenant "

struct reading {
	struct conf *c;
	FILE *f;
	const char *name; /* kept_name() */
	int line;
	bool in_daemon;        /* in section [daemon] */
	struct conf_tenant *t; /* in that one's; neither: in none, or a wrong one */
	char *why;             /* about the first mistake */
	int error, error_line;
};

/* Takes over why. */
static void mistake(struct reading *rd, int error, char *why)
{
	if (rd->error) {
		free(why);
		return;
	}
	rd->error = error == -ENOMEM ? error : -EINVAL;
	rd->error_line = rd->line;
	rd->why = why;
}

static struct conf_at here(const struct reading *rd)
{
	return (struct conf_at){rd->name, rd->line};
}

static int tenant_section(struct reading *rd, const char *name)
{
	struct conf_tenant *t = conf_tenant_find(rd->c, name);

	if (t) {
		if (t->at.file == rd->name)
			t->again_at = here(rd);
		rd->t = t;
		return 0;
	}
	t = conf_tenant_new(name);
	if (!t)
		return -ENOMEM;
	t->at = here(rd);
	list_append(&rd->c->tenants, &t->link);
	rd->t = t;
	return 0;
}

/* inih cuts long section names off, and tells of keys only. */
static void enter_section(struct reading *rd, const char *line)
{
	_cleanup_free_ char *name = strndup(line + 1, strcspn(line + 1, "]"));
	size_t n = strlen(TENANT_SECTION);
	const char *why = NULL;

	rd->in_daemon = false;
	rd->t = NULL;
	if (!name || !strchr(line, ']'))
		return;
	if (!strcmp(name, "daemon")) {
		rd->in_daemon = true;
		return;
	}
	if (strncmp(name, TENANT_SECTION, n) != 0)
		why = "no such section; there are [daemon] and [tenant NAME]";
	else
		why = conf_name_error(name + n);
	if (why)
		mistake(rd, -EINVAL, strdup(why));
	else if (tenant_section(rd, name + n) < 0)
		mistake(rd, -ENOMEM, strdup("out of memory"));
}

/* Remembers where keys are that others may contradict. */
static void note_key(struct reading *rd, const char *key)
{
	struct conf_tenant *t = rd->t;

	if (rd->in_daemon && !strcmp(key, "socket"))
		rd->c->socket_at = here(rd);
	else if (rd->in_daemon && !strcmp(key, "control"))
		rd->c->control_at = here(rd);
	if (!t)
		return;
	if (!strcmp(key, "socket"))
		t->socket_at = here(rd);
	else if (!strcmp(key, "window.path"))
		t->window_at = here(rd);
	else if (!strcmp(key, "vm.uuid"))
		t->uuid_at = here(rd);
	else if (conf_is_space_key(key))
		t->space_at = here(rd);
	for (unsigned i = 0; conf_memory_keys[i]; i++) {
		if (!strcmp(key, conf_memory_keys[i]) || conf_alias_known(key))
			t->memory_at[i] = here(rd);
	}
}

/* inih: nonzero is success. Mistakes are kept here, so that the first one is told. */
static int on_key(void *user, const char *section, const char *key, const char *value)
{
	struct reading *rd = user;
	int r = -EINVAL;

	if (rd->in_daemon)
		r = conf_daemon_set(rd->c, key, value);
	else if (rd->t)
		r = conf_tenant_set(rd->t, key, value);
	else
		mistake(rd, r, strdup("a key before the first section"));
	if (r < 0)
		mistake(rd, r, conf_error(key, value, r));
	else
		note_key(rd, key);
	return 1;
}

/* Takes away what is before the first word: no line continues another. */
static void trim(struct reading *rd, char *line)
{
	size_t n = 0;

	if (rd->line == 1 && !strncmp(line, "\xef\xbb\xbf", 3))
		n = 3;
	n += strspn(line + n, " \t");
	memmove(line, line + n, strlen(line + n) + 1);
}

/* A line of any length is one line, and one call of inih's. */
static char *read_line(char *buf, int room, void *arg)
{
	struct reading *rd = arg;
	char *line = fgets(buf, room, rd->f);
	bool cut = false;

	if (!line)
		return NULL;
	rd->line++;
	if (!strchr(line, '\n')) {
		for (int c; (c = getc(rd->f)) != EOF && c != '\n';)
			cut = true;
	}
	trim(rd, line);
	if (cut && *line != ';' && *line != '#')
		mistake(rd, -EINVAL, strdup("the line is too long"));
	if (*line == '[')
		enter_section(rd, line);
	return line;
}

static int read_stream(struct reading *rd, char **ret_why)
{
	int line = ini_parse_stream(read_line, rd, on_key, rd);

	fclose(rd->f);
	if (line && (!rd->error || line < rd->error_line)) {
		free(rd->why);
		rd->why = NULL;
		rd->error = -EINVAL;
		rd->error_line = MAX(line, 1);
	}
	if (rd->error && ret_why &&
	    asprintf(ret_why, "%s:%d: %s", rd->name, rd->error_line,
		     rd->why ? rd->why : "neither a section nor a key = value") < 0)
		*ret_why = NULL;
	free(rd->why);
	return rd->error;
}

/* Names of files outlive what was read of them, since tenants that run remember where they
 * come from. There are few, each is kept once. */
static const char *kept_name(const char *path)
{
	static struct name {
		struct name *next;
		char text[];
	} * names;
	struct name *n = names;

	while (n && strcmp(n->text, path) != 0)
		n = n->next;
	if (n)
		return n->text;
	n = malloc(sizeof(*n) + strlen(path) + 1);
	if (!n)
		return NULL;
	memcpy(n->text, path, strlen(path) + 1);
	n->next = names;
	names = n;
	return n->text;
}

/* Adds a file's bytes to c->text, with a line's end behind them. Returns 0 or -errno. */
static int add_text(struct conf *c, FILE *f)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);
	char buf[4096];
	size_t got;
	int r = 0;

	if (!to)
		return -ENOMEM;
	if (c->text)
		fputs(c->text, to);
	while ((got = fread(buf, 1, sizeof(buf), f)) > 0)
		fwrite(buf, 1, got, to);
	if (ferror(f))
		r = -errno;
	putc('\n', to);
	if (fclose(to) != 0 && r == 0)
		r = -ENOMEM;
	if (r < 0) {
		free(text);
		return r;
	}
	free(c->text);
	c->text = text;
	rewind(f);
	return 0;
}

int conf_read(struct conf *c, const char *path, char **ret_why)
{
	struct reading rd = {.c = c, .name = kept_name(path)};
	int r = -ENOMEM;

	if (rd.name) {
		rd.f = fopen(path, "re");
		r = rd.f ? add_text(c, rd.f) : -errno;
	}
	if (r == 0)
		return read_stream(&rd, ret_why);
	if (rd.f)
		fclose(rd.f);
	if (ret_why && asprintf(ret_why, "%s: %s", path, strerror(-r)) < 0)
		*ret_why = NULL;
	return r;
}

int conf_parse(struct conf *c, const char *text, char **ret_why)
{
	struct reading rd = {.c = c, .name = kept_name("text")};

	/* fmemopen() refuses an empty buffer. */
	if (!*text)
		return 0;
	if (!rd.name)
		return -ENOMEM;
	rd.f = fmemopen((void *)text, strlen(text), "r");
	return rd.f ? read_stream(&rd, ret_why) : -errno;
}

static int is_dropin(const struct dirent *e)
{
	size_t n = strlen(e->d_name), suffix = strlen(".conf");

	return *e->d_name != '.' && n > suffix &&
	       !strcmp(e->d_name + n - suffix, ".conf");
}

/* Byte by byte, whatever the language. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_dropin(struct conf *c, const char *dir, const char *name, char **ret_why)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	c->n_dropins++;
	return conf_read(c, path, ret_why);
}

static int read_dropins(struct conf *c, const char *dir, char **ret_why)
{
	struct dirent **names;
	int n = scandir(dir, &names, is_dropin, by_bytes), r = 0;

	if (n < 0 && errno == ENOENT)
		return 0;
	if (n < 0) {
		r = -errno;
		if (ret_why && asprintf(ret_why, "%s: %s", dir, strerror(-r)) < 0)
			*ret_why = NULL;
		return r;
	}
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = read_dropin(c, dir, names[i]->d_name, ret_why);
		free(names[i]);
	}
	free(names);
	return r;
}

int conf_read_all(struct conf *c, const char *path, bool must_exist, char **ret_why)
{
	_cleanup_free_ char *dir = NULL;
	int r = 0;

	if (must_exist || access(path, F_OK) == 0)
		r = conf_read(c, path, ret_why);
	if (r < 0)
		return r;
	if (asprintf(&dir, "%s.d", path) < 0) {
		dir = NULL;
		return -ENOMEM;
	}
	return read_dropins(c, dir, ret_why);
}
