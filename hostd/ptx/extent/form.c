/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macros.h"
#include "ptx/extent/form.h"

#define UNKNOWN (FORM_UP | FORM_DOWN)

static void with_flags(struct form *ret, unsigned flags)
{
	ret->flags |= (uint8_t)flags;
}

static void copy(struct form *ret, const struct form *f)
{
	ret->c = f->c;
	ret->n = f->n;
	ret->flags = f->flags;
	memcpy(ret->t, f->t, f->n * sizeof(*f->t));
}

void form_const(struct form *ret, int64_t c)
{
	ret->c = c;
	ret->n = 0;
	ret->flags = 0;
}

void form_unknown(struct form *ret)
{
	ret->c = 0;
	ret->n = 0;
	ret->flags = UNKNOWN;
}

static void unknown(struct form *ret, unsigned flags)
{
	form_unknown(ret);
	with_flags(ret, flags);
}

void form_sym(struct form *ret, uint16_t sym, int64_t coef, uint64_t count)
{
	form_const(ret, 0);
	if (!coef || count <= 1)
		return;
	if (count > FORM_COUNT_MAX) {
		form_unknown(ret);
		return;
	}
	ret->n = 1;
	ret->t[0] = (struct form_term){coef, count, sym};
}

void form_range(struct form *ret, int64_t lo, int64_t hi)
{
	if (lo > hi) {
		form_const(ret, 0);
		with_flags(ret, FORM_EMPTY);
	} else if (lo == INT64_MIN || hi == INT64_MAX) {
		form_const(ret, lo != INT64_MIN ? lo : hi != INT64_MAX ? hi : 0);
		with_flags(ret, (lo == INT64_MIN ? FORM_DOWN : 0) |
					(hi == INT64_MAX ? FORM_UP : 0));
	} else {
		form_sym(ret, FORM_ANY, 1, (uint64_t)hi - (uint64_t)lo + 1);
		ret->c = ret->flags ? 0 : lo;
	}
}

/* Terms alone: what they add to c, at most and at least. False: too much to say. */
static bool spread(const struct form *f, int64_t *ret_lo, int64_t *ret_hi)
{
	*ret_lo = *ret_hi = 0;
	for (unsigned i = 0; i < f->n; i++) {
		int64_t w, *end = f->t[i].coef < 0 ? ret_lo : ret_hi;

		if (__builtin_mul_overflow(f->t[i].coef, (int64_t)f->t[i].count - 1,
					   &w) ||
		    __builtin_add_overflow(*end, w, end))
			return false;
	}
	return true;
}

int64_t form_lo(const struct form *f)
{
	int64_t lo, hi;

	if (f->flags & FORM_DOWN || !spread(f, &lo, &hi) ||
	    __builtin_add_overflow(f->c, lo, &lo))
		return INT64_MIN;
	return lo;
}

int64_t form_hi(const struct form *f)
{
	int64_t lo, hi;

	if (f->flags & FORM_UP || !spread(f, &lo, &hi) ||
	    __builtin_add_overflow(f->c, hi, &hi))
		return INT64_MAX;
	return hi;
}

bool form_is_bounded(const struct form *f)
{
	return form_lo(f) != INT64_MIN && form_hi(f) != INT64_MAX;
}

bool form_is_const(const struct form *f)
{
	return !f->n && !f->flags;
}

static bool are_const(const struct form *a, const struct form *b)
{
	return !(a->n | b->n | a->flags | b->flags);
}

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

/* Counts a term from its other end, where it goes down. False: too large to say. */
static bool turn_up(struct form *f, struct form_term *t)
{
	int64_t w;

	if (t->coef > 0)
		return true;
	if (t->coef == INT64_MIN ||
	    __builtin_mul_overflow(t->coef, (int64_t)t->count - 1, &w) ||
	    __builtin_add_overflow(f->c, w, &f->c))
		return false;
	t->coef = -t->coef;
	return true;
}

