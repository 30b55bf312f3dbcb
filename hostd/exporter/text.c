/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "exporter/text.h"

#define FIRST_ROOM 16384

void text_fini(struct text *t)
{
	free(t->at);
	*t = (struct text){0};
}

static void put(struct text *t, const char *bytes, size_t n)
{
	size_t room = t->room ? t->room : FIRST_ROOM;
	char *at;

	while (room - t->n < n)
		room *= 2;
	if (room != t->room) {
		at = realloc(t->at, room);
		t->failed |= !at;
		if (!at)
			return;
		t->at = at;
		t->room = room;
	}
	memcpy(t->at + t->n, bytes, n);
	t->n += n;
}

static void put_text(struct text *t, const char *text)
{
	put(t, text, strlen(text));
}

/* Bytes of a character of UTF-8 at s, or 0: it is none. */
static size_t utf8_length(const unsigned char *s)
{
	size_t n = s[0] < 0x80       ? 1
		   : s[0] >> 5 == 6  ? 2
		   : s[0] >> 4 == 14 ? 3
		   : s[0] >> 3 == 30 ? 4
				     : 0;
	unsigned code = n == 1 ? s[0] : n ? s[0] & (0x7fu >> n) : 0;

	for (size_t i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	/* Too long a form, half of a pair, or no character. */
	if ((n == 2 && code < 0x80) || (n == 3 && code < 0x800) ||
	    (n == 4 && (code < 0x10000 || code > 0x10ffff)) ||
	    (code >= 0xd800 && code < 0xe000))
		return 0;
	return n;
}

/* The format's three escapes; what is no text, or would move a terminal, becomes '?'. */
static void put_value(struct text *t, const char *value)
{
	const unsigned char *s = (const unsigned char *)value;

	while (*s) {
		size_t n = utf8_length(s);

		if (*s == '\n')
			put(t, "\\n", 2);
		else if (*s == '\\' || *s == '"')
			put(t, *s == '"' ? "\\\"" : "\\\\", 2);
		else if (!n || *s < ' ' || *s == 0x7f)
			put(t, "?", 1);
		else
			put(t, (const char *)s, n);
		s += n ? n : 1;
	}
}

void text_metric(struct text *t, const char *name, const char *type, const char *help)
{
	put_text(t, "# HELP ");
	put_text(t, name);
	put(t, " ", 1);
	put_text(t, help);
	put_text(t, "\n# TYPE ");
	put_text(t, name);
	put(t, " ", 1);
	put_text(t, type);
	put(t, "\n", 1);
}

/* Shortest text that is the same number when it is read. */
static void put_number(struct text *t, double value)
{
	char buf[32];

	if (isinf(value)) {
		put_text(t, value > 0 ? "+Inf" : "-Inf");
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, sizeof(buf), "%.*g", digits, value);
		if (strtod(buf, NULL) == value)
			break;
	}
	put_text(t, buf);
}

void text_sample(struct text *t, const char *name, const struct text_label *labels,
		 double value)
{
	put_text(t, name);
	for (unsigned i = 0; labels[i].name; i++) {
		put(t, i ? "," : "{", 1);
		put_text(t, labels[i].name);
		put_text(t, "=\"");
		put_value(t, labels[i].value);
		put(t, "\"", 1);
	}
	put_text(t, labels[0].name ? "} " : " ");
	put_number(t, value);
	put(t, "\n", 1);
}
