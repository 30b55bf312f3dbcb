/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "profile/fit.h"

#define POINTERS_MAX   32u
#define QUANTITIES_MAX 48u
#define FACTORS_MAX    3u
#define SHAPE_WORDS    6u
/* Sizes of elements: 1, 2, 4, 8 and 16 bytes. */
#define USUAL_NUMBERS 5
#define CHANCE_MAX    0.05
/* Allocators round sizes up to that: PyTorch's caching one. */
#define ROUNDED 512.0

/* A number that a launch says, in each of them. */
struct quantity {
	char name[16];
	double v[LAUNCHES_MAX];
};

struct fit {
	const struct kernel *k;
	uint32_t pointer[POINTERS_MAX];
	unsigned n_pointers, n_quantities;
	struct quantity q[QUANTITIES_MAX];
};

/* A number and the quantities that multiply it. */
struct term {
	double c;
	unsigned n, q[FACTORS_MAX];
};

/* Limits of a term in each launch: more than `above`, `upto` at most; none where it is not told. */
struct bounds {
	bool told[LAUNCHES_MAX];
	bool at_end[LAUNCHES_MAX]; /* `upto` is where the memory ends, to the byte */
	double above[LAUNCHES_MAX], upto[LAUNCHES_MAX];
};

/* Memory that was reached from a pointer on, as offsets from it: the first run of pieces, and the
 * last. */
struct region {
	unsigned runs;
	double from, first_to, last_from, to;
	bool at_end; /* reached up to the end of the memory */
};

/* ---- terms ---- */

static double product(const struct fit *f, const struct term *t, unsigned i)
{
	double v = 1;

	for (unsigned j = 0; j < t->n; j++)
		v *= f->q[t->q[j]].v[i];
	return v;
}

static double value(const struct fit *f, const struct term *t, unsigned i)
{
	return t->c * product(f, t, i);
}

/* Finds the number, the largest power of two if one does, else the largest at all. */
static bool find_number(const struct fit *f, const struct bounds *b, struct term *t)
{
	double above = 0, upto = 0x1p40, two;

	for (unsigned i = 0; i < f->k->n; i++) {
		double v = product(f, t, i);

		if (!b->told[i])
			continue;
		if (v == 0 && b->above[i] >= 0)
			return false;
		if (v != 0) {
			above = MAX(above, b->above[i] / v);
			upto = MIN(upto, b->upto[i] / v);
		}
	}
	if (upto < 1)
		return false;
	two = exp2(floor(log2(upto)));
	t->c = two > above ? two : floor(upto);
	return t->c > above;
}

static bool is_power_of_two(double c)
{
	int unused;

	return frexp(c, &unused) == 0.5;
}

/* The first of so many factors that will do, one with a power of two before others. */
static bool find_product(const struct fit *f, const struct bounds *b, unsigned n,
			 struct term *ret)
{
	struct term t = {.n = n};
	bool found = false;
	unsigned k;

	for (;;) {
		if (find_number(f, b, &t) && (!found || is_power_of_two(t.c))) {
			*ret = t;
			found = true;
			if (is_power_of_two(t.c))
				return true;
		}
		/* Factors in order, each as often as one likes. */
		for (k = n; k && t.q[k - 1] == f->n_quantities - 1; k--)
			;
		if (!k)
			return found;
		t.q[k - 1]++;
		for (; k < n; k++)
			t.q[k] = t.q[k - 1];
	}
}

/* Whether a launch before this one had the same product, and so says nothing more. */
static bool had_product(const struct fit *f, const struct bounds *b, const struct term *t,
			unsigned i)
{
	double v = product(f, t, i);

	while (i--) {
		if (b->told[i] && product(f, t, i) == v)
			return true;
	}
	return false;
}

/* How much of all that a launch could have reached is as near to what it did. */
static double width_of(const struct fit *f, const struct bounds *b, const struct term *t,
		       unsigned i)
{
	double above = MAX(b->above[i], 0.0), upto = b->upto[i];

	if (upto <= above)
		return 1;
	if (b->at_end[i])
		above = MAX(above, MIN(value(f, t, i), upto - ROUNDED));
	return 1 - above / upto;
}

/* Products of so many factors that would hold by chance: of all that there are those that come
 * as near in each launch. A number that is no power of two is what one launch says. */
