/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables: declarations of every state space, their sizes, and initialisers with the
 * addresses of others in them.
 */
#include <errno.h>
#include <string.h>

#include "ptx/ptx_insn.h"

#define MAX_DIMS   16
#define MAX_SHARED (16ull << 20) /* far above what any device has */
#define MAX_ALIGN  (1u << 20)

uint32_t ptx_decl_size(const struct ptx_decl *d)
{
	return ptx_type_bits(d->type) / 8 * d->vec;
}

uint32_t ptx_decl_align(const struct ptx_decl *d)
{
	return d->align ? d->align : ptx_decl_size(d);
}

/* ".attribute(.managed, .unified(1, 2))" */
static int attribute(struct ptx_parser *p, bool *managed)
{
	unsigned depth = 0;
	int r = ptx_want(p, '(');

	for (depth = 1; r == 0 && depth; ptx_lex_next(&p->lx)) {
		if (ptx_tok(p)->kind == PTX_TOK_EOF || ptx_tok(p)->kind == PTX_TOK_BAD)
			return ptx_syntax(p);
		if (ptx_dir(p) == PTX_D_managed)
			*managed = true;
		depth += ptx_is(p, '(');
		depth -= ptx_is(p, ')');
	}
	return r;
}

static int align(struct ptx_parser *p, uint32_t *ret)
{
	uint64_t v;
	int r = ptx_const_int(p, &v);

	if (r < 0)
		return r;
	if (!v || v & (v - 1) || v > MAX_ALIGN)
		return ptx_err(p, "Alignment must be a power of two");
	*ret = v;
	return 0;
}

/* "[bank]" of old .const variables. */
static int bank(struct ptx_parser *p)
{
	uint64_t v;
	int r;

	if (!ptx_eat(p, '['))
		return 0;
	r = ptx_const_int(p, &v);
	return r < 0 ? r : ptx_want(p, ']');
}

static int decl_word(struct ptx_parser *p, struct ptx_decl *d)
{
	enum ptx_dir dir = ptx_dir(p);
	struct ptx_sym *sym = ptx_tok(p)->sym;
	uint32_t ignored;

	ptx_lex_next(&p->lx);
	if (sym->type) {
		d->type = sym->type;
		return 0;
	}
	switch (dir) {
	case PTX_D_align:
		return align(p, &d->align);
	case PTX_D_attribute:
		return attribute(p, &d->managed);
	case PTX_D_v2:
		d->vec = 2;
		return 0;
	case PTX_D_v4:
		d->vec = 4;
		return 0;
	case PTX_D_v8:
		d->vec = 8;
		return 0;
	case PTX_D_ptr: /* ".ptr{.space}{.align n}": a hint about what it points to */
		if (ptx_dir(p) == PTX_D_global || ptx_dir(p) == PTX_D_const ||
		    ptx_dir(p) == PTX_D_shared || ptx_dir(p) == PTX_D_local ||
		    ptx_dir(p) == PTX_D_param)
			ptx_lex_next(&p->lx);
		if (ptx_dir(p) != PTX_D_align)
			return 0;
		ptx_lex_next(&p->lx);
		return align(p, &ignored);
	case PTX_D_texref:
	case PTX_D_samplerref:
	case PTX_D_surfref:
		ptx_err(p, "Textures and surfaces are not supported by this device");
		return -ENOTSUP;
	default:
		return ptx_err(p, "Unexpected directive '%.*s'", (int)sym->len, sym->s);
	}
}

int ptx_decl(struct ptx_parser *p, enum ptx_dir space, struct ptx_decl *ret)
{
	struct ptx_decl d = {.space = space, .vec = 1};
	int r = space == PTX_D_const ? bank(p) : 0;

	while (r == 0 && ptx_tok(p)->kind == PTX_TOK_DOT)
		r = decl_word(p, &d);
	if (r < 0)
		return r;
	if (!d.type)
		return ptx_syntax(p);
	if (space != PTX_D_reg && ptx_type_bits(d.type) < 8)
		return ptx_err(p, "Type '.%s' is not for variables in memory",
			       ptx_type_name(d.type));
	if (ptx_decl_size(&d) > 32)
		return ptx_err(p, "Vector variable is too large");
	*ret = d;
	return 0;
}

