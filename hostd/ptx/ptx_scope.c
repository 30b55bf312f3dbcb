/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of the whole parser: messages, tokens that have to be there, blocks of names. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ptx_int.h"

/* ---- messages -----------------------------------------------------------------------
 */

static void log_put(struct ptx_log *log, const char *s, size_t n)
{
	if (!log || !log->buf || log->cap < log->len + n + 2)
		return;
	memcpy(log->buf + log->len, s, n);
	log->len += n;
	log->buf[log->len++] = '\n';
	log->buf[log->len] = 0;
}

void ptx_log_line(struct ptx_log *log, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0)
		log_put(log, line, MIN((size_t)n, sizeof(line) - 1));
}

/* Text of the guest in a message: printable characters only. */
static void printable(char *s)
{
	for (; *s; s++) {
		if (*s < ' ' || *s > '~')
			*s = '?';
	}
}

int ptx_err(struct ptx_parser *p, const char *fmt, ...)
{
	char msg[256], text[128] = "";
	va_list ap;

	if (p->lx.nomem)
		return -ENOMEM;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	printable(msg);
	if (p->insn_s) {
		snprintf(text, sizeof(text), "%.*s", (int)p->insn_len, p->insn_s);
		printable(text);
	}
	ptx_log_line(p->log, "ptxas application ptx input, line %u; error   : %s%s%s%s",
		     p->line, msg, *text ? ", in '" : "", text, *text ? "'" : "");
	return -EINVAL;
}

int ptx_syntax(struct ptx_parser *p)
{
	struct ptx_tok *t = ptx_tok(p);
	char msg[128];

	if (p->lx.nomem)
		return -ENOMEM;
	snprintf(msg, sizeof(msg), "%.*s", (int)MIN(t->len, 60u), t->s);
	printable(msg);
	if (t->kind == PTX_TOK_EOF)
		snprintf(msg, sizeof(msg), "end of text");
	ptx_log_line(p->log,
		     "ptxas application ptx input, line %u; fatal   : Parsing error near "
		     "'%s': syntax error",
		     t->line, msg);
	return -EINVAL;
}

/* ---- tokens -------------------------------------------------------------------------
 */

bool ptx_eat(struct ptx_parser *p, char ch)
{
	if (!ptx_is(p, ch))
		return false;
	ptx_lex_next(&p->lx);
	return true;
}

int ptx_want(struct ptx_parser *p, char ch)
{
	return ptx_eat(p, ch) ? 0 : ptx_syntax(p);
}

int ptx_want_word(struct ptx_parser *p, struct ptx_sym **ret_sym)
{
	*ret_sym = ptx_tok(p)->sym;
	if (ptx_tok(p)->kind != PTX_TOK_WORD)
		return ptx_syntax(p);
	ptx_lex_next(&p->lx);
	return 0;
}

int ptx_skip_statement(struct ptx_parser *p)
{
	while (!ptx_is(p, ';')) {
		if (ptx_tok(p)->kind == PTX_TOK_EOF || ptx_tok(p)->kind == PTX_TOK_BAD)
			return ptx_syntax(p);
		ptx_lex_next(&p->lx);
	}
	ptx_lex_next(&p->lx);
	return 0;
}

/* ---- blocks ---------------------------------------------------------------------------
 */

int ptx_declare(struct ptx_parser *p, struct ptx_sym *sym, enum ptx_bind_kind kind,
		struct ptx_bind **ret_bind)
{
	struct ptx_bind *b;

	if (sym->bind && sym->bind->depth >= p->depth)
		return ptx_err(p, "Duplicate definition of %s '%.*s'",
			       kind == PTX_BD_LABEL ? "label" : "variable", (int)sym->len,
			       sym->s);
	b = ptx_alloc(p->tmp, sizeof(*b));
	if (!b)
		return -ENOMEM;
	*b = (struct ptx_bind){
		.kind = kind,
		.n = 1,
		.depth = p->depth,
		.sym = sym,
		.shadowed = sym->bind,
		.next = p->scopes[p->depth].binds,
	};
	p->scopes[p->depth].binds = b;
	sym->bind = b;
	*ret_bind = b;
	return 0;
}

int ptx_scope_push(struct ptx_parser *p)
{
	if (p->depth == PTX_MAX_DEPTH)
		return ptx_err(p, "Blocks are nested too deep");
	p->scopes[++p->depth] = (struct ptx_block){
		.first_fix = p->fn.fixes.n,
		.area = p->fn.area,
	};
	return 0;
}

/* Uses of labels in this block: those that it declares are bound, the others are left to
 * the block around it. */
static int bind_labels(struct ptx_parser *p, struct ptx_block *sc)
{
	struct ptx_fix *fixes = p->fn.fixes.p;
	size_t kept = sc->first_fix;

	for (size_t i = sc->first_fix; i < p->fn.fixes.n; i++) {
		struct ptx_bind *b = fixes[i].sym->bind;

		if (b && b->depth == p->depth && b->kind == PTX_BD_LABEL) {
			*fixes[i].at = b->idx;
			continue;
		}
		if (p->depth <= 1) {
			p->line = fixes[i].line;
			return ptx_err(p, "Unknown symbol '%.*s'", (int)fixes[i].sym->len,
				       fixes[i].sym->s);
		}
		fixes[kept++] = fixes[i];
	}
	p->fn.fixes.n = kept;
	return 0;
}

int ptx_scope_pop(struct ptx_parser *p)
{
	struct ptx_block *sc = &p->scopes[p->depth];
	int r = bind_labels(p, sc);

	for (struct ptx_bind *b = sc->binds; b; b = b->next)
		b->sym->bind = b->shadowed;
	/* The parameter area of a block's calls is used again by the next block. */
	p->fn.area = sc->area;
	p->depth--;
	return r;
}
