/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns for memory that does not fit. A tenant computes with all it needs on the device while
 * what the next one needs comes in, so nobody waits for the link as long as a turn takes longer
 * than that. Turns are in order of waiting, and of a length by weight; one lasts longer while the
 * next one's memory is still on its way, since nobody goes before it is there: kernels that read
 * host memory take so long that it could not come in beside them. Where there is no room for all
 * of that beside the one that goes, turns are as long as makes the rest a small part of them.
 *
 * One that leaves the device idle now and then, since its program takes longer to say what is to be
 * done, lets the next go beside it as soon as that one's memory is in. Then one less waits, and turns
 * last longer: nobody waits longer for it, and memory moves less often, in which one is alone again.
 */
#include "policies/sets.h"

/* Turn of the one with the least weight: 8 GiB take 0.2 s to come in, which costs who computes
 * meanwhile a tenth of its speed (H100). Longest turn. */
#define TURN_US    500000u
#define LONGEST_US 2000000u
/* Where two do not fit, what does not come in during the turn before comes when that has ended. A
 * turn lasts so many times as long as that takes, at 43 GB/s (H200, both ways at once). */
#define LATE_TIMES    20u
#define BYTES_IN_A_US 43000u
/* Per mille of its turn in which one has work on the device; with less, another goes beside it. */
#define BUSY 900u
/* In shorter turns than that, for somebody's latency, the device would do little else. */
#define SHORTEST_US 10000u
/* A turn in which not all the memory comes in, as where there is more than the device has. */
#define NEVER_IN_US (2 * LONGEST_US)
/* Nothing of the next one's memory has come in for so long: no more will. */
#define STILL_US 1000000u
/* One that had nothing to do for so long has had its turn: many programs compute something
 * themselves now and then, and the others' turns are long. */
#define IDLE_US 20000u
/* Sizes at which tenants stop to stay, and tenants whose place in the line is told. */
#define STAY_MAX 64u
/* Part of two sets that need not fit beside those that stay: so much comes in late. */
#define LATE_PART 32
#define LINE_MAX  8u

/* ---- who takes turns ---- */

/* Bytes of those that stay, and the two largest of those that take turns, how many these are,
 * and the priority of the most urgent. */
struct sums {
	uint64_t stay, first, second;
	uint32_t rotate, priority;
};

static struct sums sum(const struct sets *s, const struct time_tenant *t, uint32_t n)
{
	struct sums r = {0};

	for (uint32_t i = 0; i < n; i++) {
		uint64_t bytes = t[i].set;

		if (!sets_rotates(s, &t[i])) {
			r.stay = sets_add(r.stay, t[i].sessions ? bytes : 0);
			continue;
		}
		r.rotate++;
		if (t[i].priority > r.priority)
			r.priority = t[i].priority;
		if (bytes > r.first) {
			r.second = r.first;
			r.first = bytes;
		} else if (bytes > r.second) {
			r.second = bytes;
		}
	}
	return r;
}

/* Lets those stay, too, that come first among those that take turns. */
static struct sets more_stay(struct sets s, const struct time_tenant *t, uint32_t n)
{
	const struct time_tenant *best = NULL;

	for (uint32_t i = 0; i < n; i++) {
		if (!sets_rotates(&s, &t[i]))
			continue;
		if (!best || t[i].priority > best->priority ||
		    (t[i].priority == best->priority && t[i].set < best->set))
			best = &t[i];
	}
	if (!best)
		return s;
	s.some_stay = true;
	s.priority = best->priority;
	s.bytes = best->set;
	return s;
}

/* Room that the others are to have: for two of them, nearly, or, beside more urgent ones, and if
 * two never fit, for one. */
static uint64_t room_needed(const struct sums *is, uint64_t memory, bool urgent)
{
	uint64_t both = sets_add(is->first, is->second);

	if (is->first > memory)
		return memory / 2;
	return urgent || both > memory ? is->first : both - both / LATE_PART;
}

