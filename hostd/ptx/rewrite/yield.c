/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/rewrite/flow.h"
#include "ptx/rewrite/live.h"
#include "ptx/rewrite/loops.h"
#include "ptx/rewrite/yield.h"

/* Instructions between two looks at the flag, about, of which a load counts for many, and rounds at
 * most: one word's place in the L2 cache answers a warp in some cycles, and an H200 has 8,448. */
#define LOOK_INSNS 4096u
#define LOAD_INSNS 16u
#define EVERY_MAX  1024u
/* Rounds with loops in them. */
#define LOOK_ROUNDS 8u
#define SITES_MAX   64u
/* Bytes kept of a thread: a context's threads have a stack of so many if nobody asks for more. */
#define THREAD_MAX 1024u

/* ---- where ---- */

/* Something by which threads may wait for what others write. */
static bool may_wait(const struct ptx_insn *in)
{
	return in->op == PTX_ATOM || in->op == PTX_NANOSLEEP ||
	       (in->op == PTX_LD && in->sem != PTX_SEM_WEAK);
}

static bool *loops_that_wait(const struct ptx_func *f, const struct ptx_loops *l,
			     bool *ret_any)
{
	bool *waits = calloc(l->n + 1, sizeof(*waits));

	*ret_any = false;
	for (uint32_t i = 0; waits && i < f->ninsns; i++) {
		if (l->of[i] < 0 || !may_wait(&f->insns[i]))
			continue;
		waits[l->of[i]] = true;
		*ret_any = true;
	}
	return waits;
}

/* Whether all threads of a block come by an instruction as often, and none has ended before. */
static int is_common(const struct ptx_module *m, const struct ptx_func *f,
		     const uint8_t *marks, uint32_t at)
{
	_cleanup_free_ uint8_t *before = calloc(f->ninsns + 1, 1);
	int r;

	if (!before)
		return -ENOMEM;
	if (marks[at] & PTX_APART)
		return 0;
	before[at] = 1;
	r = ptx_reaching(m, f, before);
	if (r < 0)
		return r == -E2BIG ? 0 : r;
	return !ptx_may_end_before(f, marks, before);
}

struct plan {
	const struct ptx_module *m;
	const struct ptx_func *f;
	struct ptx_loops loops;
	bool *waits, any_waits;
	uint8_t *marks; /* ptx_parting(), where threads meet */
};

static void plan_fini(struct plan *p)
{
	ptx_loops_fini(&p->loops);
	free(p->waits);
	free(p->marks);
}

static uint32_t every(const struct plan *p, uint32_t k)
{
	const struct ptx_loop *l = &p->loops.loops[k];
	uint32_t cost = l->n;

	if (l->nests)
		return LOOK_ROUNDS;
	for (uint32_t i = 0; i < p->f->ninsns; i++) {
		const struct ptx_insn *in = &p->f->insns[i];

		if (p->loops.of[i] == (int32_t)k && in->op == PTX_LD &&
		    in->o[1].kind != PTX_O_KPARAM)
			cost += LOAD_INSNS;
	}
	return MAX(1u, MIN(LOOK_INSNS / cost, EVERY_MAX));
}

/* Whether the instruction before a loop is one that leads into it. */
static bool falls_in(const struct plan *p, uint32_t k)
{
	uint32_t head = p->loops.loops[k].head;
	const struct ptx_place *before = &p->f->source->places[head - 1];

	return p->loops.of[head - 1] != (int32_t)k && before->text.end &&
	       !before->depth &&
	       before->text.end <= p->f->source->places[head].text.begin;
}

/* Returns why a loop has no yield point, or NULL; *ret_r: -ENOMEM. */
static const char *look_at(const struct plan *p, uint32_t k, struct ptx_site *ret,
			   int *ret_r)
{
	const struct ptx_loop *l = &p->loops.loops[k];
	int common = 1;

	*ret_r = 0;
	if (l->head == UINT32_MAX)
		return "has a loop with several beginnings";
	if (p->f->source->places[l->head].depth)
		return "has a loop within a block";
	if (p->marks ? p->waits[k] : p->any_waits)
		return "may wait for other threads in a loop";
	if (p->marks)
		common = is_common(p->m, p->f, p->marks, l->head);
	if (common < 0)
		*ret_r = common;
	if (common <= 0)
		return "has a loop that threads leave one by one";
	*ret = (struct ptx_site){l->head, every(p, k), p->marks != NULL, falls_in(p, k)};
	return NULL;
}

