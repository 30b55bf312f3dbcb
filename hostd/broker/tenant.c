/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants as others find them, and what ends one for good; tenants.c makes them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/sockfile.h"
#include "broker/broker.h"
#include "broker/child/cgroup.h"
#include "broker/loop/loop.h"
#include "broker/tenant.h"
#include "broker/window.h"
#include "ipc/msg.h"
#include "util/conf.h"
#include "util/fdstore.h"

#define LISTEN_BACKLOG SOMAXCONN

bool tenant_draws(const struct tenant *t)
{
	enum conf_graphics g = t->compute.graphics;

	return g == CONF_GRAPHICS_ON ||
	       (g == CONF_GRAPHICS_DEFAULT && t->memory.max != UINT64_MAX);
}

bool tenant_drains(const struct tenant *t)
{
	return t->draining || t->b->draining;
}

struct tenant *tenant_find(struct broker *b, const char *name)
{
	struct tenant *t;

	list_for_each (t, &b->tenants, link) {
		if (!strcmp(t->name, name))
			return t;
	}
	return NULL;
}

/* Under the run directory, whose lock we hold: at most a listener that is about to end.
 * */
static bool is_ours(const struct broker *b, const char *path)
{
	size_t n = strlen(b->conf->run_dir);

	return !strncmp(path, b->conf->run_dir, n) && path[n] == '/' &&
	       !strchr(path + n + 1, '/');
}

/* Returns the socket of the weftd before us, in whose backlog others may be, or -1. */
static int listen_again(const char *kept, const char *path, struct sockfile *ret_file)
{
	_cleanup_close_ int fd = fdstore_take(kept);
	struct sockaddr_un sa = {0};
	socklen_t len = sizeof(sa);
	struct stat st;

	if (fd < 0)
		return -1;
	if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
	    !strncmp(sa.sun_path, path, sizeof(sa.sun_path)) && lstat(path, &st) == 0 &&
	    S_ISSOCK(st.st_mode) && sockfile_note(path, ret_file) == 0)
		return fd_steal(&fd);
	fdstore_remove(kept);
	return -1;
}

int listen_unix(struct broker *b, const char *path, mode_t mode, const char *kept,
		struct sockfile *ret_file)
{
	struct sockaddr_un sa;
	_cleanup_close_ int fd = -1;
	mode_t old;
	int r = sockfile_address(path, &sa);

	if (r < 0)
		return r;
	fd = listen_again(kept, path, ret_file);
	if (fd >= 0)
		return fd_steal(&fd);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	r = sockfile_clear(path, is_ours(b, path));
	if (r < 0)
		return r;
	/* Nobody gets in between bind and chmod. */
	old = umask(0177);
	msg_refuse_fds(fd);
	r = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? -errno : 0;
	umask(old);
	if (r < 0)
		return r;
	r = sockfile_note(path, ret_file);
	if (r == 0 && (chmod(path, mode) < 0 || listen(fd, LISTEN_BACKLOG) < 0)) {
		r = -errno;
		sockfile_remove(path, ret_file);
	}
	if (r == 0 && fdstore_put(kept, fd) < 0)
		log_warning("socket %s will not outlive this process", path);
	return r < 0 ? r : fd_steal(&fd);
}

static void tenant_release(void *arg)
{
	struct tenant *t = arg;

	free(t->socket);
	free(t);
}

void tenant_try_release(struct tenant *t)
{
	if (!t->removed || t->n_sessions || t->listener.pid)
		return;
	list_remove(&t->link);
	window_fini(&t->window);
	cgroup_end(t);
	if (t->on_release)
		t->on_release(t->released_for);
	if (loop_defer(t->b->loop, tenant_release, t) < 0)
		log_error("out of memory");
}

void tenants_forget(struct broker *b, const void *arg)
{
	struct tenant *t;

	list_for_each (t, &b->leaving, link) {
		if (t->released_for == arg)
			t->on_release = NULL;
	}
}
