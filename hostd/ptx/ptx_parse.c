/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX text to a module: one pass over the text. Every word is interned once, and what it
 * means hangs on its symbol; a block that ends puts the outer meaning back. The first
 * error ends the parse. Nothing recurses deeper than PTX_MAX_DEPTH.
 */
#include <errno.h>
#include <string.h>

#include "ptx/ptx_form.h"
#include "ptx/ptx_int.h"

#define MAX_VERSION 90

/* ---- the module
 * ------------------------------------------------------------------------ */

static int version(struct ptx_parser *p)
{
	struct ptx_tok t;
	unsigned major = 0, minor = 0;
	size_t i = 0;

	ptx_lex_next(&p->lx);
	t = *ptx_tok(p);
	if (t.kind != PTX_TOK_FLT && t.kind != PTX_TOK_INT)
		return ptx_syntax(p);
	for (; i < t.len && t.s[i] >= '0' && t.s[i] <= '9' && major < 100; i++)
		major = major * 10 + (t.s[i] - '0');
	if (i < t.len && t.s[i] == '.')
		i++;
	for (; i < t.len && t.s[i] >= '0' && t.s[i] <= '9' && minor < 100; i++)
		minor = minor * 10 + (t.s[i] - '0');
	p->mod->version = major * 10 + minor;
	if (minor > 9 || p->mod->version > MAX_VERSION || !major)
		return ptx_err(p,
			       "Unsupported .version %u.%u; current version is '%u.%u'",
			       major, minor, MAX_VERSION / 10, MAX_VERSION % 10);
	ptx_lex_next(&p->lx);
	return 0;
}

static int target(struct ptx_parser *p)
{
	struct ptx_sym *sym;

	ptx_lex_next(&p->lx);
	do {
		uint32_t sm = 0, i = 3;
		int r = ptx_want_word(p, &sym);

		if (r < 0)
			return r;
		if (sym->len < 4 || memcmp(sym->s, "sm_", 3) != 0)
			continue; /* texmode_independent, debug, map_f64_to_f32 */
		for (; i < sym->len && i < 7 && sym->s[i] >= '0' && sym->s[i] <= '9'; i++)
			sm = sm * 10 + (sym->s[i] - '0');
		if (!sm || i + 1 < sym->len)
			return ptx_err(p, "Unknown target '%.*s'", (int)sym->len, sym->s);
		p->mod->sm = sm;
		p->mod->sm_suffix = i < sym->len ? sym->s[i] : 0;
	} while (ptx_eat(p, ','));
	return 0;
}

static int address_size(struct ptx_parser *p)
{
	uint64_t n;
	int r;

	ptx_lex_next(&p->lx);
	r = ptx_const_int(p, &n);
	if (r < 0)
		return r;
	return n == 64 ? 0 : ptx_err(p, "32-Bit compilation is no longer supported");
}

static int alias(struct ptx_parser *p)
{
	struct ptx_alias a = {.line = p->line}, *e;
	struct ptx_sym *sym[2];
	int r;

	ptx_lex_next(&p->lx);
	r = ptx_want_word(p, &sym[0]);
	if (r == 0)
		r = ptx_want(p, ',');
	if (r == 0)
		r = ptx_want_word(p, &sym[1]);
	if (r == 0)
		r = ptx_want(p, ';');
	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++) {
		if (!sym[i]->bind || sym[i]->bind->kind != PTX_BD_FUNC)
			return ptx_err(p, "Unknown symbol '%.*s'", (int)sym[i]->len,
				       sym[i]->s);
	}
	a.from = sym[0]->bind->idx;
	a.to = sym[1]->bind->idx;
	e = ptx_vec_push(&p->aliases, sizeof(*e));
	if (!e)
		return -ENOMEM;
	*e = a;
	return 0;
}

/* ".section .debug_info { ... }": debug information, of no use here. */
static int section(struct ptx_parser *p)
{
	ptx_lex_next(&p->lx);
	while (ptx_tok(p)->kind == PTX_TOK_DOT || ptx_tok(p)->kind == PTX_TOK_WORD)
		ptx_lex_next(&p->lx);
	if (!ptx_is(p, '{') || !ptx_lex_skip_braces(&p->lx))
		return ptx_syntax(p);
	return 0;
}

static int linked(struct ptx_parser *p)
{
	enum ptx_linkage linkage = PTX_LINK_LOCAL;

	p->stmt_s = ptx_tok(p)->s;
	switch (ptx_dir(p)) {
	case PTX_D_extern:
		linkage = PTX_LINK_EXTERN;
		break;
	case PTX_D_visible:
		linkage = PTX_LINK_VISIBLE;
		break;
	case PTX_D_weak:
		linkage = PTX_LINK_WEAK;
		break;
	case PTX_D_common:
		linkage = PTX_LINK_COMMON;
		break;
	default:
		break;
	}
	if (linkage != PTX_LINK_LOCAL)
		ptx_lex_next(&p->lx);
	switch (ptx_dir(p)) {
	case PTX_D_entry:
	case PTX_D_func:
		return ptx_func_stmt(p, linkage);
	case PTX_D_global:
	case PTX_D_const:
	case PTX_D_shared:
	case PTX_D_local:
		return ptx_var_stmt(p, linkage);
	default:
		return ptx_syntax(p);
	}
}

static int toplevel(struct ptx_parser *p)
{
	p->line = ptx_tok(p)->line;
	switch (ptx_dir(p)) {
	case PTX_D_version:
		return version(p);
	case PTX_D_target:
		return target(p);
	case PTX_D_address_size:
		return address_size(p);
	case PTX_D_alias:
		return alias(p);
	case PTX_D_file:
	case PTX_D_loc:
		ptx_lex_skip_line(&p->lx);
		return 0;
	case PTX_D_section:
		return section(p);
	case PTX_D_pragma:
		return ptx_skip_statement(p);
	case PTX_D_tex:
		ptx_err(p, "Textures and surfaces are not supported by this device");
		return -ENOTSUP;
	case PTX_D_none:
		if (ptx_eat(p, ';'))
			return 0;
		return ptx_syntax(p);
	default:
		return linked(p);
	}
}