static int find_sites(const struct plan *p, struct ptx_yield *ret)
{
	ret->sites = calloc(p->loops.n + 1, sizeof(*ret->sites));
	if (!ret->sites)
		return -ENOMEM;
	for (uint32_t k = 0; k < p->loops.n; k++) {
		int r = 0;
		const char *why = ret->n == SITES_MAX
					  ? "has many loops"
					  : look_at(p, k, &ret->sites[ret->n], &r);

		if (why)
			ret->why = why;
		else
			ret->n++;
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- what is kept ---- */

/* Registers that nothing writes but one instruction which can be done again at any time: a load of
 * a parameter, or an address made of one. By register, that instruction; -1: none. */
static int32_t *find_again(const struct ptx_func *f)
{
	int32_t *again = malloc((f->nregs + 1) * sizeof(*again));
	_cleanup_free_ uint8_t *n = calloc(f->nregs + 1, 1);

	for (uint32_t i = 0; again && n && i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];

		for (unsigned k = 0; k < in->nopnds; k++) {
			const struct ptx_opnd *o = &in->o[k];

			if (!(ptx_written(in) >> k & 1))
				continue;
			if (o->kind == PTX_O_REG)
				n[o->idx] = MIN(n[o->idx] + 1, 2);
			for (unsigned e = 0; o->kind == PTX_O_VEC && e < o->n; e++) {
				if (o->elem[e].kind == PTX_O_REG)
					n[o->elem[e].idx] = 2;
			}
		}
	}
	for (uint32_t i = 0; again && i < f->nregs; i++)
		again[i] = -1;
	for (uint32_t i = 0; again && n && i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];
		bool loads =
			in->op == PTX_LD && in->vec == 1 && in->o[1].kind == PTX_O_KPARAM;
		bool converts = in->op == PTX_CVTA && in->o[1].kind == PTX_O_REG &&
				again[in->o[1].idx] >= 0;

		if ((loads || converts) && in->guard < 0 && in->o[0].kind == PTX_O_REG &&
		    n[in->o[0].idx] == 1 && !f->source->places[i].depth &&
		    f->source->places[i].text.end)
			again[in->o[0].idx] = (int32_t)i;
	}
	return n ? again : (free(again), NULL);
}

/* Moves those out of what is kept, into what is done again. */
static void do_again(const struct ptx_func *f, const int32_t *again, uint64_t *live,
		     uint8_t *redo)
{
	for (uint32_t i = 0; i < f->nregs; i++) {
		uint32_t reg = i;

		if (!ptx_is_live(live, i) || again[i] < 0)
			continue;
		live[i / 64] &= ~(1ull << (i % 64));
		while (!redo[again[reg]]) {
			const struct ptx_insn *in = &f->insns[again[reg]];

			redo[again[reg]] = 1;
			if (in->op != PTX_CVTA)
				break;
			reg = in->o[1].idx;
		}
	}
}

static const char *count(const struct ptx_func *f, const uint64_t *live,
			 uint32_t *ret_words, uint32_t *ret_doubles)
{
	*ret_words = *ret_doubles = 0;
	if (ptx_is_live(live, f->nregs))
		return "carries over into a loop";
	for (uint32_t i = 0; i < f->nregs; i++) {
		if (!ptx_is_live(live, i))
			continue;
		if (!f->source->regs[i].name || f->source->regs[i].depth ||
		    f->regs[i].bits > 64)
			return "has registers that cannot be kept";
		++*(f->regs[i].bits == 64 ? ret_doubles : ret_words);
	}
	return NULL;
}

static int find_live(const struct ptx_module *m, const struct ptx_func *f,
		     struct ptx_yield *ret)
{
	_cleanup_free_ uint32_t *at = calloc(ret->n + 1, sizeof(*at));
	_cleanup_free_ int32_t *again = find_again(f);
	size_t words = ptx_live_words(f);
	uint32_t n = 0;
	int r;

	ret->redo = calloc((size_t)ret->n * f->ninsns + 1, 1);
	if (!at || !again || !ret->redo)
		return -ENOMEM;
	for (uint32_t k = 0; k < ret->n; k++)
		at[k] = ret->sites[k].insn;
	r = ptx_live(m, f, at, ret->n, &ret->live);
	if (r < 0)
		return r;
	for (uint32_t k = 0; k < ret->n; k++) {
		uint64_t *live = ret->live + k * words;
		uint8_t *redo = ret->redo + (size_t)n * f->ninsns;
		const char *why;
		uint32_t w, d;

		do_again(f, again, live, redo);
		why = count(f, live, &w, &d);

		if (why) {
			ret->why = why;
			memset(redo, 0, f->ninsns);
			continue;
		}
		ret->words = MAX(ret->words, w);
		ret->doubles = MAX(ret->doubles, d);
		ret->sites[n] = ret->sites[k];
		memmove(ret->live + n++ * words, live, words * sizeof(*live));
	}
	ret->n = n;
	return 0;
}

