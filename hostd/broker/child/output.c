/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of children, standard output and error: a pipe for each, of which lines go into
 * our log with the child's name and number before them. A child that was taken over,
 * or does what a guest makes it do, can so neither remove, nor forge, nor flood: a
 * tenant's children have a budget of bytes together, and while that is used up nothing of
 * them is read. They do not wait for us: what the pipe has no room for is lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/output.h"
#include "broker/loop/loop.h"
#include "util/conf.h"
#include "util/journal.h"

#define BUDGET_BYTES (32u << 10)
#define BUDGET_RATE  (1u << 10) /* bytes a second */
/* Budget that must be there again before reading goes on. */
#define BUDGET_AGAIN (1u << 10)
/* Bytes read of a child's last words, whatever the budget: its reason to end. */
#define LAST_BYTES 4096

static bool unlimited(const struct broker *b)
{
	return log_enabled(LOG_LVL_DEBUG) || strcmp(b->conf->sandbox, "on") != 0;
}

static void refill(struct output_budget *u, uint64_t now_ns)
{
	uint64_t ns = now_ns - u->at_ns, bytes;

	if (!u->at_ns || ns >= BUDGET_BYTES / BUDGET_RATE * NSEC_PER_SEC) {
		u->bytes = BUDGET_BYTES;
		u->at_ns = now_ns;
		return;
	}
	bytes = ns * BUDGET_RATE / NSEC_PER_SEC;
	u->bytes = MIN(u->bytes + bytes, (uint64_t)BUDGET_BYTES);
	u->at_ns += bytes * NSEC_PER_SEC / BUDGET_RATE;
}

/* Returns the level that the child gives a line; it may give any line any. */
static enum log_level level_of(const char *text)
{
	if (!strncmp(text, "error: ", 7))
		return LOG_LVL_ERROR;
	return strncmp(text, "warning: ", 9) ? LOG_LVL_INFO : LOG_LVL_WARNING;
}

/* With fields, of which the child has no say. */
static bool send_line(const struct output *o, const char *text)
{
	const struct journal_entry e = {
		.level = level_of(text),
		.program = o->program,
		.pid = o->pid,
		.text = text,
		.tenant = o->budget->tenant,
		.session = o->session,
		.vm_uuid = o->budget->vm_uuid,
	};

	return journal_send(&e);
}

static void write_line(struct output *o, const char *text)
{
	char line[OUTPUT_LINE + 64];
	size_t own = strlen(o->program);
	int n;

	/* A program name that the child writes itself is left out. */
	if (!strncmp(text, o->program, own) && text[own] == ':' && text[own + 1] == ' ')
		text += own + 2;
	if (send_line(o, text))
		return;
	n = snprintf(line, sizeof(line), "%s%s[%d]: %s\n", log_priority(level_of(text)),
		     o->program, o->pid, text);
	(void)!write(STDERR_FILENO, line, MIN((size_t)n, sizeof(line) - 1));
}

static void end_line(struct output *o)
{
	o->line[o->n] = '\0';
	if (o->n)
		write_line(o, o->line);
	o->n = 0;
}

void output_take(struct output *o, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = bytes[i];

		if (c == '\n' || o->n == OUTPUT_LINE - 1)
			end_line(o);
		if (c != '\n')
			o->line[o->n++] = c == '\t' ? ' ' : c < ' ' || c > '~' ? '?' : c;
	}
}

static void pause_reading(struct output *o)
{
	if (source_pause(o->b->loop, &o->src) < 0)
		return;
	end_line(o);
	write_line(o, "says more than is shown");
	list_append(&o->b->loud, &o->link);
}

static void on_output(struct source *src, uint32_t events)
{
	struct output *o = container_of(src, struct output, src);
	char buf[1024];
	ssize_t n = read(src->fd, buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		end_line(o);
		source_remove(o->b->loop, src);
		return;
	}
	output_take(o, buf, (size_t)n);
	if (unlimited(o->b))
		return;
	refill(o->budget, clock_now_ns());
	o->budget->bytes -= MIN((uint64_t)n, o->budget->bytes);
	if (!o->budget->bytes)
		pause_reading(o);
}

int output_adopt(struct broker *b, struct output *o, const char *program,
		 struct output_budget *budget, int fd)
{
	int r = 0;

	*o = (struct output){.b = b, .program = program, .budget = budget, .src.fd = -1};
	list_init(&o->link);
	if (fd >= 0)
		r = source_add(b->loop, &o->src, fd, EPOLLIN, on_output);
	if (r < 0)
		close(fd);
	return r;
}

int output_open(struct broker *b, struct output *o, const char *program,
		struct output_budget *budget, int *ret_fd)
{
	int p[2], r;

	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	r = source_add(b->loop, &o->src, p[0], EPOLLIN, on_output);
	if (r < 0) {
		close(p[0]);
		close(p[1]);
		return r;
	}
	o->b = b;
	o->program = program;
	o->budget = budget;
	o->session = 0;
	o->n = 0;
	list_init(&o->link);
	*ret_fd = p[1];
	return 0;
}

void output_close(struct output *o)
{
	char buf[LAST_BYTES];
	ssize_t n;

	if (o->src.fd < 0)
		return;
	n = read(o->src.fd, buf, sizeof(buf));
	if (n > 0)
		output_take(o, buf, (size_t)n);
	end_line(o);
	if (!list_empty(&o->link))
		list_remove(&o->link);
	source_remove(o->b->loop, &o->src);
}

uint64_t output_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	struct output *o, *tmp;

	list_for_each_safe (o, tmp, &b->loud, link) {
		refill(o->budget, now_ns);
		if (o->budget->bytes < BUDGET_AGAIN)
			continue;
		list_remove(&o->link);
		(void)source_resume(b->loop, &o->src, EPOLLIN);
	}
	return list_empty(&b->loud) ? UINT64_MAX : now_ns + NSEC_PER_SEC;
}
