/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
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
#include "tools/table.h"

#define SYSTEM_CONTROL "/run/weft/control"
/* Longer than the longest end of a daemon: it waits for its workers. */
#define END_WAIT_S 30

static int connect_to(const char *path)
{
	struct sockaddr_un sa;
	_cleanup_close_ int fd = -1;
	int r = sockfile_address(path, &sa);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
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
	c->tok = json_tokener_new();
	if (!c->tok) {
		close(c->fd);
		return -ENOMEM;
	}
	return 0;
}

const char *client_error(int error, struct json_object *answer)
{
	if (answer && *json_str(answer, "error"))
		return json_str(answer, "error");
	if (error == -ENODATA || error == -EPIPE || error == -ECONNRESET)
		return "weftd has ended, or does not talk to this user";
	if (error == -ETIMEDOUT)
		return "weftd is still ending";
	return strerror(-error);
}

void client_close(struct client *c)
{
	close(c->fd);
	json_tokener_free(c->tok);
}

static int read_answer(struct client *c, struct json_object **ret)
{
	struct json_object *o = NULL;
	char buf[4096];

	json_tokener_reset(c->tok);
	while (!o) {
		ssize_t n = recv(c->fd, buf, sizeof(buf), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		o = json_tokener_parse_ex(c->tok, buf, (int)n);
		if (!o && json_tokener_get_error(c->tok) != json_tokener_continue)
			return -EPROTO;
	}
	*ret = o;
	return 0;
}

int client_ask(struct client *c, struct json_object *request, struct json_object **ret)
{
	const char *text =
		json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN);
	int r = fd_write_full(c->fd, text, strlen(text));

	if (r == 0)
		r = fd_write_full(c->fd, "\n", 1);
	json_object_put(request);
	if (r == 0)
		r = read_answer(c, ret);
	if (r < 0)
		return r;
	return json_object_get_boolean(json_get(*ret, "ok")) ? 0 : -EREMOTEIO;
}

int client_wait_end(struct client *c)
{
	struct timeval wait = {.tv_sec = END_WAIT_S};
	char rest[16]; /* of the answer: its line's end */
	ssize_t n;

	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0)
		return -errno;
	do
		n = recv(c->fd, rest, sizeof(rest), 0);
	while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0 && errno != ECONNRESET)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	return 0;
}

struct json_object *client_request(const char *cmd)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "cmd", json_object_new_string(cmd));
	return o;
}

struct json_object *json_get(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	json_object_object_get_ex(o, key, &v);
	return v;
}

size_t json_count(struct json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list)
							  : 0;
}

uint64_t json_u64(struct json_object *o, const char *key)
{
	struct json_object *v = json_get(o, key);

	return json_object_is_type(v, json_type_string) ? UINT64_MAX
							: json_object_get_uint64(v);
}

const char *json_str(struct json_object *o, const char *key)
{
	const char *s = json_object_get_string(json_get(o, key));

	return s ? s : "";
}

char *time_format(uint64_t ns, char *buf, size_t room)
{
	if (ns < 1000000)
		snprintf(buf, room, "%.0f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, room, "%.0f ms", (double)ns / 1e6);
	else
		snprintf(buf, room, "%.2f s", (double)ns / 1e9);
	return buf;
}

void print_refused(FILE *f, struct json_object *a)
{
	static const struct table_column columns[] = {
		{"REFUSED", false}, {"TIMES", true}, {"WHAT", false}};
	struct table t = {columns, ARRAY_SIZE(columns), NULL, 0};
	struct json_object *list = json_get(a, "refused");
	uint64_t others = json_u64(a, "refused_others");

	if (!json_count(list) && !others)
		return;
	for (size_t i = 0; i < json_count(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		table_add(&t, "%s", json_str(o, "kind"));
		table_add(&t, "%" PRIu64, json_u64(o, "count"));
		table_add(&t, "%s", json_str(o, "what"));
	}
	if (others) {
		table_add(&t, "others");
		table_add(&t, "%" PRIu64, others);
		table_add(&t, "%s", "");
	}
	fputc('\n', f);
	table_print(&t, f);
}