bool form_sort(struct form *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		struct form_term t = f->t[i];
		unsigned k = i;

		if (!turn_up(f, &t))
			return false;
		for (; k && f->t[k - 1].coef > t.coef; k--)
			f->t[k] = f->t[k - 1];
		f->t[k] = t;
	}
	return true;
}

/* Makes one term of the two with the smallest steps. False: too large to say. */
static bool squeeze(struct form *f)
{
	unsigned a = 0, b = 1;
	uint64_t step, wa, wb;

	for (unsigned i = 0; i < f->n; i++) {
		uint64_t m = magnitude(f->t[i].coef);

		if (m < magnitude(f->t[a].coef)) {
			b = a;
			a = i;
		} else if (i != a && (a == b || m < magnitude(f->t[b].coef))) {
			b = i;
		}
	}
	if (!turn_up(f, &f->t[a]) || !turn_up(f, &f->t[b]))
		return false;
	step = gcd((uint64_t)f->t[a].coef, (uint64_t)f->t[b].coef);
	if (__builtin_mul_overflow((uint64_t)f->t[a].coef, (uint64_t)f->t[a].count - 1,
				   &wa) ||
	    __builtin_mul_overflow((uint64_t)f->t[b].coef, (uint64_t)f->t[b].count - 1,
				   &wb) ||
	    __builtin_add_overflow(wa, wb, &wa) || wa / step >= FORM_COUNT_MAX)
		return false;
	f->t[a] = (struct form_term){(int64_t)step, wa / step + 1, FORM_ANY};
	f->t[b] = f->t[--f->n];
	return true;
}

/* Adds a term. False: too large to say. */
static bool add_term(struct form *f, struct form_term t)
{
	for (unsigned i = 0; t.sym != FORM_ANY && i < f->n; i++) {
		if (f->t[i].sym != t.sym)
			continue;
		if (__builtin_add_overflow(f->t[i].coef, t.coef, &f->t[i].coef))
			return false;
		if (f->t[i].count < t.count)
			f->t[i].count = t.count;
		if (!f->t[i].coef)
			f->t[i] = f->t[--f->n];
		return true;
	}
	if (f->n == FORM_TERMS && !squeeze(f))
		return false;
	f->t[f->n++] = t;
	return true;
}

void form_add(struct form *ret, const struct form *a, const struct form *b)
{
	bool ok;

	copy(ret, a);
	with_flags(ret, b->flags);
	ok = !__builtin_add_overflow(ret->c, b->c, &ret->c);
	for (unsigned i = 0; ok && i < b->n; i++)
		ok = add_term(ret, b->t[i]);
	if (!ok)
		unknown(ret, ret->flags);
}

/* Up becomes down. */
static unsigned turned(unsigned flags)
{
	return (flags & ~UNKNOWN) | (flags & FORM_UP ? FORM_DOWN : 0) |
	       (flags & FORM_DOWN ? FORM_UP : 0);
}

void form_sub(struct form *ret, const struct form *a, const struct form *b)
{
	bool ok;

	copy(ret, a);
	with_flags(ret, turned(b->flags));
	ok = !__builtin_sub_overflow(ret->c, b->c, &ret->c);
	for (unsigned i = 0; ok && i < b->n; i++) {
		struct form_term t = b->t[i];

		ok = t.coef != INT64_MIN;
		t.coef = ok ? -t.coef : 1;
		ok = ok && add_term(ret, t);
	}
	if (!ok)
		unknown(ret, ret->flags);
}

static void scale(struct form *ret, const struct form *a, int64_t k)
{
	bool ok;

	if (!k) {
		form_const(ret, 0);
		with_flags(ret, a->flags & ~UNKNOWN);
		return;
	}
	copy(ret, a);
	if (k < 0)
		ret->flags = (uint8_t)turned(a->flags);
	ok = !__builtin_mul_overflow(ret->c, k, &ret->c);
	for (unsigned i = 0; ok && i < ret->n; i++)
		ok = !__builtin_mul_overflow(ret->t[i].coef, k, &ret->t[i].coef);
	if (!ok)
		unknown(ret, ret->flags);
}

