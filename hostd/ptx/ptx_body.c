/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a function: blocks, labels, tables of labels, prototypes, and one call of
 * ptx_insn() for each instruction.
 */
#include <errno.h>
#include <string.h>

#include "ptx/ptx_insn.h"

/* True if the current word is followed by ":". */
static bool at_label(const struct ptx_parser *p)
{
	const char *s = p->lx.p;

	while (s < p->lx.end && (*s == ' ' || *s == '\t'))
		s++;
	return s < p->lx.end && *s == ':';
}

int ptx_label_ref(struct ptx_parser *p, struct ptx_sym *sym, uint32_t *at)
{
	struct ptx_fix *fix = ptx_vec_push(&p->fn.fixes, sizeof(*fix));

	if (!fix)
		return -ENOMEM;
	*fix = (struct ptx_fix){.sym = sym, .at = at, .line = p->line};
	return 0;
}

static int word_list(struct ptx_parser *p, struct ptx_vec *v)
{
	do {
		struct ptx_sym **e = ptx_vec_push(v, sizeof(struct ptx_sym *));
		int r = e ? ptx_want_word(p, e) : -ENOMEM;

		if (r < 0)
			return r;
	} while (ptx_eat(p, ','));
	return ptx_want(p, ';');
}

static int branchtargets(struct ptx_parser *p, struct ptx_sym *name)
{
	struct ptx_vec words = {0};
	struct ptx_table *t;
	struct ptx_bind *b;
	uint32_t *target = NULL;
	int r = word_list(p, &words);

	if (r == 0)
		r = ptx_declare(p, name, PTX_BD_TABLE, &b);
	if (r == 0) {
		t = ptx_vec_push(&p->fn.tables, sizeof(*t));
		target = ptx_alloc(p->arena, words.n * sizeof(uint32_t));
		r = t && target ? 0 : -ENOMEM;
	}
	if (r == 0) {
		b->idx = p->fn.tables.n - 1;
		t->n = words.n;
		t->target = target;
	}
	for (size_t i = 0; r == 0 && i < words.n; i++)
		r = ptx_label_ref(p, ((struct ptx_sym **)words.p)[i], &target[i]);
	ptx_vec_fini(&words);
	return r;
}

static int add_proto(struct ptx_parser *p, struct ptx_sym *name,
		     const struct ptx_proto *proto)
{
	struct ptx_proto *e;
	struct ptx_bind *b;
	int r = ptx_declare(p, name, PTX_BD_PROTO, &b);

	if (r < 0)
		return r;
	e = ptx_vec_push(&p->fn.protos, sizeof(*e));
	if (!e)
		return -ENOMEM;
	*e = *proto;
	b->idx = p->fn.protos.n - 1;
	return 0;
}

/* "(.param .b32 _) _ (.param .b64 _) .noreturn;" */
static int callprototype(struct ptx_parser *p, struct ptx_sym *name)
{
	struct ptx_proto proto = {0};
	struct ptx_sym *underscore;
	uint32_t off = 0, align = 1;
	int r = 0;

	if (ptx_is(p, '('))
		r = ptx_params(p, false, false, &off, &align, &proto.rets, &proto.nrets);
	if (r == 0)
		r = ptx_want_word(p, &underscore);
	off = 0;
	if (r == 0 && ptx_is(p, '('))
		r = ptx_params(p, false, false, &off, &align, &proto.params,
			       &proto.nparams);
	while (r == 0 && ptx_tok(p)->kind == PTX_TOK_DOT) {
		if (ptx_dir(p) == PTX_D_noreturn) {
			proto.noreturn = true;
			ptx_lex_next(&p->lx);
		} else if (ptx_dir(p) == PTX_D_abi_preserve ||
			   ptx_dir(p) == PTX_D_abi_preserve_control) {
			uint64_t n;

			ptx_lex_next(&p->lx);
			r = ptx_const_int(p, &n);
		} else {
			return ptx_syntax(p);
		}
	}
	if (r == 0)
		r = ptx_want(p, ';');
	return r < 0 ? r : add_proto(p, name, &proto);
}

/* A list of functions of one shape stands for that shape. */
static int calltargets(struct ptx_parser *p, struct ptx_sym *name)
{
	struct ptx_vec words = {0};
	struct ptx_proto proto = {0};
	int r = word_list(p, &words);

	for (size_t i = 0; r == 0 && i < words.n; i++) {
		struct ptx_sym *sym = ((struct ptx_sym **)words.p)[i];
		const struct ptx_func *f;

		if (!sym->bind || sym->bind->kind != PTX_BD_FUNC) {
			r = ptx_err(p, "Unknown symbol '%.*s'", (int)sym->len, sym->s);
			break;
		}
		f = &ptx_funcs(p)[sym->bind->idx];
		if (i)
			continue;
		proto = (struct ptx_proto){f->nrets, f->nparams, f->rets, f->params,
					   f->noreturn};
	}
	ptx_vec_fini(&words);
	return r < 0 ? r : add_proto(p, name, &proto);
}

static int label(struct ptx_parser *p)
{
	struct ptx_sym *sym;
	struct ptx_bind *b;
	enum ptx_dir dir;
	int r = ptx_want_word(p, &sym);

	if (r == 0)
		r = ptx_want(p, ':');
	if (r < 0)
		return r;
	dir = ptx_dir(p);
	if (dir == PTX_D_branchtargets || dir == PTX_D_calltargets ||
	    dir == PTX_D_callprototype)
		ptx_lex_next(&p->lx);
	if (dir == PTX_D_branchtargets)
		return branchtargets(p, sym);
	if (dir == PTX_D_calltargets)
		return calltargets(p, sym);
	if (dir == PTX_D_callprototype)
		return callprototype(p, sym);
	r = ptx_declare(p, sym, PTX_BD_LABEL, &b);
	if (r < 0)
		return r;
	b->idx = p->fn.last_label = p->fn.insns.n;
	return 0;
}