static int plan(struct plan *p, bool meets, struct ptx_yield *ret)
{
	int r = 0;

	p->waits = loops_that_wait(p->f, &p->loops, &p->any_waits);
	if (!p->waits)
		return -ENOMEM;
	if (meets)
		r = ptx_parting(p->m, p->f, PTX_OF_BLOCK, &p->marks);
	if (r == 0)
		r = find_sites(p, ret);
	return r == 0 && ret->n ? find_live(p->m, p->f, ret) : r;
}

/* ---- the body's own variables ---- */

/* Behind a comment, or the same place. */
static uint32_t skip_comment(const char *text, uint32_t at, uint32_t end)
{
	const char *s;

	if (end - at < 2 || text[at] != '/')
		return at;
	if (text[at + 1] == '/')
		s = memchr(text + at, '\n', end - at);
	else if (text[at + 1] == '*')
		s = memmem(text + at + 2, end - at - 2, "*/", 2);
	else
		return at;
	return s ? (uint32_t)(s - text) + (text[at + 1] == '*' ? 2 : 1) : end;
}

/* Behind a directive; those for debuggers end with their line. */
static uint32_t skip_directive(const char *text, uint32_t at, uint32_t end)
{
	bool line = end - at > 4 &&
		    (!memcmp(text + at, ".loc", 4) || !memcmp(text + at, ".fil", 4));

	while (at < end && text[at] != (line ? '\n' : ';')) {
		uint32_t behind = skip_comment(text, at, end);

		at = behind > at ? behind : at + 1;
	}
	return MIN(at + 1, end);
}

/* Between the body's beginning and its first instruction. */
static int find_shared(const char *text, const struct ptx_func *f, struct ptx_yield *ret)
{
	uint32_t at = f->source->body.begin, end = f->source->places[0].text.begin;
	uint32_t most = 0;

	while (at < end) {
		uint32_t behind = skip_comment(text, at, end);

		if (behind == at && text[at] != '.')
			behind = at + 1;
		if (behind == at) {
			behind = skip_directive(text, at, end);
			if (behind - at > 7 && !memcmp(text + at, ".shared", 7)) {
				if (ret->n_shared == most) {
					struct ptx_span *more = reallocarray(
						ret->shared, 2 * most + 8, sizeof(*more));

					if (!more)
						return -ENOMEM;
					ret->shared = more;
					most = 2 * most + 8;
				}
				ret->shared[ret->n_shared++] =
					(struct ptx_span){at, behind};
			}
		}
		at = behind;
	}
	return 0;
}

static const char *bad_body(const struct ptx_module *m, uint32_t func,
			    const struct ptx_loops *l, const struct ptx_yield *y)
{
	const struct ptx_func *f = &m->funcs[func];
	uint32_t own = 0;

	if (f->local_bytes)
		return "keeps variables on its stack";
	if (l->of[0] >= 0 || f->source->places[0].depth)
		return "begins with a loop";
	for (uint32_t i = 0; i < m->nvars; i++)
		own += m->vars[i].func == (int32_t)func;
	return own == y->n_shared ? NULL : "declares its variables in an unusual way";
}

int ptx_yield_plan(const struct ptx_module *m, const char *text, uint32_t func,
		   bool meets, struct ptx_yield *ret)
{
	_cleanup_(plan_fini) struct plan p = {.m = m, .f = &m->funcs[func]};
	const char *why = NULL;
	int r;

	*ret = (struct ptx_yield){0};
	r = ptx_loops(m, p.f, &p.loops);
	if (r == 0 && !p.loops.n)
		return 0;
	if (r == 0)
		r = find_shared(text, p.f, ret);
	if (r == 0)
		why = bad_body(m, func, &p.loops, ret);
	if (r == 0 && !why)
		r = plan(&p, meets, ret);
	if (r == -E2BIG)
		why = "is too large for yield points";
	if (r == 0 && ptx_yield_thread_bytes(ret) > THREAD_MAX)
		why = "has more registers than are kept";
	if (r < 0 || why) {
		ptx_yield_fini(ret);
		ret->why = why;
	}
	return r == -E2BIG ? 0 : r;
}

void ptx_yield_fini(struct ptx_yield *y)
{
	free(y->sites);
	free(y->live);
	free(y->redo);
	free(y->shared);
	*y = (struct ptx_yield){0};
}

