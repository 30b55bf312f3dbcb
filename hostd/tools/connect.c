/* SPDX-License-Identifier: Apache-2.0 */
/* Finding weftd: its control socket, and whether it can be trusted. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sockfile.h"
#include "util/conf.h"
#include "tools/client.h"

#define SYSTEM_CONTROL "/run/weft/control"
#define CONNECT_WAIT_S 10

static int connect_to(const char *path)
{
	const struct timeval wait = {.tv_sec = CONNECT_WAIT_S};
	struct sockaddr_un sa;
	_cleanup_close_ int fd = -1;
	int r = sockfile_address(path, &sa);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* A daemon that stands still accepts nobody: its queue may be full. */
	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	return fd_steal(&fd);
}

/* A directory of ours, in which nobody else can have made a socket. */
static int check_dir(const char *dir)
{
	struct stat st;

	if (lstat(dir, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022)
		       ? 0
		       : -EPERM;
}

static int check_peer(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	return cred.uid == 0 || cred.uid == geteuid() ? 0 : -EPERM;
}

/* The user's own daemon. In /tmp anybody can be first to make its directory. */
static int connect_own(const char *dir, const char *path)
{
	_cleanup_close_ int fd = -1;
	int r = check_dir(dir);

	if (r < 0)
		return r;
	fd = connect_to(path);
	if (fd < 0)
		return fd;
	r = check_peer(fd);
	return r < 0 ? r : fd_steal(&fd);
}

static bool is_refusal(int error)
{
	return error == -EACCES || error == -EPERM;
}

/* The system's daemon first: it is the one with the device. */
static int connect_default(char **ret_why)
{
	_cleanup_free_ char *path = NULL, *dir = NULL;
	int fd = connect_to(SYSTEM_CONTROL), own, r;
	struct conf c;

	if (fd >= 0 || conf_init(&c) < 0)
		return fd;
	dir = steal(c.run_dir);
	conf_fini(&c);
	if (asprintf(&path, "%s/control", dir) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	own = connect_own(dir, path);
	if (own >= 0)
		return own;
	if (is_refusal(fd))
		r = asprintf(ret_why, "cannot use " SYSTEM_CONTROL
				      ": permission denied: ask to be "
				      "in the group that weftd.conf names as operators");
	else if (is_refusal(own))
		r = asprintf(ret_why,
			     "cannot trust %s: others made it, may write it, or listen "
			     "there",
			     dir);
	else if (strcmp(path, SYSTEM_CONTROL) != 0)
		r = asprintf(ret_why,
			     "no weftd at " SYSTEM_CONTROL " nor %s: start it, or name "
			     "its socket by --control",
			     path);
	else
		r = asprintf(ret_why,
			     "no weftd at %s: start it, or name its socket by "
			     "--control",
			     path);
	if (r < 0)
		*ret_why = NULL;
	return is_refusal(fd) ? fd : own;
}

static const char *connect_error(int error)
{
	switch (error) {
	case -ENOENT:
		return "there is no such socket; its path is [daemon] control in "
		       "weftd.conf, or the file control in its run directory";
	case -ECONNREFUSED:
		return "nobody listens there any more: start weftd";
	case -EACCES:
		return "permission denied: ask to be in the group that weftd.conf names "
		       "as operators";
	default:
		return strerror(-error);
	}
}

int client_open(struct client *c, const char *path, char **ret_why)
{
	*ret_why = NULL;
	c->fd = path ? connect_to(path) : connect_default(ret_why);
	if (c->fd < 0) {
		if (!*ret_why &&
		    asprintf(ret_why, "no weftd at %s: %s", path ? path : SYSTEM_CONTROL,
			     connect_error(c->fd)) < 0)
			*ret_why = NULL;
		return c->fd;
	}
	c->at = c->len = 0;
	c->tok = json_tokener_new();
	if (!c->tok) {
		close(c->fd);
		return -ENOMEM;
	}
	return 0;
}