int ptx_dims(struct ptx_parser *p, uint64_t *ret_count, bool *ret_is_array,
	     bool *ret_open, uint64_t *ret_inner)
{
	uint64_t count = 1, inner = 1, n;
	unsigned dims = 0;
	bool open = false;
	int r;

	for (; ptx_eat(p, '['); dims++) {
		if (dims == MAX_DIMS)
			return ptx_err(p, "Too many dimensions");
		if (!dims && ptx_eat(p, ']')) {
			open = true;
			continue;
		}
		r = ptx_const_int(p, &n);
		if (r < 0)
			return r;
		if (__builtin_mul_overflow(count, n, &count) || count > PTX_MAX_VAR)
			return ptx_err(p, "Array is too large");
		if (dims)
			inner *= n;
		r = ptx_want(p, ']');
		if (r < 0)
			return r;
	}
	*ret_count = count;
	*ret_is_array = dims > 0;
	*ret_open = open;
	*ret_inner = inner;
	return 0;
}

/* ---- initialisers ----------------------------------------------------------------- */

struct init {
	struct ptx_vec bytes;  /* char */
	struct ptx_vec relocs; /* struct ptx_reloc */
	uint64_t off, max;     /* next element; bytes that there may be */
	uint32_t unit;         /* bytes of an element */
	enum ptx_type type;
};

static void init_fini(struct init *in)
{
	ptx_vec_fini(&in->bytes);
	ptx_vec_fini(&in->relocs);
}

static int store(struct ptx_parser *p, struct init *in, uint64_t bits)
{
	if (in->off + in->unit > in->max)
		return ptx_err(p, "Too many values in initialiser");
	while (in->bytes.n < in->off + in->unit) {
		if (++p->init_bytes > PTX_MAX_INIT_BYTES) {
			ptx_err(p, "Initialisers are too large");
			return -E2BIG;
		}
		if (!ptx_vec_push(&in->bytes, 1))
			return -ENOMEM;
	}
	memcpy((char *)in->bytes.p + in->off, &bits, MIN(in->unit, 8u));
	in->off += in->unit;
	return 0;
}

/* "sym", "sym+8", "generic(sym)+8": without mask() around it. */
static int address(struct ptx_parser *p, struct ptx_reloc *rel)
{
	struct ptx_sym *sym;
	struct ptx_bind *b;
	uint64_t add = 0;
	bool minus;
	int r = ptx_want_word(p, &sym);

	if (r < 0)
		return r;
	if (sym->len == 7 && !memcmp(sym->s, "generic", 7) && ptx_eat(p, '(')) {
		rel->generic = true;
		r = ptx_want_word(p, &sym);
		if (r == 0)
			r = ptx_want(p, ')');
		if (r < 0)
			return r;
	}
	b = sym->bind;
	if (!b || (b->kind != PTX_BD_VAR && b->kind != PTX_BD_FUNC))
		return ptx_err(p, "Unknown symbol '%.*s'", (int)sym->len, sym->s);
	if (b->kind == PTX_BD_VAR && ptx_vars(p)[b->idx].space == PTX_S_SHARED)
		return ptx_err(p, "Address of '%.*s' in an initialiser", (int)sym->len,
			       sym->s);
	rel->is_func = b->kind == PTX_BD_FUNC;
	rel->target = b->idx;
	minus = ptx_is(p, '-');
	if (minus || ptx_is(p, '+')) {
		ptx_lex_next(&p->lx);
		r = ptx_const_int(p, &add);
	}
	rel->addend = (int64_t)(minus ? -add : add);
	return r;
}