uint32_t ptx_yield_thread_bytes(const struct ptx_yield *y)
{
	return 8 * y->doubles + 4 * (1 + y->words);
}

/* ---- the points ---- */

/*
 * Threads of a warp that decide for themselves are not to part for that: they would do the rest of
 * the loop one after the other. So no branch is taken but by those that stop. Where all decide
 * together, what is seldom done is at the body's end.
 */
static const char apart[] = "\t@%weft_pt_p ld.param.u64 %weft_pt_d, [weft_pt_args];\n"
			    "\t@%weft_pt_p ld.volatile.global.u32 %weft_pt_f, "
			    "[%weft_pt_d+20];\n"
			    "\tsetp.ne.u32 %weft_pt_q, %weft_pt_f, 0;\n";

/* Threads that go into a loop together look together, wherever they come from. */
static void edit_entry(const struct ptx_site *s, const struct ptx_func *f,
		       struct ptx_edits *e)
{
	uint32_t end = f->source->places[s->insn - 1].text.end;

	if (s->falls_in)
		ptx_edit(e, (struct ptx_span){end, end}, "\n\tmov.u32 %%weft_pt_n, %u;",
			 s->every);
}

static void edit_round(const struct ptx_site *s, uint32_t k, struct ptx_span at,
		       struct ptx_edits *e)
{
	ptx_edit(e, at,
		 "\nweft_pt_y%u:\n"
		 "\tsub.u32 %%weft_pt_n, %%weft_pt_n, 1;\n"
		 "\tsetp.eq.u32 %%weft_pt_p, %%weft_pt_n, 0;\n",
		 k);
	if (!s->together)
		ptx_edit(e, at, "\t@%%weft_pt_p mov.u32 %%weft_pt_n, %u;\n%s", s->every,
			 apart);
	ptx_edit(e, at,
		 "\t@%%weft_pt_%c bra weft_pt_l%u;\n"
		 "weft_pt_z%u:\n\t",
		 s->together ? 'p' : 'q', k, k);
}

void ptx_yield_edit(const struct ptx_yield *y, const char *text, const struct ptx_func *f,
		    struct ptx_edits *e)
{
	for (uint32_t k = 1; k <= y->n; k++) {
		uint32_t begin = f->source->places[y->sites[k - 1].insn].text.begin;
		const uint8_t *redo = y->redo + (size_t)(k - 1) * f->ninsns;
		struct ptx_span at = {begin, begin};

		edit_entry(&y->sites[k - 1], f, e);
		edit_round(&y->sites[k - 1], k, at, e);
		for (uint32_t i = 0; i < f->ninsns; i++) {
			const struct ptx_span *s = &f->source->places[i].text;

			if (redo[i])
				ptx_edit(e, at, "%.*s\n\t", (int)(s->end - s->begin),
					 text + s->begin);
		}
	}
}

/* One row of threads looks for all of them. */
static void write_look(const struct ptx_site *s, uint32_t k, FILE *out)
{
	fprintf(out, "weft_pt_l%u:\n", k);
	if (s->together)
		fprintf(out,
			"\tmov.u32 %%weft_pt_n, %u;\n"
			"\tmov.u32 %%weft_pt_a, 0;\n"
			"\tmov.u32 %%weft_pt_t, %%tid.x;\n"
			"\tsetp.eq.u32 %%weft_pt_p, %%weft_pt_t, 0;\n"
			"\tld.param.u64 %%weft_pt_d, [weft_pt_args];\n"
			"\t@%%weft_pt_p ld.volatile.global.u32 %%weft_pt_a, "
			"[%%weft_pt_d+20];\n"
			"\tsetp.ne.u32 %%weft_pt_p, %%weft_pt_a, 0;\n"
			"\tbarrier.red.or.pred %%weft_pt_q, 0, %%weft_pt_p;\n"
			"\t@!%%weft_pt_q bra weft_pt_z%u;\n",
			s->every, k);
	fprintf(out,
		"\tmov.u32 %%weft_pt_k, %u;\n"
		"\tbra weft_pt_park;\n",
		k);
}

/* ---- keeping a block, and going on with it ---- */

/*
 * All that is alive in the loop is alive while it is kept, too, so that takes no register: a
 * thread's registers go to its stack first, in order of their size, and from there to the block's
 * place. i: this thread's number; c: threads of the block; d: where the block is kept; u: its number
 * among those that are.
 */