/* Whether there is that room beside those that stay. */
static bool leaves_room(const struct sets *s, uint64_t memory,
			const struct time_tenant *t, uint32_t n)
{
	const struct sums is = sum(s, t, n);
	bool urgent = is.rotate && s->priority > is.priority;

	return is.rotate && is.stay <= memory &&
	       memory - is.stay >= room_needed(&is, memory, urgent);
}

struct sets sets_divide(const struct time_device *d, const struct time_tenant *t,
			uint32_t n)
{
	struct sets s = {.turns = true}, more;
	const struct sums all = sum(&(struct sets){.turns = false}, t, n);

	if (!d->memory || all.stay <= d->memory)
		return (struct sets){.turns = false};
	for (unsigned i = 0; i < STAY_MAX; i++) {
		more = more_stay(s, t, n);
		if (!leaves_room(&more, d->memory, t, n))
			break;
		s = more;
	}
	return s;
}

uint64_t sets_room(const struct time_device *d, const struct time_tenant *one,
		   const struct time_tenant *t, uint32_t n)
{
	uint64_t fixed = 0;

	for (uint32_t i = 0; i < n; i++)
		fixed = sets_add(fixed, &t[i] == one ? 0 : t[i].fixed);
	return d->memory > fixed ? d->memory - fixed : 0;
}

/* ---- turns ---- */

static uint32_t weight(const struct time_tenant *t)
{
	return t->weight < 1                 ? 1
	       : t->weight > TIME_WEIGHT_MAX ? TIME_WEIGHT_MAX
					     : t->weight;
}

/* How many take turns and have work, their least and largest weight, how long a turn of the least
 * is to be, and how long one may be for nobody of them to wait longer than its latency; how long the
 * largest set takes to come in, and bytes of the next one's for which there is no room before a turn
 * has ended. */
struct bounds {
	uint32_t n, least, largest, turn_us, most_us, in_us;
	uint64_t late;
};

static uint32_t at_most(uint64_t us, uint64_t most)
{
	return (uint32_t)(us < most ? us : most);
}

/* Bounds by what moves: of the two largest. */
static void bound_moves(const struct sets *s, const struct time_device *d,
			const struct time_tenant *t, uint32_t n, struct bounds *b)
{
	uint64_t first = 0, second = 0, stay = 0, need;

	for (uint32_t i = 0; i < n; i++) {
		bool rotates = sets_rotates(s, &t[i]);
		uint64_t stays = rotates ? t[i].fixed : t[i].sessions ? t[i].set : 0;
		uint64_t moves =
			rotates && t[i].set > t[i].fixed ? t[i].set - t[i].fixed : 0;

		stay = sets_add(stay, stays);
		second = moves > first ? first : moves > second ? moves : second;
		first = moves > first ? moves : first;
	}
	need = sets_add(sets_add(first, second), stay);
	need = need > d->memory ? need - d->memory : 0;
	b->late = need < second ? need : second;
	b->in_us = at_most(first / BYTES_IN_A_US, UINT32_MAX);
}

static struct bounds bounds(const struct sets *s, const struct time_device *d,
			    const struct time_tenant *t, uint32_t n)
{
	struct bounds b = {
		.least = TIME_WEIGHT_MAX, .turn_us = TURN_US, .most_us = UINT32_MAX};
	uint32_t longer;

	bound_moves(s, d, t, n, &b);
	for (uint32_t i = 0; i < n; i++) {
		if (!sets_rotates(s, &t[i]) || !t[i].works)
			continue;
		b.n++;
		if (weight(&t[i]) < b.least)
			b.least = weight(&t[i]);
		if (weight(&t[i]) > b.largest)
			b.largest = weight(&t[i]);
		if (t[i].latency_us && t[i].latency_us < b.most_us)
			b.most_us = t[i].latency_us;
	}
	if (b.n > 1 && b.most_us != UINT32_MAX)
		b.most_us /= b.n - 1;
	if (b.most_us < SHORTEST_US)
		b.most_us = SHORTEST_US;
	/* Not so long that weights do not count. */
	longer = !b.n ? 0
		      : at_most((uint64_t)LONGEST_US * b.least / b.largest,
				b.late / BYTES_IN_A_US * LATE_TIMES);
	if (longer > TURN_US)
		b.turn_us = longer;
	return b;
}

