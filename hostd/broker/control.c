/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one JSON object a line in, one a line out. Root and the daemon's
 * user may do everything, and members of the group of operators; viewers may look.
 *
 * An answer that a socket does not take at once waits in the client, and what it asks for
 * meanwhile comes after that. All of them together keep no more than OUT_MAX; who reads
 * nothing while others need the room is closed.
 */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
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
#include "broker/operator/events.h"
#include "broker/operator/trace.h"
#include "broker/loop/loop.h"
#include "broker/memory/waiters.h"
#include "broker/reply.h"
#include "broker/tenant.h"
#include "util/conf.h"

#define REQUEST_MAX (64u << 10)
#define OUT_MAX     (16u << 20)
#define CLIENTS_MAX 512u
#define GROUPS_MAX  1024u /* of one process; one in more is no operator */

enum access {
	ACCESS_NONE,
	ACCESS_LOOK,
	ACCESS_CHANGE,
};

struct client {
	struct list link;
	struct broker *b;
	struct source src;
	struct ucred cred;
	enum access access;
	bool waiting; /* for an answer */
	bool streams; /* it traces, and is sent that alone */
	/* Events from this number on are sent to it, of one tenant or (empty) of all; 0:
	 * none are. */
	uint64_t next_event;
	char tenant[CONF_NAME_MAX + 1];
	char *out; /* what the socket has not taken yet, or NULL */
	size_t out_len, out_at;
	size_t used;
	char in[REQUEST_MAX];
};

static void client_free(void *arg)
{
	free(arg);
}

static void drop_out(struct client *c)
{
	c->b->out_bytes -= c->out_len;
	free(steal(c->out));
	c->out_len = c->out_at = 0;
}

static void client_close(struct client *c)
{
	waiters_forget(c->b, c);
	tenants_forget(c->b, c);
	trace_forget(c->b, c);
	drop_out(c);
	source_remove(c->b->loop, &c->src);
	list_remove(&c->link);
	c->b->n_clients--;
	if (loop_defer(c->b->loop, client_free, c) < 0)
		log_error("out of memory");
}

/* Closes clients that do not read, first those that came first. */
static bool make_room(struct client *c, size_t n)
{
	struct client *o, *tmp;

	list_for_each_safe (o, tmp, &c->b->clients, link) {
		if (c->b->out_bytes + n <= OUT_MAX)
			break;
		if (o != c && o->out)
			client_close(o);
	}
	return c->b->out_bytes + n <= OUT_MAX;
}

/* Keeps what the socket does not take now. */
static int keep_out(struct client *c, const char *text, size_t n)
{
	c->out = malloc(n);
	if (!c->out)
		return -ENOMEM;
	memcpy(c->out, text, n);
	c->out_len = n;
	c->b->out_bytes += n;
	return source_change(c->b->loop, &c->src, EPOLLIN | EPOLLOUT);
}

static ssize_t send_some(const struct client *c, const char *text, size_t n)
{
	ssize_t done = send(c->src.fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (done < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return done;
}

/* Sends a line now or later; there is nothing else under way. Returns 0 or -errno: the
 * client is of no use any more. */
static int send_line(struct client *c, const char *text, size_t n)
{
	ssize_t done = send_some(c, text, n);

	if (done < 0)
		return (int)done;
	return (size_t)done < n ? keep_out(c, text + done, n - (size_t)done) : 0;
}

/* Sends on. */
static int send_rest(struct client *c)
{
	ssize_t done = send_some(c, c->out + c->out_at, c->out_len - c->out_at);

	if (done < 0)
		return (int)done;
	c->out_at += (size_t)done;
	if (c->out_at < c->out_len)
		return 0;
	drop_out(c);
	return source_change(c->b->loop, &c->src, EPOLLIN);
}

/* Takes over the answer. */
static int send_answer(struct client *c, struct json_object *a)
{
	size_t n;
	const char *text = json_object_to_json_string_length(
		a, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &n);
	int r = -ENOMEM;

	if (!make_room(c, n + 1)) {
		json_object_put(a);
		return -ENOBUFS;
	}
	/* The line ends where the text's terminator is. */
	if (text) {
		((char *)text)[n] = '\n';
		r = send_line(c, text, n + 1);
	}
	json_object_put(a);
	return r;
}

/* ---- events ---- */

static int send_lost(struct client *c, uint64_t n)
{
	char line[64];

	snprintf(line, sizeof(line), "{\"event\":\"lost\",\"count\":%" PRIu64 "}\n", n);
	return send_line(c, line, strlen(line));
}

/* Sends what its socket takes of what it has not seen. One line at most waits in weftd, so
 * that it may read as slowly as it likes: what is not kept any more is counted. */
static int send_events(struct client *c)
{
	const struct broker *b = c->b;
	int r = 0;

	while (r == 0 && !c->out && c->next_event && c->next_event <= events_last(b)) {
		uint64_t first = events_first(b);
		const struct event *e;

		if (c->next_event < first) {
			r = send_lost(c, first - c->next_event);
			c->next_event = first;
			continue;
		}
		e = events_at(b, c->next_event++);
		if (!*c->tenant || !strcmp(c->tenant, e->tenant))
			r = send_line(c, e->text, e->len);
	}
	return r;
}

void control_follow(void *client, uint64_t after, const char *tenant)
{
	struct client *c = client;

	c->next_event = after + 1;
	snprintf(c->tenant, sizeof(c->tenant), "%s", tenant ? tenant : "");
}

void control_stream(void *client)
{
	struct client *c = client;

	c->streams = true;
}

/* A client that has not read the last line gets none: the next one says what was lost. */
uint64_t control_trace_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	struct client *c = trace_client(b);

	if (!c || now_ns < trace_next_ns(b))
		return trace_next_ns(b);
	trace_later(b, now_ns);
	if (!c->out && send_answer(c, trace_line(b, now_ns)) < 0)
		client_close(c);
	return trace_next_ns(b);
}

uint64_t control_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	struct client *c, *tmp;

	if (b->events_told == events_last(b))
		return UINT64_MAX;
	b->events_told = events_last(b);
	list_for_each_safe (c, tmp, &b->clients, link) {
		if (send_events(c) < 0)
			client_close(c);
	}
	return UINT64_MAX;
}

