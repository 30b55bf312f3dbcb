/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one JSON object a line in, one a line out. Who may connect is a
 * matter of the socket's mode and of who runs weftd: root and that user.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"

#define REQUEST_MAX (64u << 10)

struct client {
	struct list link;
	struct broker *b;
	struct source src;
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
	reclaim_forget(c->b, c);
	tenants_forget(c->b, c);
	source_remove(c->b, &c->src);
	list_remove(&c->link);
	if (loop_defer(c->b, client_free, c) < 0)
		log_error("out of memory");
}

static struct json_object *error_reply(const char *why)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "ok", json_object_new_boolean(0));
	json_object_object_add(o, "error", json_object_new_string(why));
	return o;
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
		a = request_handle(c->b, q, c);
	else
		a = error_reply("not a JSON object");
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

static bool may_control(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	       (cred.uid == 0 || cred.uid == geteuid());
}

static void on_control(struct source *src, uint32_t events)
{
	struct broker *b = container_of(src, struct broker, control);
	_cleanup_close_ int fd = accept4(src->fd, NULL, NULL, SOCK_CLOEXEC);
	struct client *c;

	if (fd < 0 || !may_control(fd))
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->b = b;
	if (source_add(b, &c->src, fd, EPOLLIN, on_client) < 0) {
		free(c);
		return;
	}
	fd_steal(&fd);
	list_append(&b->clients, &c->link);
}

int control_open(struct broker *b, const char *path)
{
	int fd, r;

	b->control_path = strdup(path);
	if (!b->control_path)
		return -ENOMEM;
	fd = listen_unix(b, path, 0600, &b->control_file);
	if (fd < 0) {
		free(steal(b->control_path));
		return fd;
	}
	r = source_add(b, &b->control, fd, EPOLLIN, on_control);
	if (r < 0)
		close(fd);
	return r;
}

void control_fini(struct broker *b)
{
	struct client *c, *tmp;

	list_for_each_safe (c, tmp, &b->clients, link) {
		source_remove(b, &c->src);
		list_remove(&c->link);
		free(c);
	}
	source_remove(b, &b->control);
	if (b->control_path)
		sockfile_remove(b->control_path, &b->control_file);
	free(b->control_path);
}
