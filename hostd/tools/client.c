/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/conf.h"
#include "tools/client.h"

static int connect_to(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	return fd_steal(&fd);
}

/* The system's daemon first: it is the one with the device. */
static int connect_default(void)
{
	_cleanup_free_ char *path = NULL;
	struct conf c;
	int fd = connect_to("/run/weft/control");

	if (fd >= 0 || conf_init(&c) < 0)
		return fd;
	if (asprintf(&path, "%s/control", c.run_dir) < 0)
		path = NULL;
	conf_fini(&c);
	return path ? connect_to(path) : -ENOMEM;
}

int client_open(struct client *c, const char *path)
{
	c->fd = path ? connect_to(path) : connect_default();
	if (c->fd < 0)
		return c->fd;
	c->tok = json_tokener_new();
	if (!c->tok) {
		close(c->fd);
		return -ENOMEM;
	}
	return 0;
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

uint64_t json_u64(struct json_object *o, const char *key)
{
	return json_object_get_uint64(json_get(o, key));
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
	struct json_object *list = json_get(a, "refused");
	uint64_t others = json_u64(a, "refused_others");

	if (!list || (!json_object_array_length(list) && !others))
		return;
	fprintf(f, "\n%-10s %10s  %s\n", "REFUSED", "TIMES", "WHAT");
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		fprintf(f, "%-10s %10llu  %s\n", json_str(o, "kind"),
			(unsigned long long)json_u64(o, "count"), json_str(o, "what"));
	}
	if (others)
		fprintf(f, "%-10s %10llu\n", "others", (unsigned long long)others);
}
