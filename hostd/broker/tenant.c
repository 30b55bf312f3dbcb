/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's socket, and the door that listens on it. The socket it came in on is the
 * only thing that says which tenant a guest belongs to.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "broker/broker.h"

#define LISTEN_BACKLOG SOMAXCONN
/* A door that ended is started again after this. */
#define DOOR_PAUSE_NS (500 * NSEC_PER_MSEC)

struct tenant *tenant_find(struct broker *b, const char *name)
{
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		if (!strcmp(t->name, name))
			return t;
	}
	return NULL;
}

/* Nobody listens there any more: a daemon before us left it. */
static bool is_stale(const struct sockaddr_un *sa)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 &&
	       errno == ECONNREFUSED;
}

/* Under the run directory, whose lock we hold: at most a door that is about to end. */
static bool is_ours(const struct broker *b, const char *path)
{
	size_t n = strlen(b->conf->run_dir);

	return !strncmp(path, b->conf->run_dir, n) && path[n] == '/' &&
	       !strchr(path + n + 1, '/');
}

int listen_unix(struct broker *b, const char *path, mode_t mode)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	mode_t old;
	int r;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (is_ours(b, path) || is_stale(&sa))
		unlink(path);
	/* Nobody gets in between bind and chmod. */
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? -errno : 0;
	umask(old);
	if (r < 0)
		return r;
	if (chmod(path, mode) < 0 || listen(fd, LISTEN_BACKLOG) < 0) {
		r = -errno;
		unlink(path);
		return r;
	}
	return fd_steal(&fd);
}

/* ---- the door ---- */

static void door_pause(struct tenant *t)
{
	t->door_at_ns = clock_now_ns() + DOOR_PAUSE_NS;
}

static void on_door_exit(struct source *src, uint32_t events)
{
	struct tenant *t = container_of(src, struct tenant, door.exit);
	int status = child_reap(t->b, &t->door);

	source_remove(t->b, &t->door_ctl);
	log_warning("tenant %s: door ended with status 0x%x", t->name, status);
	door_pause(t);
}

/* The door has seen to it already, but it has met guests. */
static void clean_name(char *name, size_t room)
{
	name[room - 1] = '\0';
	for (char *p = name; *p; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
}

static void on_door(struct source *src, uint32_t events)
{
	struct tenant *t = container_of(src, struct tenant, door_ctl);
	_cleanup_close_ int fd0 = -1, fd1 = -1;
	struct ctl_msg m;
	int r = ctl_recv(src->fd, &m, &fd0, &fd1);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r == 0 && m.type == CTL_HELLO && fd0 >= 0) {
		clean_name(m.hello.name, sizeof(m.hello.name));
		pool_guest(t, &m.hello, fd_steal(&fd0));
		return;
	}
	source_remove(t->b, &t->door_ctl);
	child_kill(&t->door);
}

static int door_start(struct tenant *t)
{
	char *argv[] = {(char *)"weft-door", (char *)(t->b->conf->user ? "--user" : NULL),
			t->b->conf->user, NULL};
	_cleanup_close_ int ours = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	r = fd_set_nonblock(ours, 1);
	if (r == 0)
		r = source_add(t->b, &t->door_ctl, ours, EPOLLIN, on_door);
	if (r < 0)
		return r;
	fd_steal(&ours);
	r = child_spawn(t->b, &t->door, argv, (int[]){theirs, t->listen}, 2,
			on_door_exit);
	if (r < 0) {
		source_remove(t->b, &t->door_ctl);
		return r;
	}
	t->door_at_ns = 0;
	return 0;
}

uint64_t tenant_tick(struct broker *b, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		if (t->door_at_ns && now_ns >= t->door_at_ns && door_start(t) < 0)
			door_pause(t);
		if (t->door_at_ns)
			next = MIN(next, t->door_at_ns);
	}
	return next;
}

/* ---- life ---- */

/* Lets the tenant's own programs (QEMU, weft-vsock) at what is theirs. */
static int give_to(const struct conf_tenant *ct, const char *path)
{
	const struct group *g = ct->group ? getgrnam(ct->group) : NULL;

	if (ct->group && !g)
		return -ENOENT;
	if (g && chown(path, (uid_t)-1, g->gr_gid) < 0)
		return -errno;
	return chmod(path, ct->mode) < 0 ? -errno : 0;
}

static int open_window(struct tenant *t, const struct conf_tenant *ct)
{
	_cleanup_free_ char *note = NULL;
	int r;

	if (asprintf(&note, "%s/%s.window", t->b->conf->run_dir, t->name) < 0) {
		note = NULL;
		return -ENOMEM;
	}
	r = window_open(&t->window, ct->window_path, ct->window_size, note);
	if (r == 0 && t->window.created)
		r = give_to(ct, ct->window_path);
	return r;
}

static int open_all(struct tenant *t, const struct conf_tenant *ct)
{
	int r = 0;

	if (ct->socket)
		t->socket = strdup(ct->socket);
	else if (asprintf(&t->socket, "%s/%s.sock", t->b->conf->run_dir, t->name) < 0)
		t->socket = NULL;
	if (!t->socket)
		return -ENOMEM;
	if (ct->window_path)
		r = open_window(t, ct);
	if (r < 0) {
		log_error("window %s: %s", ct->window_path, strerror(-r));
		return r;
	}
	t->listen = listen_unix(t->b, t->socket, 0600);
	r = t->listen < 0 ? t->listen : give_to(ct, t->socket);
	if (r < 0) {
		log_error("socket %s: %s", t->socket, strerror(-r));
		return r;
	}
	return door_start(t);
}

static void tenant_release(void *arg)
{
	struct tenant *t = arg;

	free(t->socket);
	free(t);
}

void tenant_free(struct tenant *t)
{
	if (!list_empty(&t->link))
		list_remove(&t->link);
	t->removed = true;
	reclaim_drop_tenant(t);
	pool_drop_tenant(t);
	source_remove(t->b, &t->door_ctl);
	if (t->door.pid) {
		child_kill(&t->door);
		child_reap(t->b, &t->door);
	}
	if (t->listen >= 0) {
		close(t->listen);
		unlink(t->socket);
	}
	window_fini(&t->window);
	if (loop_defer(t->b, tenant_release, t) < 0)
		log_error("out of memory");
}

int tenant_new(struct broker *b, const struct conf_tenant *ct, struct tenant **ret_t)
{
	struct tenant *t;
	int r;

	if (tenant_find(b, ct->name))
		return -EEXIST;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->b = b;
	list_init(&t->link);
	list_init(&t->shares);
	memcpy(t->name, ct->name, sizeof(t->name));
	t->memory = ct->memory;
	t->host_max = ct->host_max;
	t->sessions_max = ct->sessions_max;
	t->listen = t->door.exit.fd = t->door_ctl.fd = t->window.fd = -1;
	r = open_all(t, ct);
	if (r < 0) {
		tenant_free(t);
		return r;
	}
	list_append(&b->tenants, &t->link);
	log_info("tenant %s: %s", t->name, t->socket);
	if (ret_t)
		*ret_t = t;
	return 0;
}
