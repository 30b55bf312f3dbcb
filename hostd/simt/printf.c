/* SPDX-License-Identifier: Apache-2.0 */
/* Formats and records of device printf; all of it works on untrusted bytes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "simt/printf.h"
#include "simt/simt.h"

static enum printf_kind kind_of(char conv, bool wide)
{
	switch (conv) {
	case 'd':
	case 'i':
		return wide ? PRINTF_LONG : PRINTF_INT;
	case 'u':
	case 'x':
	case 'X':
	case 'o':
		return wide ? PRINTF_LONG : PRINTF_UINT;
	case 'c':
		return PRINTF_CHAR;
	case 'f':
	case 'F':
	case 'e':
	case 'E':
	case 'g':
	case 'G':
	case 'a':
	case 'A':
		return PRINTF_DOUBLE;
	case 's':
		return PRINTF_STRING;
	case 'p':
		return PRINTF_POINTER;
	default: /* % and what is no conversion: printed as it stands */
		return PRINTF_TEXT;
	}
}

bool printf_next(const char **pos, struct printf_spec *s)
{
	const char *p = *pos;
	bool wide = false;

	if (!*p)
		return false;
	memset(s, 0, sizeof(*s));
	s->begin = p;
	if (*p != '%') {
		while (*p && *p != '%')
			p++;
		s->len = (size_t)(p - s->begin);
		*pos = p;
		return true;
	}
	p++;
	while (*p && strchr("-+ #0123456789.*", *p))
		s->stars += *p++ == '*';
	while (*p && strchr("hlLqjzt", *p))
		wide |= *p++ != 'h';
	s->conv = *p;
	s->kind = *p ? kind_of(*p, wide) : PRINTF_TEXT;
	if (*p)
		p++;
	if (s->kind == PRINTF_TEXT || s->stars > 2)
		s->stars = 0, s->kind = PRINTF_TEXT;
	s->len = (size_t)(p - s->begin);
	*pos = p;
	return true;
}

/* ---- text ---- */

struct out {
	char *buf;
	size_t cap, len;
};

static void put(struct out *o, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++, o->len++)
		if (o->len + 1 < o->cap)
			o->buf[o->len] = s[i];
}

struct reader {
	const uint8_t *rec;
	struct printf_record head;
	size_t slots; /* where they begin */
	uint32_t next;
};

static uint64_t slot(struct reader *r)
{
	uint64_t v = 0;

	if (r->next < r->head.num_args)
		memcpy(&v, r->rec + r->slots + 8ull * r->next++, 8);
	return v;
}

/* Widths and precisions beyond this are cut: a kernel must not make the host format
 * megabytes. */
#define MAX_WIDTH 1024

static int star(struct reader *r)
{
	int v = (int)slot(r);

	return v > MAX_WIDTH ? MAX_WIDTH : v < -MAX_WIDTH ? -MAX_WIDTH : v;
}

/* The conversion with "*" filled in and numbers cut, and length modifier len. */
static void make_spec(struct reader *r, const struct printf_spec *s, const char *len,
		      char *buf, size_t cap)
{
	size_t n = 0;

	buf[n++] = '%';
	for (size_t i = 1; i + 1 < s->len && n + 24 < cap; i++) {
		char c = s->begin[i];

		if (c == '*') {
			n += (size_t)snprintf(buf + n, cap - n, "%d", star(r));
		} else if (c >= '1' && c <= '9') {
			unsigned v = 0;

			for (; i + 1 < s->len && s->begin[i] >= '0' && s->begin[i] <= '9';
			     i++)
				v = MIN(v * 10 + (unsigned)(s->begin[i] - '0'),
					(unsigned)MAX_WIDTH);
			i--;
			n += (size_t)snprintf(buf + n, cap - n, "%u", v);
		} else if (!strchr("hlLqjzt", c)) {
			buf[n++] = c;
		}
	}
	snprintf(buf + n, cap - n, "%s%c", len, s->conv);
}

static const char *string_at(const struct reader *r, uint64_t off)
{
	if (off == 0)
		return "(null)";
	if (off >= r->head.bytes || !memchr(r->rec + off, 0, r->head.bytes - off))
		return "";
	return (const char *)r->rec + off;
}

static bool is_short(const struct printf_spec *s, unsigned h)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->len; i++)
		n += s->begin[i] == 'h';
	return n == h;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void convert(struct out *o, struct reader *r, const struct printf_spec *s)
{
	char spec[128], text[4096];
	bool wide = s->kind == PRINTF_LONG;
	uint64_t v;
	double d;
	int n = 0;

	make_spec(r, s,
		  wide                    ? "ll"
		  : s->kind > PRINTF_UINT ? ""
		  : is_short(s, 2)        ? "hh"
		  : is_short(s, 1)        ? "h"
					  : "",
		  spec, sizeof(spec));
	v = slot(r);
	switch (s->kind) {
	case PRINTF_INT:
	case PRINTF_UINT:
	case PRINTF_CHAR:
		n = snprintf(text, sizeof(text), spec, (int)v);
		break;
	case PRINTF_LONG:
		n = snprintf(text, sizeof(text), spec, (long long)v);
		break;
	case PRINTF_DOUBLE:
		memcpy(&d, &v, sizeof(d));
		n = snprintf(text, sizeof(text), spec, d);
		break;
	case PRINTF_POINTER:
		n = snprintf(text, sizeof(text), spec, (void *)(uintptr_t)v);
		break;
	case PRINTF_STRING:
		/* straight to the output: strings may be long */
		if (s->len == 2) {
			put(o, string_at(r, v), strlen(string_at(r, v)));
			return;
		}
		n = snprintf(text, sizeof(text), spec, string_at(r, v));
		break;
	case PRINTF_TEXT:
		break;
	}
	if (n > 0)
		put(o, text, MIN((size_t)n, sizeof(text) - 1));
}
#pragma GCC diagnostic pop

int simt_printf_text(const void *rec, size_t bytes, char *buf, size_t cap)
{
	struct reader r = {.rec = rec};
	struct out o = {buf, cap, 0};
	struct printf_spec s;
	const char *pos;

	if (bytes < sizeof(r.head))
		return -EINVAL;
	memcpy(&r.head, rec, sizeof(r.head));
	r.slots = ALIGN_UP(sizeof(r.head) + (size_t)r.head.format_len + 1, (size_t)8);
	if (r.head.magic != PRINTF_MAGIC || r.head.bytes > bytes ||
	    r.head.format_len > PRINTF_MAX_TEXT ||
	    r.head.num_args > 3 * PRINTF_MAX_ARGS ||
	    r.slots + 8ull * r.head.num_args > r.head.bytes)
		return -EINVAL;
	pos = (const char *)r.rec + sizeof(r.head);
	if (memchr(pos, 0, r.head.format_len + 1) != pos + r.head.format_len)
		return -EINVAL;
	while (printf_next(&pos, &s)) {
		if (s.kind != PRINTF_TEXT)
			convert(&o, &r, &s);
		else if (s.conv == '%')
			put(&o, "%", 1);
		else
			put(&o, s.begin, s.len);
	}
	if (cap)
		buf[MIN(o.len, cap - 1)] = 0;
	return o.len > INT32_MAX ? -EINVAL : (int)o.len;
}
