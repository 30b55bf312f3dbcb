/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one JSON object a line in, one a line out. Who may connect is a
 * matter of the socket's mode and of who runs weftd: root, that user, and the group of
 * operators.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/sockfile.h"
#include "broker/broker.h"
#include "broker/control.h"
#include "broker/loop/loop.h"
#include "broker/memory/waiters.h"
#include "broker/reply.h"
#include "broker/tenant.h"
#include "util/conf.h"

#define REQUEST_MAX (64u << 10)
#define GROUPS_MAX  1024u /* of one process; one in more is no operator */

struct client {
	struct list link;
	struct broker *b;
	struct source src;
	struct ucred cred;
	bool waiting; /* for an answer; what it asks for meanwhile comes after that */
	size_t used;
	char in[REQUEST_MAX];
};

static void client_free(void *arg)
{
	free(arg);
}

static void client_close(struct client *c)
{
	waiters_forget(c->b, c);
	tenants_forget(c->b, c);
	source_remove(c->b->loop, &c->src);
	list_remove(&c->link);
	if (loop_defer(c->b->loop, client_free, c) < 0)
		log_error("out of memory");
}

/* Takes over the answer. */
static int send_answer(struct client *c, struct json_object *a)
{
	const char *text = json_object_to_json_string_ext(a, JSON_C_TO_STRING_PLAIN);
	int r;

	/* The client waits for it; one that does not read is closed. */
	r = send(c->src.fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) ==
				    (ssize_t)strlen(text) &&
			    send(c->src.fd, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1
		    ? 0
		    : -EPIPE;
	json_object_put(a);
	return r;
}

static int answer_line(struct client *c, const char *line)
{
	struct json_object *q = json_tokener_parse(line), *a;

	if (json_object_is_type(q, json_type_object))
		a = c->b->on_request(c->b, q, c);
	else
		a = reply_error(-EINVAL, "not a JSON object");
	json_object_put(q);
	c->waiting = !a;
	return a ? send_answer(c, a) : 0;
}

/* Answers every whole line in the buffer. */
static int answer_lines(struct client *c)
{
	char *line = c->in, *end;
	int r = 0;

	while (r == 0 && !c->waiting &&
	       (end = memchr(line, '\n', c->used - (size_t)(line - c->in)))) {
		*end = '\0';
		r = answer_line(c, line);
		line = end + 1;
	}
	c->used -= (size_t)(line - c->in);
	memmove(c->in, line, c->used);
	return r;
}

void control_answer(void *client, struct json_object *a)
{
	struct client *c = client;

	c->waiting = false;
	if (send_answer(c, a) < 0 || answer_lines(c) < 0)
		client_close(c);
}

static void on_client(struct source *src, uint32_t events)
{
	struct client *c = container_of(src, struct client, src);
	ssize_t n = recv(src->fd, c->in + c->used, sizeof(c->in) - c->used, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_close(c);
		return;
	}
	c->used += (size_t)n;
	if (answer_lines(c) < 0 || c->used == sizeof(c->in))
		client_close(c);
}

/* A group of the peer's, its first one or another. */
static bool is_member(int fd, const struct ucred *cred, gid_t gid)
{
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof(groups);

	if (cred->gid == gid)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
		return false;
	for (unsigned i = 0; i < len / sizeof(*groups); i++) {
		if (groups[i] == gid)
			return true;
	}
	return false;
}

/* Root, the daemon's user and, if there is such a group, operators. */
static bool may_control(const struct broker *b, int fd, struct ucred *ret_cred)
{
	const char *name = b->conf->operators;
	const struct group *g = name ? getgrnam(name) : NULL;
	socklen_t len = sizeof(*ret_cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_cred, &len) < 0)
		return false;
	return ret_cred->uid == 0 || ret_cred->uid == geteuid() ||
	       (g && is_member(fd, ret_cred, g->gr_gid));
}

const char *control_who(const void *client)
{
	static char text[64];
	const struct client *c = client;

	snprintf(text, sizeof(text), "uid %u, pid %d", c->cred.uid, (int)c->cred.pid);
	return text;
}

static void on_control(struct source *src, uint32_t events)
{
	struct broker *b = container_of(src, struct broker, control);
	_cleanup_close_ int fd = accept4(src->fd, NULL, NULL, SOCK_CLOEXEC);
	struct ucred cred;
	struct client *c;

	if (fd < 0 || !may_control(b, fd, &cred))
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->b = b;
	c->cred = cred;
	if (source_add(b->loop, &c->src, fd, EPOLLIN, on_client) < 0) {
		free(c);
		return;
	}
	fd_steal(&fd);
	list_append(&b->clients, &c->link);
}

static int let_operators(const struct broker *b, const char *path)
{
	const char *name = b->conf->operators;
	const struct group *g = name ? getgrnam(name) : NULL;

	if (!g)
		return 0;
	if (chown(path, (uid_t)-1, g->gr_gid) < 0 || chmod(path, 0660) < 0)
		return -errno;
	return 0;
}

int control_open(struct broker *b, const char *path,
		 struct json_object *(*fn)(struct broker *b, struct json_object *request,
					   void *client))
{
	int fd, r;

	b->on_request = fn;
	b->control_path = strdup(path);
	if (!b->control_path)
		return -ENOMEM;
	fd = listen_unix(b, path, 0600, &b->control_file);
	if (fd < 0) {
		free(steal(b->control_path));
		return fd;
	}
	r = let_operators(b, path);
	if (r == 0)
		r = source_add(b->loop, &b->control, fd, EPOLLIN, on_control);
	if (r < 0)
		close(fd);
	return r;
}

void control_fini(struct broker *b)
{
	struct client *c, *tmp;

	source_remove(b->loop, &b->control);
	if (b->control_path)
		sockfile_remove(b->control_path, &b->control_file);
	free(b->control_path);
	/* Last: who asked for the end takes this for it. */
	list_for_each_safe (c, tmp, &b->clients, link) {
		source_remove(b->loop, &c->src);
		list_remove(&c->link);
		free(c);
	}
}
