/* SPDX-License-Identifier: Apache-2.0 */
/*
 * #syscalls: socket connect setsockopt sendto recvfrom write close
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <json-c/json.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "exporter/source.h"

/* weftd answers in milliseconds; Prometheus waits for 10 s. */
#define ANSWER_WAIT_S 3

/* Remembers why weftd could not be asked, and says so once. */
static void missing(struct source *s, const char *why)
{
	if (!s->missing)
		log_warning("%s", why);
	s->missing = true;
}

static int open_client(struct source *s)
{
	const struct timeval wait = {.tv_sec = ANSWER_WAIT_S};
	_cleanup_free_ char *why = NULL;
	int r;

	if (s->open)
		return 0;
	r = client_open(&s->client, s->control, &why);
	if (r < 0) {
		missing(s, why ? why : strerror(-r));
		return r;
	}
	(void)setsockopt(s->client.fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	(void)setsockopt(s->client.fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	s->open = true;
	return 0;
}

static void close_client(struct source *s)
{
	if (s->open)
		client_close(&s->client);
	s->open = false;
}

/* Leaves out what is beyond sessions_max, of the sessions that came last. */
static void limit_sessions(struct source *s, struct answers *a)
{
	struct json_object *list = json_get(a->list, "sessions");
	size_t n = json_count(list);

	if (n <= s->sessions_max)
		return;
	a->sessions_left_out = n - s->sessions_max;
	json_object_array_del_idx(list, s->sessions_max, n - s->sessions_max);
}

static int ask(struct source *s, struct answers *ret)
{
	struct json_object *a = NULL;
	int r = client_ask(&s->client, client_request("list"), &a);

	if (r == -EREMOTEIO || r == -EAGAIN)
		missing(s, r == -EAGAIN ? "weftd does not answer" : client_error(r, a));
	if (r < 0) {
		json_object_put(a);
		return r;
	}
	ret->list = a;
	limit_sessions(s, ret);
	return 0;
}

void answers_fini(struct answers *a)
{
	json_object_put(a->list);
	*a = (struct answers){0};
}

static int try(struct source *s, struct answers *ret)
{
	int r = open_client(s);

	*ret = (struct answers){0};
	if (r < 0)
		return r;
	r = ask(s, ret);
	if (r < 0) {
		answers_fini(ret);
		close_client(s);
	}
	return r;
}

int source_ask(struct source *s, struct answers *ret)
{
	uint64_t began = clock_now_ns();
	bool was_open = s->open;
	int r = try(s, ret);

	/* The connection was to a weftd that is no more: there may be another. */
	if (r < 0 && was_open && r != -EAGAIN && r != -EREMOTEIO)
		r = try(s, ret);
	if (r < 0)
		missing(s, client_error(r, NULL));
	if (r == 0 && s->missing) {
		log_warning("weftd answers again");
		s->missing = false;
	}
	ret->seconds = (double)(clock_now_ns() - began) / 1e9;
	return r;
}

void source_fini(struct source *s)
{
	close_client(s);
}
