/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing stays behind, whatever dies first: weftd ends when the lifeline closes, which
 * the kernel does if this process is killed, and removes its sockets; the directory goes
 * at the next start of anyone if nobody is left to remove it now (the lock in it says
 * so).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tools/private.h"
#include "util/lockfile.h"
#include "util/selfdir.h"

#define DIR_PREFIX "weft-private-"

static const char *tmp_dir(void)
{
	const char *t = getenv("TMPDIR");

	/* Sockets have short names only. */
	return t && *t == '/' && strlen(t) < 24 ? t : "/tmp";
}

static void remove_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			unlinkat(dirfd(d), e->d_name, 0);
	}
	closedir(d);
	rmdir(path);
}

/* A directory of a daemon that was killed together with its owner. */
static void sweep_one(const char *path)
{
	char lock[160];
	struct stat st;
	int fd;

	snprintf(lock, sizeof(lock), "%s/lock", path);
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return;
	fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	/* A daemon whose directory was removed already may have made it again. */
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && lockfile_is_at(fd, lock))
		remove_dir(path);
	close(fd);
}

static void sweep(void)
{
	DIR *d = opendir(tmp_dir());
	struct dirent *e;
	char path[128];

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (strncmp(e->d_name, DIR_PREFIX, strlen(DIR_PREFIX)) != 0 ||
		    strlen(e->d_name) > 40)
			continue;
		snprintf(path, sizeof(path), "%s/%.40s", tmp_dir(), e->d_name);
		sweep_one(path);
	}
	closedir(d);
}

static _Noreturn void exec_daemon(const char *path, const char *dir,
				  const struct private_opts *o, int ready, int lifeline)
{
	char *argv[32], fd[2][16];
	unsigned n = 0;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid(); /* not the terminal's: it ends after the program */
	snprintf(fd[0], sizeof(fd[0]), "%d", ready);
	snprintf(fd[1], sizeof(fd[1]), "%d", lifeline);
	fcntl(ready, F_SETFD, 0);
	fcntl(lifeline, F_SETFD, 0);
	argv[n++] = (char *)"weftd";
	argv[n++] = (char *)"--config";
	argv[n++] = (char *)"/dev/null";
	argv[n++] = (char *)"--run-dir";
	argv[n++] = (char *)dir;
	argv[n++] = (char *)"--pool";
	argv[n++] = (char *)"1";
	argv[n++] = (char *)"--ready-fd";
	argv[n++] = fd[0];
	argv[n++] = (char *)"--lifeline-fd";
	argv[n++] = fd[1];
	argv[n++] = (char *)"--device";
	argv[n++] = (char *)(o->device ? o->device : "auto");
	if (o->tpcs) {
		argv[n++] = (char *)"--tpcs";
		argv[n++] = (char *)o->tpcs;
	}
	if (o->memory) {
		argv[n++] = (char *)"--memory";
		argv[n++] = (char *)o->memory;
	}
	if (o->swap) {
		argv[n++] = (char *)"--swap";
		argv[n++] = (char *)o->swap;
	}
	if (o->threads) {
		argv[n++] = (char *)"--threads";
		argv[n++] = (char *)o->threads;
	}
	if (o->rewrite) {
		argv[n++] = (char *)"--kernel.rewrite";
		argv[n++] = (char *)o->rewrite;
	}
	argv[n] = NULL;
	/* A daemon of one program talks only of what goes wrong. */
	setenv("WEFT_LOG", "warning", 0);
	execv(path, argv);
	_exit(127);
}

static int make_dir(struct private_daemon *d)
{
	sweep();
	snprintf(d->dir, sizeof(d->dir), "%s/" DIR_PREFIX "XXXXXX", tmp_dir());
	return mkdtemp(d->dir) ? 0 : -errno;
}

int private_start(const struct private_opts *o, struct private_daemon *ret_d)
{
	_cleanup_close_ int ready_r = -1, ready_w = -1, life_r = -1, life_w = -1;
	_cleanup_free_ char *bin = NULL, *path = NULL;
	struct private_daemon d = {.lifeline = -1};
	int p[2], r;
	char c;

	if (self_dir("weftd", &bin) < 0 || asprintf(&path, "%s/weftd", bin) < 0) {
		fprintf(stderr, "weft-run: weftd is not installed beside weft-run\n");
		return -ENOENT;
	}
	r = make_dir(&d);
	if (r < 0) {
		fprintf(stderr, "weft-run: no directory can be made in %s: %s\n",
			tmp_dir(), strerror(-r));
		return r;
	}
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	ready_r = p[0];
	ready_w = p[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	life_r = p[0];
	life_w = p[1];
	d.pid = fork();
	if (d.pid < 0)
		return -errno;
	if (d.pid == 0)
		exec_daemon(path, d.dir, o, ready_w, life_r);
	close(fd_steal(&ready_w));
	r = fd_read_full(ready_r, &c, 1);
	d.lifeline = fd_steal(&life_w);
	if (r < 0) {
		/* The daemon has said why. */
		private_stop(&d);
		return -ENODEV;
	}
	*ret_d = d;
	return 0;
}

void private_stop(struct private_daemon *d)
{
	if (d->lifeline >= 0)
		close(fd_steal(&d->lifeline));
	if (d->pid > 0) {
		while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	d->pid = 0;
	if (*d->dir)
		remove_dir(d->dir);
}