/* "0xff00(address)" after its mask. */
static int masked(struct ptx_parser *p, struct init *in, uint64_t mask)
{
	struct ptx_reloc rel = {.off = in->off, .mask = mask, .size = in->unit};
	int r;

	if (!mask)
		return ptx_err(p, "Mask of an address is zero");
	rel.shift = __builtin_ctzll(mask);
	ptx_lex_next(&p->lx);
	r = address(p, &rel);
	if (r == 0)
		r = ptx_want(p, ')');
	if (r == 0)
		r = store(p, in, 0);
	if (r < 0)
		return r;
	struct ptx_reloc *e = ptx_vec_push(&in->relocs, sizeof(*e));

	if (!e)
		return -ENOMEM;
	*e = rel;
	return 0;
}

static int value(struct ptx_parser *p, struct init *in)
{
	struct ptx_reloc rel = {.off = in->off, .mask = ~0ull, .size = in->unit}, *e;
	struct ptx_num num;
	uint64_t bits;
	int r;

	if (ptx_at_const(p)) {
		r = ptx_const(p, &num);
		if (r < 0)
			return r;
		if (num.kind == PTX_TOK_INT && ptx_is(p, '('))
			return masked(p, in, num.bits);
		if (ptx_num_as(&num, in->type, &bits) < 0) {
			/* "1" for a float variable is common in text written by hand */
			double d = (double)(int64_t)num.bits;

			if (num.kind != PTX_TOK_INT)
				return ptx_err(p, "Initialiser does not fit its type");
			num.kind = PTX_TOK_FLT;
			memcpy(&num.bits, &d, sizeof(d));
			if (ptx_num_as(&num, in->type, &bits) < 0)
				return ptx_err(p, "Initialiser does not fit its type");
		}
		return store(p, in, bits);
	}
	r = address(p, &rel);
	if (r < 0)
		return r;
	if (in->unit > 8)
		return ptx_err(p, "Initialiser does not fit its type");
	r = store(p, in, 0);
	if (r < 0)
		return r;
	e = ptx_vec_push(&in->relocs, sizeof(*e));
	if (!e)
		return -ENOMEM;
	*e = rel;
	return 0;
}

/* "{1, {2, 3}}": an inner brace fills a row of inner elements, and the next begins
 * behind it. row is the size in bytes of what one inner brace stands for. */
static int braces(struct ptx_parser *p, struct init *in, uint64_t row, unsigned depth)
{
	int r;

	if (depth > MAX_DIMS)
		return ptx_err(p, "Initialiser is too deep");
	ptx_lex_next(&p->lx);
	if (ptx_eat(p, '}'))
		return 0;
	do {
		if (ptx_is(p, '{')) {
			uint64_t start = in->off;

			r = braces(p, in, 0, depth + 1);
			if (row) {
				if (in->off > start + row)
					return ptx_err(p,
						       "Too many values in initialiser");
				in->off = start + row;
			}
		} else {
			r = value(p, in);
		}
		if (r < 0)
			return r;
	} while (ptx_eat(p, ','));
	return ptx_want(p, '}');
}

static int initialiser(struct ptx_parser *p, struct ptx_var *v, const struct ptx_decl *d,
		       uint64_t inner, bool open)
{
	struct init in = {
		.max = open ? PTX_MAX_VAR : v->size,
		.unit = ptx_type_bits(d->type) / 8,
		.type = d->type,
	};
	int r;

	if (ptx_is(p, '{'))
		r = braces(p, &in, inner > 1 ? inner * ptx_decl_size(d) : 0, 0);
	else
		r = value(p, &in);
	if (r == 0) {
		v->init_bytes = in.bytes.n;
		v->nrelocs = in.relocs.n;
		v->init = ptx_memdup(p->arena, in.bytes.p, in.bytes.n);
		v->relocs = ptx_memdup(p->arena, in.relocs.p,
				       in.relocs.n * sizeof(struct ptx_reloc));
		if (open)
			v->size = MAX(v->init_bytes, in.off);
		if (!v->init || !v->relocs)
			r = -ENOMEM;
		if (!v->init_bytes)
			v->init = NULL;
	}
	init_fini(&in);
	return r;
}

/* ---- statements ------------------------------------------------------------------- */

static uint8_t space_of(enum ptx_dir dir)
{
	if (dir == PTX_D_global)
		return PTX_S_GLOBAL;
	return dir == PTX_D_const ? PTX_S_CONST : PTX_S_SHARED;
}