static const char numbers[] = "\tmov.u32 %weft_pt_i, %tid.z;\n"
			      "\tmov.u32 %weft_pt_a, %ntid.y;\n"
			      "\tmul.lo.u32 %weft_pt_i, %weft_pt_i, %weft_pt_a;\n"
			      "\tmov.u32 %weft_pt_a, %tid.y;\n"
			      "\tadd.u32 %weft_pt_i, %weft_pt_i, %weft_pt_a;\n"
			      "\tmov.u32 %weft_pt_c, %ntid.x;\n"
			      "\tmul.lo.u32 %weft_pt_i, %weft_pt_i, %weft_pt_c;\n"
			      "\tmov.u32 %weft_pt_a, %tid.x;\n"
			      "\tadd.u32 %weft_pt_i, %weft_pt_i, %weft_pt_a;\n"
			      "\tmov.u32 %weft_pt_a, %ntid.y;\n"
			      "\tmul.lo.u32 %weft_pt_c, %weft_pt_c, %weft_pt_a;\n"
			      "\tmov.u32 %weft_pt_a, %ntid.z;\n"
			      "\tmul.lo.u32 %weft_pt_c, %weft_pt_c, %weft_pt_a;\n";

#define BLOCK_NUMBER                                                                     \
	"\tmov.u32 %weft_pt_v, %ctaid.x;\n"                                              \
	"\tld.param.u32 %weft_pt_a, [weft_pt_args+28];\n"                                \
	"\tadd.u32 %weft_pt_v, %weft_pt_v, %weft_pt_a;\n"

static const char state[] =
	BLOCK_NUMBER "\tld.param.u64 %weft_pt_d, [weft_pt_args];\n"
		     "\tld.volatile.global.u64 %weft_pt_d, [%weft_pt_d+32];\n"
		     "\tld.param.u64 %weft_pt_g, [weft_pt_args+32];\n"
		     "\tcvt.u64.u32 %weft_pt_e, %weft_pt_v;\n"
		     "\tmad.lo.u64 %weft_pt_d, %weft_pt_g, %weft_pt_e, %weft_pt_d;\n";

static const char kept[] =
	BLOCK_NUMBER "\tld.param.u64 %weft_pt_u, [weft_pt_args];\n"
		     "\tld.volatile.global.u64 %weft_pt_u, [%weft_pt_u+24];\n"
		     "\tmul.wide.u32 %weft_pt_e, %weft_pt_v, 4;\n"
		     "\tadd.u64 %weft_pt_u, %weft_pt_u, %weft_pt_e;\n";

static const char declared[] = "\t.reg .b32 %weft_pt_i, %weft_pt_j, %weft_pt_v;\n"
			       "\t.reg .b64 %weft_pt_e, %weft_pt_g, %weft_pt_u;\n";

static_assert(PTX_YIELD_BLOCK_BYTES == 16, "as it is added below");

/* One register, at an offset of the stack. */
static void write_reg(const struct ptx_func *f, uint32_t i, unsigned at, bool keep,
		      FILE *out)
{
	const char *name = f->source->regs[i].name;
	unsigned bits = f->regs[i].bits;

	if (bits == 1 && keep)
		fprintf(out,
			"\tselp.u32 %%weft_pt_a, 1, 0, %s;\n"
			"\tst.local.u32 [weft_pt_stack+%u], %%weft_pt_a;\n",
			name, at);
	else if (bits == 1)
		fprintf(out,
			"\tld.local.u32 %%weft_pt_a, [weft_pt_stack+%u];\n"
			"\tsetp.ne.u32 %s, %%weft_pt_a, 0;\n",
			at, name);
	else if (keep)
		fprintf(out, "\tst.local.b%u [weft_pt_stack+%u], %s;\n", bits, at, name);
	else
		fprintf(out, "\tld.local.b%u %s, [weft_pt_stack+%u];\n", bits, name, at);
}

/* The number of a thread's yield point is between those of 8 bytes and the others. */
static unsigned number_at(const struct ptx_yield *y)
{
	return 8 * y->doubles;
}

static void write_regs(const struct ptx_yield *y, const struct ptx_func *f, uint32_t k,
		       bool keep, FILE *out)
{
	const uint64_t *live = y->live + k * ptx_live_words(f);
	unsigned at[] = {number_at(y) + 4, 0};

	for (uint32_t i = 0; i < f->nregs; i++) {
		bool wide = f->regs[i].bits == 64;

		if (!ptx_is_live(live, i))
			continue;
		write_reg(f, i, at[wide], keep, out);
		at[wide] += wide ? 8 : 4;
	}
}

