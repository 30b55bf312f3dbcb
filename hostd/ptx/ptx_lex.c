/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "ptx/ptx_lex.h"

#define FIRST_TABLE 4096 /* slots; holds the vocabulary and a small module */

enum cclass {
	C_OTHER,
	C_WORD0 = 1,
	C_WORD = 2,
	C_DIGIT = 4,
	C_SPACE = 8
};

static const uint8_t cclass[256] = {
	['a' ... 'z'] = C_WORD0 | C_WORD,
	['A' ... 'Z'] = C_WORD0 | C_WORD,
	['_'] = C_WORD0 | C_WORD,
	['$'] = C_WORD0 | C_WORD,
	['%'] = C_WORD0,
	['0' ... '9'] = C_WORD | C_DIGIT,
	[' '] = C_SPACE,
	['\t'] = C_SPACE,
	['\r'] = C_SPACE,
	['\f'] = C_SPACE,
	['\v'] = C_SPACE,
};

static inline unsigned cls(char c)
{
	return cclass[(uint8_t)c];
}

/* Keyed, so that a text cannot be written to make all its words collide. */
static uint32_t hash_word(uint64_t seed, const char *s, size_t len)
{
	uint64_t h = seed ^ len, w;

	while (len >= 8) {
		memcpy(&w, s, 8);
		h = (h ^ w) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
		s += 8;
		len -= 8;
	}
	w = 0;
	for (size_t i = 0; i < len; i++)
		w |= (uint64_t)(uint8_t)s[i] << 8 * i;
	h = (h ^ w) * 0xbf58476d1ce4e5b9u;
	h = (h ^ (h >> 31) ^ seed) * 0x94d049bb133111ebu;
	return h >> 32;
}

static int grow(struct ptx_lex *lx)
{
	uint32_t cap = lx->table ? (lx->mask + 1) * 2 : FIRST_TABLE;
	struct ptx_sym **t = calloc(cap, sizeof(struct ptx_sym *));

	if (!t)
		return -ENOMEM;
	for (uint32_t i = 0; lx->table && i <= lx->mask; i++) {
		struct ptx_sym *s = lx->table[i];
		uint32_t at;

		if (!s)
			continue;
		for (at = s->hash & (cap - 1); t[at]; at = (at + 1) & (cap - 1))
			;
		t[at] = s;
	}
	free(lx->table);
	lx->table = t;
	lx->mask = cap - 1;
	return 0;
}

static struct ptx_sym **slot(struct ptx_lex *lx, const char *s, size_t len, uint32_t hash)
{
	uint32_t at = hash & lx->mask;

	for (;; at = (at + 1) & lx->mask) {
		struct ptx_sym *e = lx->table[at];

		if (!e || (e->hash == hash && e->len == len && !memcmp(e->s, s, len)))
			return &lx->table[at];
	}
}

struct ptx_sym *ptx_lookup(struct ptx_lex *lx, const char *s, size_t len)
{
	return *slot(lx, s, len, hash_word(lx->seed, s, len));
}

struct ptx_sym *ptx_intern(struct ptx_lex *lx, const char *s, size_t len)
{
	uint32_t hash = hash_word(lx->seed, s, len);
	struct ptx_sym **at = slot(lx, s, len, hash), *e = *at;

	if (e)
		return e;
	if (lx->nsyms >= lx->mask / 2) {
		if (grow(lx) < 0)
			goto nomem;
		at = slot(lx, s, len, hash);
	}
	e = ptx_alloc(lx->arena, sizeof(*e));
	if (!e)
		goto nomem;
	e->s = s;
	e->len = len;
	e->hash = hash;
	lx->nsyms++;
	return *at = e;
nomem:
	lx->nomem = true;
	return NULL;
}

int ptx_lex_init(struct ptx_lex *lx, const char *text, size_t len,
		 struct ptx_arena *arena)
{
	const char *nul = len ? memchr(text, 0, len) : NULL;