/* A variable with static lifetime: a new one, or the definition of one declared. */
static int static_var(struct ptx_parser *p, struct ptx_sym *sym, const struct ptx_decl *d,
		      struct ptx_var v, uint32_t *ret_idx)
{
	struct ptx_bind *b = sym->bind;
	struct ptx_var *slot;
	int r;

	if (b && b->depth == p->depth && b->kind == PTX_BD_VAR && !p->depth) {
		slot = &ptx_vars(p)[b->idx];
		if (slot->space == v.space &&
		    (slot->linkage == PTX_LINK_EXTERN || v.linkage == PTX_LINK_EXTERN)) {
			v.name = slot->name;
			if (v.linkage != PTX_LINK_EXTERN)
				*slot = v;
			*ret_idx = b->idx;
			return 0;
		}
	}
	r = ptx_declare(p, sym, PTX_BD_VAR, &b);
	if (r < 0)
		return r;
	if (p->depth) {
		size_t n = strlen(p->fn.f.name) + 1 + sym->len;
		char *name = ptx_alloc(p->arena, n + 1);

		if (!name)
			return -ENOMEM;
		memcpy(name, p->fn.f.name, n - 1 - sym->len);
		name[n - 1 - sym->len] = '.';
		memcpy(name + n - sym->len, sym->s, sym->len);
		v.name = name;
	} else {
		v.name = ptx_strndup(p->arena, sym->s, sym->len);
		if (!v.name)
			return -ENOMEM;
	}
	slot = ptx_vec_push(&p->vars, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	*slot = v;
	b->idx = *ret_idx = p->vars.n - 1;
	return 0;
}

static int one_static(struct ptx_parser *p, const struct ptx_decl *d,
		      enum ptx_linkage linkage)
{
	struct ptx_var v = {
		.linkage = linkage,
		.space = space_of(d->space),
		.type = d->type,
		.managed = d->managed,
		.align = ptx_decl_align(d),
		.func = p->in_body ? (int32_t)p->fn.idx : -1,
		.line = p->line,
	};
	struct ptx_sym *sym;
	uint64_t count, inner;
	bool is_array, open;
	uint32_t idx = 0;
	int r = ptx_want_word(p, &sym);