/* All of the stack: words of all threads side by side. */
static void write_stack(const struct ptx_yield *y, bool keep, FILE *out)
{
	const char *what = keep ? "keep" : "take";

	fprintf(out,
		"\tmul.wide.u32 %%weft_pt_e, %%weft_pt_i, 4;\n"
		"\tadd.u64 %%weft_pt_e, %%weft_pt_e, %%weft_pt_d;\n"
		"\tadd.u64 %%weft_pt_e, %%weft_pt_e, %u;\n"
		"\tmul.wide.u32 %%weft_pt_g, %%weft_pt_c, 4;\n"
		"\tmov.u64 %%weft_pt_u, weft_pt_stack;\n"
		"\tmov.u32 %%weft_pt_j, %u;\n"
		"weft_pt_%s:\n"
		"\t.pragma \"nounroll\";\n",
		PTX_YIELD_BLOCK_BYTES, ptx_yield_thread_bytes(y) / 4, what);
	fputs(keep ? "\tld.local.u32 %weft_pt_v, [%weft_pt_u];\n"
		     "\tst.global.u32 [%weft_pt_e], %weft_pt_v;\n"
		   : "\tld.global.u32 %weft_pt_v, [%weft_pt_e];\n"
		     "\tst.local.u32 [%weft_pt_u], %weft_pt_v;\n",
	      out);
	fprintf(out,
		"\tadd.u64 %%weft_pt_u, %%weft_pt_u, 4;\n"
		"\tadd.u64 %%weft_pt_e, %%weft_pt_e, %%weft_pt_g;\n"
		"\tsub.u32 %%weft_pt_j, %%weft_pt_j, 1;\n"
		"\tsetp.ne.u32 %%weft_pt_p, %%weft_pt_j, 0;\n"
		"\t@%%weft_pt_p bra weft_pt_%s;\n",
		what);
}

/* Copies size bytes (a number, or a register's name) of shared memory from a on, all threads
 * together; and on behind them. */
static void write_copy(const char *what, unsigned n, unsigned step, const char *size,
		       bool keep, FILE *out)
{
	unsigned bits = 8 * step;

	fprintf(out,
		"\tmul.lo.u32 %%weft_pt_j, %%weft_pt_i, %u;\n"
		"weft_pt_%s%u:\n"
		"\t.pragma \"nounroll\";\n" /* it takes registers */
		"\tsetp.ge.u32 %%weft_pt_p, %%weft_pt_j, %s;\n"
		"\t@%%weft_pt_p bra weft_pt_%s%u_end;\n"
		"\tadd.u32 %%weft_pt_t, %%weft_pt_a, %%weft_pt_j;\n"
		"\tcvt.u64.u32 %%weft_pt_g, %%weft_pt_j;\n"
		"\tadd.u64 %%weft_pt_g, %%weft_pt_g, %%weft_pt_e;\n",
		step, what, n, size, what, n);
	fprintf(out,
		keep ? "\tld.shared.u%u %%weft_pt_v, [%%weft_pt_t];\n"
		       "\tst.global.u%u [%%weft_pt_g], %%weft_pt_v;\n"
		     : "\tld.global.u%u %%weft_pt_v, [%%weft_pt_g];\n"
		       "\tst.shared.u%u [%%weft_pt_t], %%weft_pt_v;\n",
		bits, bits);
	fprintf(out,
		"\tmad.lo.u32 %%weft_pt_j, %%weft_pt_c, %u, %%weft_pt_j;\n"
		"\tbra weft_pt_%s%u;\n"
		"weft_pt_%s%u_end:\n",
		step, what, n, what, n);
}

/* The name that a variable has in the text: those of a function have its name in front. */
static const char *name_of(const struct ptx_module *m, const struct ptx_var *v)
{
	return v->func < 0 ? v->name : v->name + strlen(m->funcs[v->func].name) + 1;
}

/* Whether some function of those has an operand that is the variable. */
static bool is_used(const struct ptx_module *m, uint32_t var, const uint8_t *reached)
{
	for (uint32_t i = 0; i < m->nfuncs; i++) {
		const struct ptx_func *f = &m->funcs[i];

		for (uint32_t k = 0; reached[i] && k < f->ninsns; k++) {
			const struct ptx_insn *in = &f->insns[k];

			for (unsigned o = 0; o < in->nopnds; o++) {
				if (in->o[o].kind == PTX_O_VAR && in->o[o].idx == var)
					return true;
			}
		}
	}
	return false;
}