/* Not while nobody has seen it. */
static bool leaves_idle(const struct time_tenant *t)
{
	return t->pending < BUSY;
}

static uint32_t turn_us(const struct time_tenant *t, const struct bounds *b)
{
	uint64_t us = (uint64_t)b->turn_us * weight(t) / b->least;

	us = us < b->turn_us ? b->turn_us : at_most(us, LONGEST_US);
	return at_most(us, b->most_us);
}

/* A turn of one with another beside it: who left waits for one turn less than if each went alone,
 * and for its memory. us: of one alone. */
static uint32_t beside_us(uint32_t us, const struct bounds *b)
{
	if (b->n <= 2 || us <= b->in_us)
		return us;
	return at_most(us + (us - b->in_us) / (b->n - 2), LONGEST_US);
}

/* The one whose turn it is: of those that go, but for `but`, the one that has gone longest; n:
 * nobody's. */
static uint32_t goes_longest(const struct sets *s, const struct time_tenant *t,
			     uint32_t n, uint32_t but)
{
	uint32_t one = n;

	for (uint32_t i = 0; i < n; i++) {
		if (i != but && sets_rotates(s, &t[i]) && t[i].goes &&
		    (one == n || t[i].for_us > t[one].for_us))
			one = i;
	}
	return one;
}

/* For how long the last turn has been over; this one may have begun before. */
static uint32_t since_last(const struct sets *s, const struct time_tenant *t, uint32_t n)
{
	uint32_t us = UINT32_MAX;

	for (uint32_t i = 0; i < n; i++) {
		if (sets_rotates(s, &t[i]) && !t[i].goes && t[i].for_us < us)
			us = t[i].for_us;
	}
	return us;
}

/* The first of those in line that have no place yet; n: nobody. */
static uint32_t first_in_line(const struct sets *s, const struct time_tenant *t,
			      uint32_t n, const struct time_turn *turn)
{
	uint32_t one = n;

	for (uint32_t i = 0; i < n; i++) {
		if (!sets_rotates(s, &t[i]) || !t[i].works || turn[i].go ||
		    turn[i].begins_us != TIME_NEVER)
			continue;
		if (one == n || sets_waited_longer(&t[i], &t[one]))
			one = i;
	}
	return one;
}

/* Whether the memory of one that is next, for so long, is on its way, but for so many bytes. */
static bool is_coming(const struct time_tenant *t, uint32_t next_for_us, uint64_t late)
{
	return t->out > late && at_most(t->still_us, next_for_us) < STILL_US;
}

/* A turn is counted from when all its memory is there: where a turn is shorter than what the link
 * takes for the next one's memory, each would be later than the one before. */
static bool goes_on(const struct time_tenant *t, const struct bounds *b,
		    const struct time_tenant *next, uint32_t since_us)
{
	uint32_t had = t->out ? 0 : at_most(at_most(t->for_us, t->in_us), since_us);
	uint32_t us = is_coming(next, t->for_us, b->late)
			      ? at_most(LONGEST_US, b->most_us)
			      : turn_us(t, b);

	if (t->idle_us >= IDLE_US || t->for_us >= NEVER_IN_US)
		return false;
	return had < (next->goes ? beside_us(us, b) : us);
}

/* Nobody that takes turns goes, or has one in sight; nor has one that does not compute, also
 * where the others fit: room is for those. */
static void begin_line(const struct sets *s, const struct time_device *d,
		       const struct time_tenant *t, uint32_t n,
		       struct time_turn *ret_turn)
{
	for (uint32_t i = 0; i < n; i++) {
		ret_turn[i].go = !sets_rotates(s, &t[i]);
		if (d->memory && (!ret_turn[i].go || !t[i].sessions))
			ret_turn[i].begins_us = TIME_NEVER;
	}
}

