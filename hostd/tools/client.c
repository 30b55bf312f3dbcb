/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "tools/client.h"
#include "tools/table.h"

/* Longer than the longest end of a daemon: it waits for its workers. */
#define END_WAIT_S 30
#define PROTOCOL   1 /* of doc/control-protocol.md */

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

static int fill(struct client *c)
{
	ssize_t n;

	do
		n = recv(c->fd, c->buf, sizeof(c->buf), 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ENODATA;
	c->at = 0;
	c->len = (size_t)n;
	return 0;
}

int client_next(struct client *c, struct json_object **ret)
{
	struct json_object *o = NULL;

	json_tokener_reset(c->tok);
	while (!o) {
		int r = c->at < c->len ? 0 : fill(c);

		if (r < 0)
			return r;
		o = json_tokener_parse_ex(c->tok, c->buf + c->at, (int)(c->len - c->at));
		if (!o && json_tokener_get_error(c->tok) != json_tokener_continue)
			return -EPROTO;
		c->at += o ? json_tokener_get_parse_end(c->tok) : c->len - c->at;
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
	/* A client that is not let in is told why, and its request is not read. */
	if (r == 0 || r == -EPIPE)
		r = client_next(c, ret);
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
	json_object_object_add(o, "protocol", json_object_new_int(PROTOCOL));
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

	if (!json_object_is_type(v, json_type_string))
		return json_object_get_uint64(v);
	return strcmp(json_object_get_string(v), "max")
		       ? strtoull(json_object_get_string(v), NULL, 10)
		       : UINT64_MAX;
}

const char *json_str(struct json_object *o, const char *key)
{
	const char *s = json_object_get_string(json_get(o, key));

	return s ? s : "";
}

char *time_format(uint64_t us, char *buf, size_t room)
{
	if (us < 1000)
		snprintf(buf, room, "%" PRIu64 " us", us);
	else if (us < 1000000)
		snprintf(buf, room, "%.0f ms", (double)us / 1e3);
	else
		snprintf(buf, room, "%.2f s", (double)us / 1e6);
	return buf;
}

void print_refused(FILE *f, struct json_object *a)
{
	static const struct table_column columns[] = {
		{"REFUSED", false}, {"TIMES", true}, {"WHAT", false}};
	struct table t = {columns, ARRAY_SIZE(columns), NULL, 0};
	struct json_object *list = json_get(a, "refused");
	uint64_t others = json_u64(a, "refused.others");

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

/* Time that a copy takes more or less than its kernel. */
static void add_cost(struct table *t, uint64_t permille)
{
	if (permille)
		table_add(t, "%+.1f %%", ((double)permille - 1000) / 10);
	else
		table_add(t, "%s", "");
}

void print_kernels(FILE *f, struct json_object *a)
{
	static const struct table_column columns[] = {{"SESSION", true},
						      {"KERNEL", false},
						      {"COPY", true},
						      {"RUNS AS IT IS", false},
						      {"STOPS BETWEEN BLOCKS", false}};
	struct table t = {columns, ARRAY_SIZE(columns), NULL, 0};
	struct json_object *list = json_get(a, "kernels");

	if (!json_count(list))
		return;
	for (size_t i = 0; i < json_count(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		table_add(&t, "%" PRIu64, json_u64(o, "session"));
		table_add(&t, "%s", json_str(o, "name"));
		add_cost(&t, json_u64(o, "cost"));
		table_add(&t, "%s", json_str(o, "why"));
		table_add(&t, "%s", json_str(o, "no_yield"));
	}
	fputc('\n', f);
	table_print(&t, f);
}
