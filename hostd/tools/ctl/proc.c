/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "tools/ctl/proc.h"

/* QEMU's command lines are long. */
#define WORDS_MAX (256u << 10)

const char *proc_name(const struct proc *p)
{
	const char *slash = strrchr(p->words, '/');

	return slash ? slash + 1 : p->words;
}

static const char *next_word(const struct proc *p, const char *word)
{
	word += strlen(word) + 1;
	return word < p->words + p->len ? word : NULL;
}

const char *proc_word_after(const struct proc *p, const char *word)
{
	for (const char *w = p->words; w; w = next_word(p, w)) {
		if (!strcmp(w, word))
			return next_word(p, w);
	}
	return NULL;
}

const char *proc_word_with(const struct proc *p, const char *text)
{
	for (const char *w = p->words; w; w = next_word(p, w)) {
		const char *at = strstr(w, text);

		if (at)
			return at;
	}
	return NULL;
}

/* Words of a process; a kernel's has none. False: there are none, or it has gone. */
static bool read_words(int dir, const char *pid, char *buf, struct proc *ret)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	size_t n = 0;
	ssize_t r;

	if (asprintf(&path, "%s/cmdline", pid) < 0)
		return false;
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (n < WORDS_MAX && (r = read(fd, buf + n, WORDS_MAX - n)) > 0)
		n += (size_t)r;
	buf[n] = '\0';
	*ret = (struct proc){.pid = (pid_t)strtol(pid, NULL, 10), .words = buf, .len = n};
	return n > 0;
}

pid_t proc_find(const char *root, bool (*fn)(const struct proc *p, void *arg), void *arg)
{
	_cleanup_free_ char *path = NULL, *buf = malloc(WORDS_MAX + 1);
	struct dirent *e;
	struct proc p;
	pid_t found = 0;
	DIR *d;

	if (!buf || asprintf(&path, "%s/proc", root) < 0)
		return 0;
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		if (e->d_name[strspn(e->d_name, "0123456789")] == '\0' &&
		    read_words(dirfd(d), e->d_name, buf, &p) && fn(&p, arg))
			found = p.pid;
	}
	if (d)
		closedir(d);
	return found;
}