/* Flags that any result of both has, whatever their ends. */
static unsigned kept(const struct form *a, const struct form *b)
{
	return (a->flags | b->flags) & (FORM_EMPTY | FORM_AWAY);
}

static void range(struct form *ret, int64_t lo, int64_t hi, unsigned flags)
{
	form_range(ret, lo, hi);
	with_flags(ret, flags);
}

static void mul_ranges(struct form *ret, const struct form *a, const struct form *b)
{
	int64_t al = form_lo(a), ah = form_hi(a), bl = form_lo(b), bh = form_hi(b);
	int64_t lo = INT64_MAX, hi = INT64_MIN;

	if (!form_is_bounded(a) || !form_is_bounded(b)) {
		/* The product of what only grows does so, too. */
		range(ret, al >= 0 && bl >= 0 ? 0 : INT64_MIN, INT64_MAX, kept(a, b));
		return;
	}
	for (unsigned i = 0; i < 4; i++) {
		int64_t p;

		if (__builtin_mul_overflow(i & 1 ? ah : al, i & 2 ? bh : bl, &p)) {
			unknown(ret, kept(a, b));
			return;
		}
		lo = MIN(lo, p);
		hi = MAX(hi, p);
	}
	range(ret, lo, hi, kept(a, b));
}

void form_mul(struct form *ret, const struct form *a, const struct form *b)
{
	if (form_is_const(b))
		scale(ret, a, b->c);
	else if (form_is_const(a))
		scale(ret, b, a->c);
	else
		mul_ranges(ret, a, b);
}

static int64_t shifted(int64_t v, unsigned shift)
{
	return v == INT64_MIN || v == INT64_MAX ? v : v >> shift;
}

void form_shr(struct form *ret, const struct form *a, unsigned shift)
{
	if (!shift)
		copy(ret, a);
	else
		range(ret, shifted(form_lo(a), MIN(shift, 63u)),
		      shifted(form_hi(a), MIN(shift, 63u)), kept(a, a));
}

void form_div(struct form *ret, const struct form *a, const struct form *b)
{
	int64_t al = form_lo(a), ah = form_hi(a), bl = form_lo(b), bh = form_hi(b);

	if (bl <= 0) {
		unknown(ret, kept(a, b));
		return;
	}
	if (al != INT64_MIN)
		al /= al >= 0 ? bh : bl;
	if (ah != INT64_MAX)
		ah /= ah >= 0 ? bl : bh;
	range(ret, al, ah, kept(a, b));
}

void form_rem(struct form *ret, const struct form *a, const struct form *b)
{
	int64_t al = form_lo(a), ah = form_hi(a), bl = form_lo(b), bh = form_hi(b);

	if (bl <= 0)
		unknown(ret, kept(a, b));
	else if (al >= 0 && ah < bl)
		copy(ret, a);
	else
		range(ret, al >= 0 ? 0 : MAX(al, 1 - bh), ah <= 0 ? 0 : MIN(ah, bh - 1),
		      kept(a, b));
}

/* a & mask. */
static void mask(struct form *ret, const struct form *a, int64_t m)
{
	int64_t lo = form_lo(a), hi = form_hi(a);

	/* All of it is in the bits that stay. */
	if (m == -1 ||
	    (m >= 0 && lo >= 0 && hi <= m && !(((uint64_t)m + 1) & (uint64_t)m)))
		copy(ret, a);
	/* Bits below are cleared: it is rounded down. */
	else if (m < 0 && !(magnitude(m) & (magnitude(m) - 1)))
		range(ret, lo == INT64_MIN ? lo : lo & m, hi, kept(a, a));
	else if (m >= 0)
		range(ret, 0, lo >= 0 ? MIN(hi, m) : m, kept(a, a));
	else if (lo >= 0)
		range(ret, 0, hi, kept(a, a));
	else
		unknown(ret, kept(a, a));
}