static int resolve_aliases(struct ptx_parser *p)
{
	for (size_t i = 0; i < p->aliases.n; i++) {
		const struct ptx_alias *a = &((struct ptx_alias *)p->aliases.p)[i];
		struct ptx_func *from = &ptx_funcs(p)[a->from];
		const struct ptx_func *to = &ptx_funcs(p)[a->to];
		struct ptx_proto shape = {from->nrets, from->nparams, from->rets,
					  from->params, false};

		p->line = a->line;
		if (from->has_body || from->is_entry || !to->has_body || to->is_entry ||
		    from == to || !ptx_sig_match(&shape, to))
			return ptx_err(p, "Illegal alias '%s' of '%s'", from->name,
				       to->name);
		from->alias = (int32_t)a->to;
	}
	return 0;
}

static int module_text(struct ptx_parser *p)
{
	int r = 0;

	ptx_lex_next(&p->lx);
	p->line = ptx_tok(p)->line;
	if (ptx_dir(p) != PTX_D_version)
		return ptx_err(p, "Missing .version directive at start of file '%s'",
			       "application ptx input");
	while (r == 0 && ptx_tok(p)->kind != PTX_TOK_EOF) {
		r = toplevel(p);
		if (r == 0 && !p->mod->sm && p->funcs.n + p->vars.n)
			r = ptx_err(p, "Missing .target directive");
	}
	if (r == 0)
		r = resolve_aliases(p);
	return r;
}

static int build(struct ptx_parser *p)
{
	struct ptx_module *m = p->mod;
	struct ptx_func *funcs;
	struct ptx_var *vars;
	int r = module_text(p);

	if (r < 0)
		return r;
	funcs = ptx_memdup(p->arena, p->funcs.p, p->funcs.n * sizeof(struct ptx_func));
	vars = ptx_memdup(p->arena, p->vars.p, p->vars.n * sizeof(struct ptx_var));
	if (!funcs || !vars)
		return -ENOMEM;
	m->funcs = funcs;
	m->vars = vars;
	m->nfuncs = p->funcs.n;
	m->nvars = p->vars.n;
	m->address_bits = 64;
	return ptx_finish(p->arena, funcs, m->nfuncs, vars, m->nvars);
}

static void parser_fini(struct ptx_parser *p)
{
	ptx_lex_fini(&p->lx);
	ptx_vec_fini(&p->funcs);
	ptx_vec_fini(&p->vars);
	ptx_vec_fini(&p->aliases);
	ptx_arena_free(p->tmp);
	ptx_arena_free(p->arena);
}

static int parse(const char *text, size_t len, bool source, struct ptx_log *log,
		 struct ptx_module **ret_module)
{
	_cleanup_(parser_fini) struct ptx_parser p = {
		.log = log, .source = source, .text = text, .stmt_s = text};
	int r;

	if (len > PTX_MAX_TEXT) {
		ptx_log_line(log, "ptxas fatal   : Ptx text of %zu bytes is too long",
			     len);
		return -E2BIG;
	}
	p.tmp = ptx_arena_new();
	p.arena = ptx_arena_new();
	p.mod = p.arena ? ptx_alloc(p.arena, sizeof(*p.mod)) : NULL;
	if (!p.tmp || !p.mod)
		return -ENOMEM;
	r = ptx_lex_init(&p.lx, text, len, p.tmp);
	if (r == 0)
		r = ptx_vocabulary(&p.lx);
	if (r == 0)
		r = build(&p);
	if (r < 0 && p.lx.nomem)
		r = -ENOMEM;
	if (r < 0) {
		if (r == -ENOMEM)
			ptx_log_line(log, "ptxas fatal   : Memory allocation failure");
		else
			ptx_log_line(
				log,
				"ptxas fatal   : Ptx assembly aborted due to errors");
		return r;
	}
	p.mod->arena = steal(p.arena);
	*ret_module = p.mod;
	return 0;
}

int ptx_parse(const char *text, size_t len, struct ptx_log *log,
	      struct ptx_module **ret_module)
{
	return parse(text, len, false, log, ret_module);
}

int ptx_parse_source(const char *text, size_t len, struct ptx_log *log,
		     struct ptx_module **ret_module)
{
	return parse(text, len, true, log, ret_module);
}

void ptx_module_free(struct ptx_module *m)
{
	if (m)
		ptx_arena_free(m->arena);
}

const struct ptx_func *ptx_find_func(const struct ptx_module *m, const char *name)
{
	for (uint32_t i = 0; i < m->nfuncs; i++) {
		if (!strcmp(m->funcs[i].name, name))
			return &m->funcs[i];
	}
	return NULL;
}

const struct ptx_var *ptx_find_var(const struct ptx_module *m, const char *name)
{
	for (uint32_t i = 0; i < m->nvars; i++) {
		if (m->vars[i].func < 0 && !strcmp(m->vars[i].name, name))
			return &m->vars[i];
	}
	return NULL;
}

static bool same_sizes(const struct ptx_param *a, const struct ptx_param *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (a[i].size != b[i].size)
			return false;
	}
	return true;
}

bool ptx_sig_match(const struct ptx_proto *proto, const struct ptx_func *f)
{
	return proto->nparams == f->nparams && proto->nrets == f->nrets &&
	       same_sizes(proto->params, f->params, f->nparams) &&
	       same_sizes(proto->rets, f->rets, f->nrets);
}