static void write_shared(const struct ptx_yield *y, const struct ptx_module *m,
			 uint32_t func, const uint8_t *reached, bool keep, FILE *out)
{
	const char *what = keep ? "keep" : "take", *dynamic = NULL;
	unsigned n = 0;
	char size[16];
	int step = 1;

	fprintf(out,
		"\tmul.wide.u32 %%weft_pt_e, %%weft_pt_c, %u;\n"
		"\tadd.u64 %%weft_pt_e, %%weft_pt_e, %%weft_pt_d;\n"
		"\tadd.u64 %%weft_pt_e, %%weft_pt_e, %u;\n",
		ptx_yield_thread_bytes(y), PTX_YIELD_BLOCK_BYTES);
	for (uint32_t i = 0; i < m->nvars; i++) {
		const struct ptx_var *v = &m->vars[i];
		bool words = v->size % 4 == 0 && v->align % 4 == 0;

		if (v->space != PTX_S_SHARED || !is_used(m, i, reached))
			continue;
		if (v->dynamic) {
			dynamic = name_of(m, v);
			step = v->align % 4 ? 1 : 4;
			continue;
		}
		snprintf(size, sizeof(size), "%u", (unsigned)v->size);
		fprintf(out, "\tmov.u32 %%weft_pt_a, %s;\n", name_of(m, v));
		write_copy(what, n++, words ? 4 : 1, size, keep, out);
		fprintf(out, "\tadd.u64 %%weft_pt_e, %%weft_pt_e, %u;\n",
			(unsigned)ALIGN_UP(v->size, 4u));
	}
	if (!dynamic)
		return;
	fprintf(out,
		"\tmov.u32 %%weft_pt_a, %s;\n"
		"\tmov.u32 %%weft_pt_k, %%dynamic_smem_size;\n"
		"\tand.b32 %%weft_pt_k, %%weft_pt_k, %d;\n",
		dynamic, -step);
	write_copy(what, n++, (unsigned)step, "%weft_pt_k", keep, out);
	if (step == 1)
		return;
	fputs("\tadd.u32 %weft_pt_a, %weft_pt_a, %weft_pt_k;\n"
	      "\tcvt.u64.u32 %weft_pt_g, %weft_pt_k;\n"
	      "\tadd.u64 %weft_pt_e, %weft_pt_e, %weft_pt_g;\n"
	      "\tmov.u32 %weft_pt_k, %dynamic_smem_size;\n"
	      "\tand.b32 %weft_pt_k, %weft_pt_k, 3;\n",
	      out);
	write_copy(what, n, 1, "%weft_pt_k", keep, out);
}

/*
 * Control never comes back from here: it would be where threads of the loop meet again, in the
 * place of the instruction behind the loop. So the blocks that were done are added here, too.
 */
void ptx_yield_keep(const struct ptx_yield *y, const struct ptx_module *m, uint32_t func,
		    const uint8_t *reached, FILE *out)
{
	const struct ptx_func *f = &m->funcs[func];

	for (uint32_t k = 0; k < y->n; k++)
		write_look(&y->sites[k], k + 1, out);
	/* Threads that were done wait at the loop's head, with this barrier. */
	fputs("weft_pt_park:\n"
	      "\tsetp.ne.u32 %weft_pt_p, %weft_pt_k, 0;\n"
	      "\tbarrier.red.or.pred %weft_pt_q, 0, %weft_pt_p;\n",
	      out);
	fprintf(out,
		"weft_pt_save:\n"
		"\tst.local.u32 [weft_pt_stack+%u], %%weft_pt_k;\n",
		number_at(y));
	for (uint32_t k = 0; k < y->n; k++) {
		fprintf(out,
			"\tsetp.ne.u32 %%weft_pt_p, %%weft_pt_k, %u;\n"
			"\t@%%weft_pt_p bra weft_pt_s%u;\n",
			k + 1, k + 1);
		write_regs(y, f, k, true, out);
		fprintf(out, "\tbra weft_pt_saved;\nweft_pt_s%u:\n", k + 1);
	}
	fprintf(out, "weft_pt_saved:\n%s%s", numbers, state);
	write_stack(y, true, out);
	fprintf(out, "%s%s", numbers, state);
	write_shared(y, m, func, reached, true, out);
	fprintf(out, "\tbarrier.sync 0;\n%s", numbers);
	fputs("\tsetp.ne.u32 %weft_pt_p, %weft_pt_i, 0;\n"
	      "\t@%weft_pt_p ret;\n",
	      out);
	fputs(state, out);
	fputs("\tld.shared.u32 %weft_pt_a, [weft_pt_slot];\n"
	      "\tst.global.u32 [%weft_pt_d], %weft_pt_a;\n"
	      "\tld.shared.u32 %weft_pt_a, [weft_pt_slot+4];\n"
	      "\tst.global.u32 [%weft_pt_d+4], %weft_pt_a;\n"
	      "\tld.shared.u32 %weft_pt_a, [weft_pt_slot+8];\n"
	      "\tst.global.u32 [%weft_pt_d+8], %weft_pt_a;\n"
	      "\tmembar.gl;\n",
	      out);
	fputs(kept, out);
	fputs("\tmov.u32 %weft_pt_a, 1;\n"
	      "\tst.volatile.global.u32 [%weft_pt_u], %weft_pt_a;\n"
	      "\tld.shared.u32 %weft_pt_a, [weft_pt_slot+16];\n"
	      "\tld.param.u64 %weft_pt_d, [weft_pt_args];\n"
	      "\tmembar.sys;\n"
	      "\tatom.global.add.u32 %weft_pt_t, [%weft_pt_d+16], %weft_pt_a;\n"
	      "\tred.global.add.u32 [%weft_pt_d+4], 1;\n"
	      "\tret;\n",
	      out);
}