	if (r == 0)
		r = ptx_dims(p, &count, &is_array, &open, &inner);
	if (r < 0)
		return r;
	if (__builtin_mul_overflow(count, (uint64_t)ptx_decl_size(d), &v.size) ||
	    v.size > (v.space == PTX_S_SHARED ? MAX_SHARED : PTX_MAX_VAR))
		return ptx_err(p, "Variable '%.*s' is too large", (int)sym->len, sym->s);
	if (open || (v.space == PTX_S_SHARED && linkage == PTX_LINK_EXTERN))
		v.size = 0;
	v.dynamic = v.space == PTX_S_SHARED && linkage == PTX_LINK_EXTERN;
	if (open && linkage != PTX_LINK_EXTERN && !ptx_is(p, '='))
		return ptx_err(p, "Size of array '%.*s' is missing", (int)sym->len,
			       sym->s);
	/* Declared before its initialiser is read: it may hold its own address. */
	r = static_var(p, sym, d, v, &idx);
	if (r < 0 || !ptx_eat(p, '='))
		return r;
	if (v.space == PTX_S_SHARED || linkage == PTX_LINK_EXTERN)
		return ptx_err(p, "Variable '%.*s' must not be initialised",
			       (int)sym->len, sym->s);
	v = ptx_vars(p)[idx];
	r = initialiser(p, &v, d, inner, open);
	if (r == 0)
		ptx_vars(p)[idx] = v;
	return r;
}

/* .local and .param variables of a body: places in the frame. */
static int one_frame(struct ptx_parser *p, const struct ptx_decl *d)
{
	bool param = d->space == PTX_D_param;
	struct ptx_func *f = &p->fn.f;
	uint32_t a = ptx_decl_align(d), *used = param ? &p->fn.area : &f->local_bytes;
	uint64_t count, inner, size, off;
	struct ptx_bind *b;
	struct ptx_sym *sym;
	bool is_array, open;
	int r = ptx_want_word(p, &sym);

	if (r == 0)
		r = ptx_dims(p, &count, &is_array, &open, &inner);
	if (r < 0)
		return r;
	off = ALIGN_UP((uint64_t)*used, a);
	if (open || __builtin_mul_overflow(count, (uint64_t)ptx_decl_size(d), &size) ||
	    size > PTX_MAX_LOCAL || off + size > PTX_MAX_LOCAL)
		return ptx_err(p, "Variable '%.*s' is too large", (int)sym->len, sym->s);
	r = ptx_declare(p, sym, param ? PTX_BD_PARAM : PTX_BD_LOCAL, &b);
	if (r < 0)
		return r;
	b->off = off;
	b->size = size;
	*used = off + size;
	if (param) {
		f->area_bytes = MAX(f->area_bytes, *used);
		f->area_align = MAX(f->area_align, a);
	} else {
		f->local_align = MAX(f->local_align, a);
	}
	return 0;
}

/* "%r<10>", "x", or a vector of registers. */
static int one_reg(struct ptx_parser *p, const struct ptx_decl *d)
{
	struct ptx_bind *b;
	struct ptx_sym *sym;
	uint64_t n;
	int r = ptx_want_word(p, &sym);

	if (r < 0)
		return r;
	if (ptx_eat(p, '<')) {
		/* Not an expression: ">" ends it. */
		n = ptx_tok(p)->imm;
		if (ptx_tok(p)->kind != PTX_TOK_INT)
			return ptx_syntax(p);
		ptx_lex_next(&p->lx);
		r = ptx_want(p, '>');
		if (r < 0)
			return r;
		if (d->vec > 1 || n > UINT32_MAX)
			return ptx_err(p, "Bad number of registers for '%.*s'",
				       (int)sym->len, sym->s);
		r = ptx_declare(p, sym, PTX_BD_RANGE, &b);
		if (r < 0)
			return r;
		b->size = n;
		b->type = d->type;
		return 0;
	}
	r = ptx_declare(p, sym, PTX_BD_REG, &b);
	if (r < 0)
		return r;
	b->type = d->type;
	b->n = d->vec;
	for (unsigned i = 0; i < d->vec; i++) {
		uint32_t idx;

		r = ptx_new_reg(p, d->type, d->vec > 1 ? NULL : sym, p->depth, &idx);
		if (r < 0)
			return r;
		if (!i)
			b->idx = idx;
	}
	return 0;
}

static bool reg_type_ok(enum ptx_type t)
{
	return t == PTX_T_PRED || t == PTX_T_B128 || (t >= PTX_T_U8 && t <= PTX_T_B8) ||
	       (t >= PTX_T_U16 && t <= PTX_T_F16) || (t >= PTX_T_U32 && t <= PTX_T_F32) ||
	       t == PTX_T_F16X2 || (t >= PTX_T_U64 && t <= PTX_T_F64);
}

int ptx_var_stmt(struct ptx_parser *p, enum ptx_linkage linkage)
{
	enum ptx_dir space = ptx_dir(p);
	bool frame = space == PTX_D_reg || space == PTX_D_local || space == PTX_D_param;
	struct ptx_decl d;
	int r;

	if (frame && (!p->in_body || linkage != PTX_LINK_LOCAL)) {
		if (space != PTX_D_local || p->in_body)
			return ptx_syntax(p);
		return ptx_err(p, "Module-scope '.local' variables are not supported");
	}
	ptx_lex_next(&p->lx);
	r = ptx_decl(p, space, &d);
	if (r < 0)
		return r;
	if (space == PTX_D_reg && !reg_type_ok(d.type))
		return ptx_err(p, "Type '.%s' is not for registers",
			       ptx_type_name(d.type));
	do {
		if (space == PTX_D_reg)
			r = one_reg(p, &d);
		else if (frame)
			r = one_frame(p, &d);
		else
			r = one_static(p, &d, linkage);
		if (r < 0)
			return r;
	} while (ptx_eat(p, ','));
	return ptx_want(p, ';');
}