/* The first whose memory is in, but for those whose turn was last: theirs makes room. */
static uint32_t first_that_can(const struct sets *s, const struct time_tenant *t,
			       uint32_t n, uint32_t since_us)
{
	uint32_t one = n;

	for (uint32_t i = 0; i < n; i++) {
		if (!sets_rotates(s, &t[i]) || !t[i].works || t[i].out || t[i].goes ||
		    t[i].for_us <= since_us)
			continue;
		if (one == n || sets_waited_longer(&t[i], &t[one]))
			one = i;
	}
	return one;
}

/* Returns who goes, next being the first in line for so long: that one, or who can go while its
 * memory comes in; n: nobody. */
static uint32_t who_begins(const struct sets *s, const struct time_device *d,
			   const struct time_tenant *t, uint32_t n, uint32_t next,
			   uint32_t for_us)
{
	if (next == n || !is_coming(&t[next], for_us, 0) ||
	    t[next].set > sets_room(d, &t[next], t, n))
		return next;
	return first_that_can(s, t, n, for_us);
}

/* Returns whose turn it is now; n: nobody's. */
static uint32_t whose_turn(const struct sets *s, const struct time_device *d,
			   const struct time_tenant *t, uint32_t n,
			   const struct bounds *b, struct time_turn *turn)
{
	uint32_t one = goes_longest(s, t, n, n), next, since_us = since_last(s, t, n);

	if (one == n)
		return who_begins(s, d, t, n, first_in_line(s, t, n, turn), since_us);
	turn[one].go = true; /* and is not in line */
	next = goes_longest(s, t, n, one);
	if (next == n)
		next = first_in_line(s, t, n, turn);
	if (next == n || goes_on(&t[one], b, &t[next], since_us))
		return one;
	turn[one].go = false;
	return who_begins(s, d, t, n, next, t[one].for_us);
}

/* Returns who goes beside the one whose turn it is: who did so already, or else the next in line,
 * if all its memory is there; n: nobody, as when a turn begins. */
static uint32_t beside(const struct sets *s, const struct time_tenant *t, uint32_t n,
		       uint32_t one, const struct time_turn *turn)
{
	uint32_t other;

	if (one != goes_longest(s, t, n, n))
		return n;
	other = goes_longest(s, t, n, one);
	if (other == n && leaves_idle(&t[one]) && !t[one].out)
		other = first_in_line(s, t, n, turn);
	return other == n || t[other].out ? n : other;
}

static void line_up(const struct sets *s, const struct time_tenant *t, uint32_t n,
		    const struct bounds *b, uint32_t begins, struct time_turn *turn)
{
	for (unsigned k = 0; k < LINE_MAX; k++) {
		uint32_t next = first_in_line(s, t, n, turn);

		if (next == n)
			return;
		turn[next].begins_us = begins;
		turn[next].lasts_us = turn_us(&t[next], b);
		begins += turn[next].lasts_us;
	}
}

static void sets_turns(const struct time_device *d, const struct time_tenant *t,
		       uint32_t n, struct time_turn *ret_turn)
{
	const struct sets s = sets_divide(d, t, n);
	struct bounds b;
	uint32_t one, other, us, had;

	begin_line(&s, d, t, n, ret_turn);
	if (!s.turns)
		return;
	b = bounds(&s, d, t, n);
	one = whose_turn(&s, d, t, n, &b, ret_turn);
	if (one == n) {
		line_up(&s, t, n, &b, 0, ret_turn);
		return;
	}
	other = beside(&s, t, n, one, ret_turn);
	us = turn_us(&t[one], &b);
	us = other == n ? us : beside_us(us, &b);
	had = at_most(t[one].for_us, since_last(&s, t, n));
	us -= t[one].goes ? at_most(had, us - 1) : 0;
	ret_turn[one] = (struct time_turn){.go = true, .lasts_us = us};
	if (other != n) {
		us += beside_us(turn_us(&t[other], &b), &b);
		ret_turn[other] = (struct time_turn){.go = true, .lasts_us = us};
	}
	line_up(&s, t, n, &b, us, ret_turn);
}

const struct time_policy time_sets = {TIME_ABI, "sets", sets_slices, sets_turns, true};