static double by_chance(const struct fit *f, const struct bounds *b, const struct term *t)
{
	double chance = 1, least = 1;

	for (unsigned i = 0; i < t->n; i++)
		chance *= (double)(f->n_quantities + i) / (i + 1);
	for (unsigned i = 0; i < f->k->n; i++) {
		double width = width_of(f, b, t, i);

		if (!b->told[i] || had_product(f, b, t, i))
			continue;
		chance *= width;
		least = MIN(least, width);
	}
	return is_power_of_two(t->c) ? chance * USUAL_NUMBERS : chance / least;
}

/* The simplest term that holds, unless it may well do so by chance. */
static bool find_term(const struct fit *f, const struct bounds *b, struct term *ret)
{
	for (unsigned n = 0; n <= FACTORS_MAX && (!n || f->n_quantities); n++) {
		if (find_product(f, b, n, ret))
			return !n || by_chance(f, b, ret) < CHANCE_MAX;
	}
	return false;
}

/* ---- what launches say ---- */

/* One that some launches do without is a pointer as well. */
static bool is_pointer(const struct kernel *k, size_t offset)
{
	for (unsigned i = 0; i < k->n; i++) {
		const struct launch *l = &k->launch[i];

		if (spans_find(&l->memory, launch_word(l, offset, 8)))
			return true;
	}
	return false;
}

static bool is_in_pointer(const struct fit *f, size_t offset)
{
	for (unsigned i = 0; i < f->n_pointers; i++) {
		if (offset - f->pointer[i] < 8)
			return true;
	}
	return false;
}

static size_t params_size(const struct kernel *k)
{
	size_t size = SIZE_MAX;

	for (unsigned i = 0; i < k->n; i++)
		size = MIN(size, k->launch[i].size);
	return size;
}

static void find_pointers(struct fit *f)
{
	size_t size = params_size(f->k);

	for (size_t o = 0; o + 8 <= size && f->n_pointers < POINTERS_MAX; o += 8) {
		if (is_pointer(f->k, o))
			f->pointer[f->n_pointers++] = (uint32_t)o;
	}
}

/* A quantity that is the same in all launches is part of the number. */
static bool says_more(const struct fit *f, const struct quantity *q)
{
	unsigned i = 0;

	while (i < f->k->n && q->v[i] == q->v[0])
		i++;
	if (i == f->k->n)
		return false;
	for (i = 0; i < f->n_quantities; i++) {
		if (memcmp(f->q[i].v, q->v, f->k->n * sizeof(*q->v)) == 0)
			return false;
	}
	return true;
}

static void add_quantity(struct fit *f, const struct quantity *q)
{
	if (f->n_quantities < QUANTITIES_MAX && says_more(f, q))
		f->q[f->n_quantities++] = *q;
}

static void add_param(struct fit *f, size_t offset)
{
	struct quantity q;

	snprintf(q.name, sizeof(q.name), "u32[%zu]", offset);
	for (unsigned i = 0; i < f->k->n; i++) {
		q.v[i] = (double)launch_word(&f->k->launch[i], offset, 4);
		if (q.v[i] > INT32_MAX)
			return;
	}
	add_quantity(f, &q);
}

static void add_shape(struct fit *f, unsigned word)
{
	struct quantity q;
	unsigned axis = word % 3;

	snprintf(q.name, sizeof(q.name), "%s.%c", word < 3 ? "nctaid" : "ntid",
		 "xyz"[axis]);
	for (unsigned i = 0; i < f->k->n; i++) {
		const struct ptx_grid *g = &f->k->launch[i].shape;

		q.v[i] = word < 3 ? g->blocks[axis] : g->threads[axis];
	}
	add_quantity(f, &q);
}

static void find_quantities(struct fit *f)
{
	size_t size = params_size(f->k);

	for (size_t o = 0; o + 4 <= size; o += 4) {
		if (!is_in_pointer(f, o))
			add_param(f, o);
	}
	for (unsigned word = 0; word < SHAPE_WORDS; word++)
		add_shape(f, word);
}

/* ---- regions ---- */

/* The end of what of its allocation is a pointer's: the next pointer, or the allocation's. */
static uint64_t limit_of(const struct fit *f, const struct launch *l, uint64_t p)
{
	uint64_t to = spans_find(&l->memory, p)->to;

	for (unsigned i = 0; i < f->n_pointers; i++) {
		uint64_t other = launch_word(l, f->pointer[i], 8);

		if (other > p)
			to = MIN(to, other);
	}
	return to;
}