void form_and(struct form *ret, const struct form *a, const struct form *b)
{
	if (are_const(a, b))
		form_const(ret, a->c & b->c);
	else if (form_is_const(b))
		mask(ret, a, b->c);
	else if (form_is_const(a))
		mask(ret, b, a->c);
	else if (form_lo(a) >= 0 && form_lo(b) >= 0)
		range(ret, 0, MIN(form_hi(a), form_hi(b)), kept(a, b));
	else if (form_lo(a) >= 0 || form_lo(b) >= 0)
		range(ret, 0, form_lo(a) >= 0 ? form_hi(a) : form_hi(b), kept(a, b));
	else
		unknown(ret, kept(a, b));
}

void form_or(struct form *ret, const struct form *a, const struct form *b)
{
	if (are_const(a, b))
		form_const(ret, a->c | b->c);
	/* No larger than the sum; compilers write it for a sum without carries. */
	else if (form_lo(a) >= 0 && form_lo(b) >= 0)
		form_add(ret, a, b);
	else
		unknown(ret, kept(a, b));
}

void form_xor(struct form *ret, const struct form *a, const struct form *b)
{
	int64_t hi = MAX(form_hi(a), form_hi(b));

	if (are_const(a, b))
		form_const(ret, a->c ^ b->c);
	else if (form_lo(a) < 0 || form_lo(b) < 0 || hi <= 0 || hi == INT64_MAX)
		unknown(ret, kept(a, b));
	else
		range(ret, 0, (int64_t)(UINT64_MAX >> __builtin_clzll((uint64_t)hi)),
		      kept(a, b));
}

void form_min(struct form *ret, const struct form *a, const struct form *b)
{
	if (form_hi(a) <= form_lo(b))
		copy(ret, a);
	else if (form_hi(b) <= form_lo(a))
		copy(ret, b);
	else
		range(ret, MIN(form_lo(a), form_lo(b)), MIN(form_hi(a), form_hi(b)),
		      kept(a, b));
}

void form_max(struct form *ret, const struct form *a, const struct form *b)
{
	if (form_lo(a) >= form_hi(b))
		copy(ret, a);
	else if (form_lo(b) >= form_hi(a))
		copy(ret, b);
	else
		range(ret, MAX(form_lo(a), form_lo(b)), MAX(form_hi(a), form_hi(b)),
		      kept(a, b));
}

void form_union(struct form *ret, const struct form *a, const struct form *b)
{
	int64_t lo = MIN(form_lo(a), form_lo(b)), hi = MAX(form_hi(a), form_hi(b));

	if (a->flags & FORM_EMPTY)
		copy(ret, b);
	else if (b->flags & FORM_EMPTY)
		copy(ret, a);
	else
		range(ret, lo, hi, kept(a, b));
}

void form_at_most(struct form *ret, const struct form *a, int64_t hi)
{
	if (form_hi(a) <= hi)
		copy(ret, a);
	else
		range(ret, form_lo(a), hi, kept(a, a));
}

void form_at_least(struct form *ret, const struct form *a, int64_t lo)
{
	if (form_lo(a) >= lo)
		copy(ret, a);
	else
		range(ret, lo, form_hi(a), kept(a, a));
}

void form_unsigned(struct form *ret, const struct form *a, unsigned bits)
{
	struct form more;

	if (form_lo(a) >= 0 || bits >= 64) {
		copy(ret, a);
	} else if (form_hi(a) >= 0) {
		/* Programs do not mean numbers that large. */
		form_at_least(ret, a, 0);
	} else {
		form_const(&more, (int64_t)1 << bits);
		form_add(ret, a, &more);
	}
}