/* ---- requests ---- */

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

	while (r == 0 && !c->waiting && !c->out && !c->next_event && !c->streams &&
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

static int hear(struct client *c)
{
	ssize_t n =
		recv(c->src.fd, c->in + c->used, sizeof(c->in) - c->used, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return n < 0 ? -errno : -ENODATA;
	c->used += (size_t)n;
	return 0;
}

static void on_client(struct source *src, uint32_t events)
{
	struct client *c = container_of(src, struct client, src);
	int r = 0;

	if (c->out && events & (EPOLLOUT | EPOLLERR))
		r = send_rest(c);
	if (r == 0 && events & ~(uint32_t)EPOLLOUT)
		r = hear(c);
	if (r == 0)
		r = answer_lines(c);
	if (r == 0)
		r = send_events(c);
	if (r < 0 || c->used == sizeof(c->in))
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

static bool is_of(const char *name, int fd, const struct ucred *cred)
{
	const struct group *g = name ? getgrnam(name) : NULL;

	return g && is_member(fd, cred, g->gr_gid);
}

static enum access access_of(const struct broker *b, int fd, struct ucred *ret_cred)
{
	socklen_t len = sizeof(*ret_cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_cred, &len) < 0)
		return ACCESS_NONE;
	if (ret_cred->uid == 0 || ret_cred->uid == geteuid() ||
	    is_of(b->conf->operators, fd, ret_cred))
		return ACCESS_CHANGE;
	return is_of(b->conf->viewers, fd, ret_cred) ? ACCESS_LOOK : ACCESS_NONE;
}

bool control_may_change(const void *client)
{
	const struct client *c = client;

	return c->access == ACCESS_CHANGE;
}

const char *control_who(const void *client)
{
	static char text[64];
	const struct client *c = client;

	snprintf(text, sizeof(text), "uid %u, pid %d", c->cred.uid, (int)c->cred.pid);
	return text;
}

/* Says why not, once; nobody waits for it to be read. Takes over the answer. */
static void turn_away(int fd, struct json_object *a)
{
	const char *text = json_object_to_json_string_ext(a, JSON_C_TO_STRING_PLAIN);

	(void)send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)send(fd, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	json_object_put(a);
}

static struct json_object *reply_no_access(const struct broker *b, uid_t uid)
{
	const char *group = b->conf->operators ? b->conf->operators : b->conf->viewers;

	return reply_error(-EACCES, "user %u may not use this weftd: %s%s", uid,
			   group ? "ask to be in the group "
				 : "weftd.conf names no operators",
			   group ? group : "");
}

/* Viewers leave room for operators. */
static bool is_full(const struct broker *b, enum access access)
{
	return b->n_clients >= (access == ACCESS_CHANGE ? CLIENTS_MAX : CLIENTS_MAX / 2);
}

static void on_control(struct source *src, uint32_t events)
{
	struct broker *b = container_of(src, struct broker, control);
	_cleanup_close_ int fd = accept4(src->fd, NULL, NULL, SOCK_CLOEXEC);
	enum access access;
	struct ucred cred;
	struct client *c;

	if (fd < 0)
		return;
	access = access_of(b, fd, &cred);
	if (access == ACCESS_NONE) {
		turn_away(fd, reply_no_access(b, cred.uid));
		return;
	}
	if (is_full(b, access)) {
		turn_away(fd, reply_error(-EUSERS,
					  "%u clients are connected, as many as "
					  "may be",
					  b->n_clients));
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->b = b;
	c->cred = cred;
	c->access = access;
	if (source_add(b->loop, &c->src, fd, EPOLLIN, on_client) < 0) {
		free(c);
		return;
	}
	fd_steal(&fd);
	list_append(&b->clients, &c->link);
	b->n_clients++;
}

/* A file has one group: for a second one all may connect, and are looked at then. */
static int let_groups(const struct broker *b, const char *path)
{
	const char *name = b->conf->operators ? b->conf->operators : b->conf->viewers;
	const struct group *g = name ? getgrnam(name) : NULL;
	bool both = b->conf->operators && b->conf->viewers;

	if (!g)
		return 0;
	if (chown(path, (uid_t)-1, g->gr_gid) < 0 || chmod(path, both ? 0666 : 0660) < 0)
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
	fd = listen_unix(b, path, 0600, "control", &b->control_file);
	if (fd < 0) {
		free(steal(b->control_path));
		return fd;
	}
	r = let_groups(b, path);
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
	(void)control_tick(b, 0); /* the last events */
	/* Last: who asked for the end takes this for it. */
	list_for_each_safe (c, tmp, &b->clients, link) {
		trace_forget(b, c);
		drop_out(c);
		source_remove(b->loop, &c->src);
		list_remove(&c->link);
		free(c);
	}
}