	*lx = (struct ptx_lex){
		.p = text,
		.end = nul ? nul : text + len,
		.line = 1,
		.arena = arena,
		.seed = (clock_now_ns() ^ (uintptr_t)lx) * 0xd6e8feb86659fd93u,
	};
	return grow(lx);
}

void ptx_lex_fini(struct ptx_lex *lx)
{
	free(lx->table);
	lx->table = NULL;
}

/* Skips white space and comments; false when a comment does not end. */
static bool skip_space(struct ptx_lex *lx)
{
	const char *p = lx->p, *end = lx->end;

	while (p < end) {
		if (cls(*p) & C_SPACE) {
			p++;
		} else if (*p == '\n') {
			lx->line++;
			p++;
		} else if (*p == '/' && end - p > 1 && p[1] == '/') {
			p = memchr(p, '\n', end - p);
			if (!p)
				p = end;
		} else if (*p == '/' && end - p > 1 && p[1] == '*') {
			for (p += 2; end - p > 1 && !(p[0] == '*' && p[1] == '/'); p++)
				lx->line += *p == '\n';
			if (end - p <= 1) {
				lx->p = end;
				return false;
			}
			p += 2;
		} else {
			break;
		}
	}
	lx->p = p;
	return true;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

/* Digits of a base into *ret; how many there were, or 0 when 64 bits are too few. */
static unsigned digits(const char *p, const char *end, int base, uint64_t *ret)
{
	uint64_t v = 0;
	unsigned n = 0;

	for (; p + n < end && digit(p[n]) < base; n++) {
		if (__builtin_mul_overflow(v, (uint64_t)base, &v) ||
		    __builtin_add_overflow(v, (uint64_t)digit(p[n]), &v))
			return 0;
	}
	*ret = v;
	return n;
}

/* 1.5, 1e-3, 1. : strtod() on a bounded copy. */
static bool lex_decimal(struct ptx_lex *lx)
{
	char buf[64];
	size_t n = 0;
	double d;

	while (n < sizeof(buf) - 1 && lx->p + n < lx->end) {
		char c = lx->p[n];

		if (!(cls(c) & C_DIGIT) && c != '.' && c != 'e' && c != 'E' &&
		    !((c == '-' || c == '+') && n && (buf[n - 1] | 0x20) == 'e'))
			break;
		buf[n++] = c;
	}
	buf[n] = 0;
	if (n == sizeof(buf) - 1)
		return false;
	char *stop;

	d = strtod(buf, &stop);
	if (*stop)
		return false;
	memcpy(&lx->tok.imm, &d, sizeof(d));
	lx->tok.kind = PTX_TOK_FLT;
	lx->p += n;
	return true;
}

static bool lex_number(struct ptx_lex *lx)
{
	const char *p = lx->p, *end = lx->end;
	char x = end - p > 1 && *p == '0' ? p[1] | 0x20 : 0;
	uint64_t v = 0;
	unsigned n;

	lx->tok.kind = PTX_TOK_INT;
	if (x == 'f' || x == 'd') {
		unsigned want = x == 'f' ? 8 : 16;

		n = digits(p + 2, MIN(end, p + 2 + want), 16, &v);
		lx->tok.kind = x == 'f' ? PTX_TOK_F32 : PTX_TOK_FLT;
		if (n != want)
			return false;
		n += 2;
	} else if (x == 'x') {
		n = digits(p + 2, end, 16, &v);
		if (!n)
			return false;
		n += 2;
	} else if (x == 'b') {
		n = digits(p + 2, end, 2, &v);
		if (!n)
			return false;
		n += 2;
	} else {
		for (n = 0; p + n < end && cls(p[n]) & C_DIGIT; n++)
			;
		if (p + n < end && (p[n] == '.' || (p[n] | 0x20) == 'e'))
			return lex_decimal(lx);
		n = digits(p, end, *p == '0' ? 8 : 10, &v);
		if (!n)
			return false;
	}
	if (lx->tok.kind == PTX_TOK_INT && p + n < end && (p[n] | 0x20) == 'u')
		n++;
	if (p + n < end && cls(p[n]) & C_WORD)
		return false;
	lx->tok.imm = v;
	lx->p = p + n;
	return true;
}

static bool lex_word(struct ptx_lex *lx)
{
	const char *p = lx->p + 1, *end = lx->end;

	while (p < end && cls(*p) & C_WORD)
		p++;
	/* "%" alone is a division of constants, which nobody writes: not a word. */
	if (p == lx->p + 1 && *lx->p == '%')
		return false;
	lx->tok.kind = PTX_TOK_WORD;
	lx->tok.sym = ptx_intern(lx, lx->p, p - lx->p);
	lx->p = p;
	return lx->tok.sym;
}

/* .word, .L1::no_allocate, .1d */
static bool lex_dot(struct ptx_lex *lx)
{
	const char *p = lx->p + 1, *end = lx->end;

	while (p < end) {
		if (cls(*p) & C_WORD)
			p++;
		else if (*p == ':' && end - p > 2 && p[1] == ':' && cls(p[2]) & C_WORD)
			p += 2;
		else
			break;
	}
	if (p == lx->p + 1)
		return false;
	lx->tok.kind = PTX_TOK_DOT;
	lx->tok.sym = ptx_intern(lx, lx->p, p - lx->p);
	lx->p = p;
	return lx->tok.sym;
}

static bool lex_string(struct ptx_lex *lx)
{
	const char *p = lx->p + 1;

	while (p < lx->end && *p != '"' && *p != '\n')
		p += *p == '\\' && lx->end - p > 1 && p[1] != '\n' ? 2 : 1;
	if (p >= lx->end || *p != '"')
		return false;
	lx->tok.kind = PTX_TOK_STR;
	lx->p = p + 1;
	return true;
}

void ptx_lex_next(struct ptx_lex *lx)
{
	struct ptx_tok *t = &lx->tok;
	const char *before = lx->p;
	bool ok;

	if (t->kind == PTX_TOK_BAD)
		return;
	ok = skip_space(lx);
	t->spaced = lx->p != before;
	t->line = lx->line;
	t->s = lx->p;
	t->len = 0;
	t->sym = NULL;
	if (!ok) {
		t->kind = PTX_TOK_BAD;
		return;
	}
	if (lx->p >= lx->end) {
		t->kind = PTX_TOK_EOF;
		return;
	}
	if (cls(*lx->p) & C_WORD0) {
		ok = lex_word(lx);
	} else if (*lx->p == '.') {
		ok = lex_dot(lx);
	} else if (cls(*lx->p) & C_DIGIT) {
		ok = lex_number(lx);
	} else if (*lx->p == '"') {
		ok = lex_string(lx);
	} else if (*lx->p > ' ' && *lx->p < 127) {
		t->kind = PTX_TOK_PUNCT;
		t->ch = *lx->p++;
	} else {
		ok = false;
	}
	if (!ok) {
		t->kind = PTX_TOK_BAD;
		lx->p = MIN(t->s + 1, lx->end);
	}
	t->len = lx->p - t->s;
}

void ptx_lex_skip_line(struct ptx_lex *lx)
{
	const char *nl;

	if (lx->tok.kind == PTX_TOK_BAD)
		return;
	/* The current token may itself be on a later line already; it is then kept. */
	lx->p = lx->tok.s;
	lx->line = lx->tok.line;
	nl = memchr(lx->p, '\n', lx->end - lx->p);
	lx->p = nl ? nl : lx->end;
	ptx_lex_next(lx);
}

bool ptx_lex_skip_braces(struct ptx_lex *lx)
{
	unsigned depth = 0;

	for (;; ptx_lex_next(lx)) {
		if (lx->tok.kind == PTX_TOK_EOF || lx->tok.kind == PTX_TOK_BAD)
			return false;
		if (lx->tok.kind != PTX_TOK_PUNCT)
			continue;
		depth += lx->tok.ch == '{';
		if (lx->tok.ch == '}' && --depth == 0)
			break;
	}
	ptx_lex_next(lx);
	return true;
}