static void region_of(const struct fit *f, const struct launch *l, uint64_t p,
		      struct region *ret)
{
	uint64_t limit, cut, last = 0;

	*ret = (struct region){0};
	if (!spans_find(&l->memory, p))
		return;
	limit = limit_of(f, l, p);
	/* The piece in which the next one begins is reached from there. */
	cut = ALIGN_DOWN(limit, PIECE) > p ? ALIGN_DOWN(limit, PIECE) : limit;
	if (limit == spans_find(&l->memory, p)->to)
		cut = limit;
	for (size_t i = 0; i < l->reached.n; i++) {
		uint64_t from = MAX(l->reached.v[i].from, p);
		uint64_t to = MIN(l->reached.v[i].to, cut);

		if (from >= to)
			continue;
		if (!ret->runs ||
		    ALIGN_DOWN(from, PIECE) >= ALIGN_UP(last, PIECE) + PIECE) {
			if (!ret->runs++)
				ret->from = (double)(from - p);
			ret->last_from = (double)(from - p);
		}
		last = to;
		ret->at_end = to == cut;
		ret->to = (double)((ret->at_end ? limit : to) - p);
		if (ret->runs == 1)
			ret->first_to = ret->to;
	}
}

/* Whether all that a launch reached is in a pointer's allocation, and not before it. */
static bool is_named(const struct fit *f, const struct launch *l, const struct span *s)
{
	for (unsigned i = 0; i < f->n_pointers; i++) {
		uint64_t p = launch_word(l, f->pointer[i], 8);

		if (spans_find(&l->memory, p) &&
		    spans_find(&l->memory, s->from) == spans_find(&l->memory, p) &&
		    s->to > ALIGN_DOWN(p, PIECE))
			return true;
	}
	return false;
}

static bool all_named(const struct fit *f)
{
	for (unsigned i = 0; i < f->k->n; i++) {
		const struct launch *l = &f->k->launch[i];

		for (size_t j = 0; j < l->reached.n; j++) {
			if (!is_named(f, l, &l->reached.v[j]))
				return false;
		}
	}
	return true;
}

/* ---- lines ---- */

static void write_product(FILE *out, const struct fit *f, const struct term *t)
{
	for (unsigned i = 0; i < t->n; i++)
		fprintf(out, "%s%s", i ? " * " : "", f->q[t->q[i]].name);
}

static void write_value(FILE *out, const struct fit *f, const struct term *t)
{
	if (t->n)
		write_product(out, f, t);
	if (!t->n || t->c != 1)
		fprintf(out, "%s%.0f", t->n ? " * " : "", t->c);
}

/* The end of a line: as many bytes as a term says. */
static void write_bytes(FILE *out, const struct fit *f, const struct term *t)
{
	if (t->n) {
		fprintf(out, " + each(");
		write_product(out, f, t);
		fprintf(out, ", %.0f)", t->c);
	}
	fprintf(out, " bytes %.0f\n", t->c);
}

/* The byte before the last one is in the last piece, or in the first. */
static double at_least(const struct launch *l, uint32_t pointer, double to, double from)
{
	uint64_t p = launch_word(l, pointer, 8);
	uint64_t piece = ALIGN_DOWN(p + (uint64_t)to - 1, PIECE);

	return MAX(piece > p ? (double)(piece - p) : 0, from);
}

/* Where it begins, if not at the pointer itself (*ret_later). False: nobody knows. */
static bool find_begin(const struct fit *f, uint32_t pointer, const struct region *r,
		       bool *ret_later, struct term *ret)
{
	struct bounds b = {0};
	bool later = false;

	for (unsigned i = 0; i < f->k->n; i++) {
		uint64_t p = launch_word(&f->k->launch[i], pointer, 8);
		uint64_t from = p + (uint64_t)r[i].from;

		b.told[i] = r[i].runs > 0;
		b.above[i] = ALIGN_DOWN(from, PIECE) > p ? r[i].from - 1 : -1;
		b.upto[i] = (double)(ALIGN_DOWN(from, PIECE) + PIECE - 1 - p);
		later |= b.told[i] && b.above[i] >= 0;
	}
	*ret_later = later && find_term(f, &b, ret);
	return *ret_later == later;
}

