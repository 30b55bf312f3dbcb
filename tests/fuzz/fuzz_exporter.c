/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-exporter between weftd and Prometheus: whatever weftd's socket answers, the page is one
 * that Prometheus reads. Input: the answer.
 */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "exporter/page.h"
#include "exporter/source.h"
#include "exporter/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ANSWERS_MAX 65536

static void expect(int condition)
{
	if (!condition)
		abort();
}

static const char *name(const char *at)
{
	expect(isalpha((unsigned char)*at) || *at == '_');
	while (isalnum((unsigned char)*at) || *at == '_')
		at++;
	return at;
}

static const char *label(const char *at)
{
	at = name(at);
	expect(at[0] == '=' && at[1] == '"');
	for (at += 2; *at != '"'; at++) {
		expect((unsigned char)*at >= ' ' && *at != 0x7f);
		if (*at == '\\') {
			at++;
			expect(*at == '\\' || *at == '"' || *at == 'n');
		}
	}
	return at + 1;
}

/* One sample, or a line of HELP or TYPE. */
static void check_line(const char *line)
{
	char *end;

	if (!strncmp(line, "# HELP ", 7) || !strncmp(line, "# TYPE ", 7)) {
		expect(*name(line + 7) == ' ');
		return;
	}
	line = name(line);
	if (*line == '{') {
		do
			line = label(line + 1);
		while (*line == ',');
		expect(*line++ == '}');
	}
	expect(*line++ == ' ');
	(void)strtod(line, &end);
	expect(end > line && !*end);
}

static void check_page(const struct text *t)
{
	char *copy, *rest, *line;

	expect(t->n && t->at[t->n - 1] == '\n' && !t->failed);
	copy = rest = malloc(t->n + 1);
	expect(copy != NULL);
	memcpy(copy, t->at, t->n);
	copy[t->n] = '\0';
	expect(strlen(copy) == t->n);
	while ((line = strsep(&rest, "\n")) && rest)
		check_line(line);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source s = {.sessions_max = 3, .open = true};
	struct answers a;
	struct text t = {0};
	int pair[2];

	log_set_level(LOG_LVL_NONE);
	if (size > ANSWERS_MAX || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return 0;
	expect(write(pair[1], data, size) == (ssize_t)size);
	shutdown(pair[1], SHUT_WR);
	s.control = "/nonexistent/weft/control";
	s.client.fd = pair[0];
	s.client.tok = json_tokener_new();
	(void)source_ask(&s, &a);
	page_write(&t, &a, size & 1);
	check_page(&t);
	expect(json_count(json_get(a.list, "sessions")) <= 3);
	answers_fini(&a);
	text_fini(&t);
	source_fini(&s);
	close(pair[1]);
	return 0;
}