/* A launch may have been told to go on more than once, and blocks with one number be there several
 * times: one of them takes what is kept. */
void ptx_yield_restore(const struct ptx_yield *y, const struct ptx_module *m,
		       uint32_t func, const uint8_t *reached, FILE *out)
{
	const struct ptx_func *f = &m->funcs[func];

	fprintf(out, "%s%s", kept, numbers);
	fputs("\tsetp.ne.u32 %weft_pt_p, %weft_pt_i, 0;\n"
	      "\tmov.u32 %weft_pt_a, 0;\n"
	      "\t@%weft_pt_p bra weft_pt_asked;\n"
	      "\tatom.global.exch.b32 %weft_pt_a, [%weft_pt_u], 0;\n"
	      "\tmembar.gl;\n"
	      "weft_pt_asked:\n"
	      "\tsetp.ne.u32 %weft_pt_p, %weft_pt_a, 0;\n"
	      "\tbarrier.red.or.pred %weft_pt_q, 0, %weft_pt_p;\n"
	      "\t@!%weft_pt_q bra weft_pt_next;\n",
	      out);
	fputs(state, out);
	fputs("\tsetp.ne.u32 %weft_pt_p, %weft_pt_i, 0;\n"
	      "\t@%weft_pt_p bra weft_pt_placed;\n"
	      "\tmov.u32 %weft_pt_a, 0;\n"
	      "\tst.shared.u32 [weft_pt_slot+16], %weft_pt_a;\n"
	      "\tld.global.u32 %weft_pt_a, [%weft_pt_d];\n"
	      "\tst.shared.u32 [weft_pt_slot], %weft_pt_a;\n"
	      "\tld.global.u32 %weft_pt_a, [%weft_pt_d+4];\n"
	      "\tst.shared.u32 [weft_pt_slot+4], %weft_pt_a;\n"
	      "\tld.global.u32 %weft_pt_a, [%weft_pt_d+8];\n"
	      "\tst.shared.u32 [weft_pt_slot+8], %weft_pt_a;\n"
	      "weft_pt_placed:\n",
	      out);
	write_stack(y, false, out);
	fprintf(out, "%s%s", numbers, state);
	write_shared(y, m, func, reached, false, out);
	fprintf(out,
		"\tbarrier.sync 0;\n"
		"\tld.local.u32 %%weft_pt_j, [weft_pt_stack+%u];\n"
		"\tmov.u32 %%weft_pt_k, 0;\n",
		number_at(y));
	for (uint32_t k = 0; k < y->n; k++) {
		fprintf(out,
			"\tsetp.ne.u32 %%weft_pt_p, %%weft_pt_j, %u;\n"
			"\t@%%weft_pt_p bra weft_pt_r%u;\n",
			k + 1, k + 1);
		write_regs(y, f, k, false, out);
		fprintf(out, "\tbra weft_pt_y%u;\nweft_pt_r%u:\n", k + 1, k + 1);
	}
	fputs("\tbra weft_pt_next;\n", out);
}

void ptx_yield_declare(const struct ptx_yield *y, FILE *out)
{
	fputs(declared, out);
	fprintf(out, "\t.local .align 8 .b8 weft_pt_stack[%u];\n",
		ALIGN_UP(ptx_yield_thread_bytes(y), 8u));
}

void ptx_yield_edit_shared(const struct ptx_yield *y, struct ptx_edits *e)
{
	for (uint32_t i = 0; i < y->n_shared; i++)
		ptx_edit(e, y->shared[i], "%s", "");
}