static bool find_bytes(const struct fit *f, uint32_t pointer, const struct region *r,
		       const struct term *begin, struct term *ret)
{
	struct bounds b = {0};

	for (unsigned i = 0; i < f->k->n; i++) {
		double from = begin ? value(f, begin, i) : 0;

		b.told[i] = r[i].runs > 0;
		b.at_end[i] = r[i].at_end;
		b.upto[i] = r[i].to - from;
		b.above[i] =
			MAX(0.0, at_least(&f->k->launch[i], pointer, r[i].to, 0) - from);
	}
	return find_term(f, &b, ret);
}

struct rows {
	struct term n, stride, bytes;
};

/* Runs of pieces at equal distances. */
static bool find_rows(const struct fit *f, uint32_t pointer, const struct region *r,
		      struct rows *ret)
{
	struct bounds n = {0}, stride = {0}, bytes = {0};
	bool several = false;

	for (unsigned i = 0; i < f->k->n; i++) {
		double apart = r[i].runs > 1
				       ? (r[i].last_from - r[i].from) / (r[i].runs - 1)
				       : 0;
		double off = r[i].runs > 1 ? (double)PIECE / (r[i].runs - 1) : 0;

		if (r[i].runs < 2)
			continue;
		several = true;
		n.told[i] = stride.told[i] = bytes.told[i] = true;
		n.above[i] = r[i].runs - 1;
		n.upto[i] = r[i].runs;
		stride.above[i] = apart - off;
		stride.upto[i] = apart + off;
		bytes.above[i] =
			at_least(&f->k->launch[i], pointer, r[i].first_to, r[i].from) -
			r[i].from;
		bytes.upto[i] = r[i].first_to - r[i].from;
	}
	return several && find_term(f, &n, &ret->n) &&
	       find_term(f, &stride, &ret->stride) && find_term(f, &bytes, &ret->bytes);
}

static void write_rows(FILE *out, const struct fit *f, const struct rows *rows)
{
	fprintf(out, " + each(");
	write_value(out, f, &rows->n);
	fprintf(out, ", ");
	write_value(out, f, &rows->stride);
	fprintf(out, ")");
	write_bytes(out, f, &rows->bytes);
}

/* A kernel that was seen once, and reached more than a piece. */
static bool says_little(const struct fit *f, const struct region *r)
{
	return f->k->seen < 2 && r[0].to - r[0].from > (double)PIECE;
}

static void write_pointer(FILE *out, const struct fit *f, uint32_t pointer)
{
	struct region r[LAUNCHES_MAX];
	struct term begin, bytes;
	struct rows rows;
	unsigned reached = 0;
	bool known, later, strided;

	for (unsigned i = 0; i < f->k->n; i++) {
		const struct launch *l = &f->k->launch[i];

		region_of(f, l, launch_word(l, pointer, 8), &r[i]);
		reached += r[i].runs > 0;
	}
	if (!reached)
		return;
	known = find_begin(f, pointer, r, &later, &begin);
	strided = known && find_rows(f, pointer, r, &rows);
	if (says_little(f, r) ||
	    (!strided && !find_bytes(f, pointer, r, later ? &begin : NULL, &bytes))) {
		fprintf(out, "somewhere u64[%u]\n", pointer);
		return;
	}
	fprintf(out, "at u64[%u]", pointer);
	if (later) {
		fprintf(out, " + ");
		write_value(out, f, &begin);
	}
	if (strided)
		write_rows(out, f, &rows);
	else
		write_bytes(out, f, &bytes);
}

void fit_write(FILE *out, const struct kernel *k)
{
	struct fit *f = calloc(1, sizeof(*f));

	if (!f)
		return;
	f->k = k;
	find_pointers(f);
	find_quantities(f);
	if (!all_named(f)) {
		fprintf(out, "# %s reaches what no parameter points to\n", k->name);
	} else {
		fprintf(out, "code %016llx%016llx\nkernel %s\n",
			(unsigned long long)k->code.hash[0],
			(unsigned long long)k->code.hash[1], k->name);
		for (unsigned i = 0; i < f->n_pointers; i++)
			write_pointer(out, f, f->pointer[i]);
	}
	free(f);
}