static int directive(struct ptx_parser *p)
{
	struct ptx_sym *sym = ptx_tok(p)->sym;

	switch ((enum ptx_dir)sym->dir) {
	case PTX_D_reg:
	case PTX_D_local:
	case PTX_D_param:
	case PTX_D_shared:
	case PTX_D_global:
	case PTX_D_const:
		return ptx_var_stmt(p, PTX_LINK_LOCAL);
	case PTX_D_loc:
	case PTX_D_file:
		ptx_lex_skip_line(&p->lx);
		return 0;
	case PTX_D_pragma:
		return ptx_skip_statement(p);
	default:
		return ptx_err(p, "Unknown directive '%.*s'", (int)sym->len, sym->s);
	}
}

/* One of the text, which may become several. */
static int instruction(struct ptx_parser *p)
{
	struct ptx_place *e;
	int r;

	p->place = (struct ptx_place){.text.begin = ptx_at(p),
				      .depth = p->depth - p->fn.depth};
	r = ptx_insn(p);
	while (r == 0 && p->source && p->fn.places.n < p->fn.insns.n) {
		e = ptx_vec_push(&p->fn.places, sizeof(*e));
		if (!e)
			return -ENOMEM;
		*e = p->place;
	}
	return r;
}

static int statement(struct ptx_parser *p)
{
	struct ptx_tok *t = ptx_tok(p);

	p->line = t->line;
	switch ((enum ptx_tok_kind)t->kind) {
	case PTX_TOK_DOT:
		return directive(p);
	case PTX_TOK_WORD:
		return at_label(p) ? label(p) : instruction(p);
	case PTX_TOK_PUNCT:
		if (t->ch == '{') {
			ptx_lex_next(&p->lx);
			return ptx_scope_push(p);
		}
		if (t->ch == '}') {
			int r = ptx_scope_pop(p);

			p->fn.source.body.end = ptx_at(p);
			ptx_lex_next(&p->lx);
			return r;
		}
		if (t->ch == '@')
			return instruction(p);
		if (t->ch == ';') {
			ptx_lex_next(&p->lx);
			return 0;
		}
		return ptx_syntax(p);
	default:
		return ptx_syntax(p);
	}
}

/* True if control cannot come out behind the last instruction. */
static bool ends(const struct ptx_insn *last)
{
	if (last->guard >= 0)
		return false;
	return last->op == PTX_RET || last->op == PTX_EXIT || last->op == PTX_TRAP ||
	       last->op == PTX_BRA || last->op == PTX_BRX_IDX;
}

/* Keeps where the text has it all; what is not in there has an empty place. */
static int keep_source(struct ptx_parser *p, struct ptx_func *f)
{
	struct ptx_source *source = ptx_memdup(p->arena, &p->fn.source, sizeof(*source));
	struct ptx_place *places = ptx_alloc(p->arena, f->ninsns * sizeof(*places));

	if (!source || !places)
		return -ENOMEM;
	source->regs =
		ptx_memdup(p->arena, p->fn.reg_names.p, f->nregs * sizeof(*source->regs));
	if (!source->regs)
		return -ENOMEM;
	if (p->fn.places.n)
		memcpy(places, p->fn.places.p, p->fn.places.n * sizeof(*places));
	source->text.end = source->body.end + 1;
	source->places = places;
	f->source = source;
	return 0;
}

static int finish(struct ptx_parser *p)
{
	struct ptx_fn *fn = &p->fn;
	struct ptx_func *f = &fn->f;
	struct ptx_insn *insns = fn->insns.p;
	struct ptx_insn ret = {.op = PTX_RET, .guard = -1, .vec = 1, .line = p->line};
	int r;

	if (!fn->insns.n || fn->last_label == fn->insns.n ||
	    !ends(&insns[fn->insns.n - 1])) {
		r = ptx_emit(p, &ret, NULL, NULL);
		if (r < 0)
			return r;
	}
	r = ptx_cfg(fn->insns.p, fn->insns.n, fn->tables.p, ptx_funcs(p), f->is_entry);
	if (r < 0)
		return r;
	f->nregs = fn->regs.n;
	f->ninsns = fn->insns.n;
	f->ntables = fn->tables.n;
	f->nprotos = fn->protos.n;
	f->regs = ptx_memdup(p->arena, fn->regs.p, f->nregs * sizeof(struct ptx_reg));
	f->insns = ptx_memdup(p->arena, fn->insns.p, f->ninsns * sizeof(struct ptx_insn));
	f->tables =
		ptx_memdup(p->arena, fn->tables.p, f->ntables * sizeof(struct ptx_table));
	f->protos =
		ptx_memdup(p->arena, fn->protos.p, f->nprotos * sizeof(struct ptx_proto));
	if (!f->regs || !f->insns || !f->tables || !f->protos ||
	    (p->source && keep_source(p, f) < 0))
		return -ENOMEM;
	f->has_body = true;
	/* Linkage and noreturn of earlier declarations still hold. */
	f->linkage = ptx_funcs(p)[fn->idx].linkage;
	f->noreturn = ptx_funcs(p)[fn->idx].noreturn;
	ptx_funcs(p)[fn->idx] = *f;
	return 0;
}

int ptx_body(struct ptx_parser *p)
{
	uint32_t depth = p->depth;
	int r;

	p->fn.depth = depth + 1;
	p->fn.source.body.begin = ptx_at(p) + 1;
	p->in_body = true;
	r = statement(p); /* the first "{" */
	while (r == 0 && p->depth > depth)
		r = statement(p);
	p->in_body = false;
	return r < 0 ? r : finish(p);
}
