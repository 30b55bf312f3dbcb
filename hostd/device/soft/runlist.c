/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: futex mmap munmap getrandom */
#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "device/soft/runlist.h"

/* Between two looks of who waits. */
#define WAIT_NS (5 * NSEC_PER_MSEC)

int soft_turn_init(struct soft_turn *t, int fd, bool shared)
{
	void *p;

	*t = (struct soft_turn){.index = RUNLIST_ENTRIES, .shared = shared};
	if (fd < 0)
		return 0;
	if (getrandom(&t->number, sizeof(t->number), 0) != sizeof(t->number))
		return -EIO;
	t->number |= 1;
	p = mmap(NULL, sizeof(*t->list), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	t->list = p;
	t->faults = atomic_load(&t->list->faults);
	return 0;
}

void soft_turn_fini(struct soft_turn *t)
{
	if (!t->list)
		return;
	soft_turn_leave(t, clock_now_ns());
	if (t->index < RUNLIST_ENTRIES) {
		uint64_t mine = t->number;

		atomic_compare_exchange_strong(&t->list->entries[t->index].owner, &mine,
					       0);
	}
	munmap(t->list, sizeof(*t->list));
	t->list = NULL;
}

/* ---- entries ---- */

static struct runlist_entry *own(const struct soft_turn *t)
{
	return &t->list->entries[t->index];
}

static uint32_t count(const struct runlist *l)
{
	return MIN(MAX(atomic_load(&l->n), 1u), RUNLIST_ENTRIES);
}

static bool has_entry(const struct soft_turn *t)
{
	return t->index < RUNLIST_ENTRIES && atomic_load(&own(t)->owner) == t->number;
}

/* Whether its owner has gone, or has had nothing to do: then that one takes another. */
static bool is_unused(const struct runlist_entry *e, uint64_t now_ns)
{
	uint64_t seen = atomic_load(&e->seen_ns);

	/* Others' clocks may have been read a moment later. */
	return seen >= now_ns + RUNLIST_FRESH_NS || now_ns >= seen + RUNLIST_UNUSED_NS;
}

static bool claim(struct soft_turn *t, uint32_t i, uint64_t now_ns)
{
	struct runlist_entry *e = &t->list->entries[i];
	uint64_t owner = atomic_load(&e->owner);

	if (owner && !is_unused(e, now_ns))
		return false;
	if (!atomic_compare_exchange_strong(&e->owner, &owner, t->number))
		return false;
	atomic_store(&e->has_work, 0);
	atomic_store(&e->debt_ns, 0);
	atomic_store(&e->shared, t->shared);
	return true;
}

/* Returns false if all entries are others'. */
static bool find_entry(struct soft_turn *t, uint64_t now_ns)
{
	uint32_t n = atomic_load(&t->list->n);

	if (!has_entry(t)) {
		t->index = 0;
		while (t->index < RUNLIST_ENTRIES && !claim(t, t->index, now_ns))
			t->index++;
	}
	while (n <= t->index && t->index < RUNLIST_ENTRIES &&
	       !atomic_compare_exchange_weak(&t->list->n, &n, t->index + 1))
		;
	return t->index < RUNLIST_ENTRIES;
}

/* A time that is far ahead was never written by a process in its right mind. */
static bool wants(const struct runlist_entry *e, uint64_t now_ns)
{
	uint64_t seen = atomic_load(&e->seen_ns);

	return atomic_load(&e->owner) && atomic_load(&e->has_work) &&
	       seen < now_ns + RUNLIST_FRESH_NS && now_ns < seen + RUNLIST_FRESH_NS;
}

/* When the slice ends; one that is too long has ended. */
static uint64_t until(const struct runlist *l, uint64_t now_ns)
{
	uint64_t ns = atomic_load(&l->until_ns);

	return ns > now_ns + RUNLIST_MOST_NS ? 0 : ns;
}

static uint64_t slice_ns(const struct runlist_entry *e)
{
	uint64_t us = atomic_load(&e->slice_us);

	return MIN((us ? us : RUNLIST_SLICE_US) * NSEC_PER_USEC, RUNLIST_MOST_NS);
}

/* ---- processes that are shared ---- */

/* Whether this process has the device with the one at that index. */
static bool is_with(const struct soft_turn *t, uint32_t i)
{
	return i == t->index || (t->shared && i < RUNLIST_ENTRIES &&
				 atomic_load(&t->list->entries[i].shared));
}

/* The one in whose place all of them have their turn; RUNLIST_ENTRIES: none has work. */
static uint32_t first_shared(struct runlist *l, uint64_t now_ns)
{
	uint32_t all = count(l);

	for (uint32_t i = 0; i < all; i++) {
		if (atomic_load(&l->entries[i].shared) && wants(&l->entries[i], now_ns))
			return i;
	}
	return RUNLIST_ENTRIES;
}

void soft_turn_fault(const struct soft_turn *t, uint32_t error)
{
	if (!t->list || !t->shared)
		return;
	atomic_store(&t->list->fault, error);
	atomic_fetch_add(&t->list->faults, 1);
}

uint32_t soft_turn_faulted(const struct soft_turn *t)
{
	if (!t->list || !t->shared || atomic_load(&t->list->faults) == t->faults)
		return 0;
	return atomic_load(&t->list->fault);
}

/* ---- turns ---- */

static void wake_one(struct runlist_entry *e)
{
	atomic_fetch_add(&e->word, 1);
	/* Not a private one: other processes have it mapped elsewhere. */
	syscall(SYS_futex, &e->word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void wake(struct runlist *l, struct runlist_entry *e, uint64_t now_ns)
{
	uint32_t all = count(l);

	wake_one(e);
	for (uint32_t i = 0; i < all && atomic_load(&e->shared); i++) {
		struct runlist_entry *with = &l->entries[i];

		if (with != e && atomic_load(&with->shared) && wants(with, now_ns))
			wake_one(with);
	}
}

/* Notes what this process had beyond its slice, which is over. */
static void account(struct soft_turn *t, struct runlist_entry *e, uint64_t now_ns)
{
	uint64_t over = now_ns - MIN(until(t->list, now_ns), now_ns);
	uint64_t debt = MIN(atomic_load(&e->debt_ns), RUNLIST_MOST_NS);

	atomic_store(&e->debt_ns, MIN(debt + over, RUNLIST_MOST_NS));
}

/* Rounds in which it is passed over for what it had before. */
static uint64_t rounds(const struct runlist_entry *e)
{
	return atomic_load(&e->debt_ns) / slice_ns(e);
}

/* Takes off what an entry has had in the rounds before the one at `to` has its turn: those
 * between `from` and that are passed over once more. */
static void take_off(struct runlist *l, uint32_t from, uint32_t to, uint64_t most,
		     uint64_t now_ns)
{
	uint32_t all = count(l);
	bool before = true;

	for (uint32_t n = 1; n <= all; n++) {
		uint32_t i = (from + n) % all;
		struct runlist_entry *e = &l->entries[i];
		uint64_t debt = atomic_load(&e->debt_ns);

		if (i == to)
			before = false;
		if (debt && wants(e, now_ns))
			atomic_store(&e->debt_ns,
				     debt - MIN(debt, slice_ns(e) * (most + before)));
	}
}

/* The next with work in the order of the list, the one at `from` last. Returns its index;
 * RUNLIST_ENTRIES: nobody has. */
static uint32_t next(struct runlist *l, uint32_t from, uint64_t now_ns)
{
	uint32_t first = RUNLIST_ENTRIES, all = count(l),
		 shared = first_shared(l, now_ns);
	uint64_t least = UINT64_MAX;

	for (uint32_t n = 1; n <= all; n++) {
		uint32_t i = (from + n) % all;

		if (!wants(&l->entries[i], now_ns) || rounds(&l->entries[i]) >= least ||
		    (atomic_load(&l->entries[i].shared) && i != shared))
			continue;
		least = rounds(&l->entries[i]);
		first = i;
		if (!least)
			break;
	}
	if (first < RUNLIST_ENTRIES)
		take_off(l, from, first, least, now_ns);
	return first;
}

static void give(struct runlist *l, uint32_t i, uint64_t now_ns)
{
	struct runlist_entry *e = &l->entries[i];
	uint64_t slice = slice_ns(e), debt = MIN(atomic_load(&e->debt_ns), slice);

	atomic_store(&e->debt_ns, 0);
	atomic_store(&l->until_ns, now_ns + slice - debt);
	atomic_store(&l->current, i + 1);
	wake(l, e, now_ns);
}

static void begin(struct soft_turn *t, uint64_t now_ns)
{
	if (!t->since_ns)
		t->since_ns = now_ns;
}

static void end(struct soft_turn *t, uint64_t now_ns)
{
	if (t->since_ns)
		t->had_ns += now_ns - MIN(t->since_ns, now_ns);
	t->since_ns = 0;
}

/* Gives the device to the next, who may be this process again, or one that it is with.
 * Returns whether it is. */
static bool pass(struct soft_turn *t, uint64_t now_ns)
{
	uint32_t i = next(t->list, t->index, now_ns);

	if (i == RUNLIST_ENTRIES) {
		atomic_store(&t->list->current, 0);
		return false;
	}
	give(t->list, i, now_ns);
	return is_with(t, i);
}

/* Takes the device from nobody, or from one that has not been heard of. */
static bool seize(struct soft_turn *t, uint32_t current, uint64_t now_ns)
{
	struct runlist *l = t->list;

	if (current && current <= RUNLIST_ENTRIES &&
	    wants(&l->entries[current - 1], now_ns) &&
	    now_ns < until(l, now_ns) + RUNLIST_GRACE_NS)
		return false;
	if (!atomic_compare_exchange_strong(&l->current, &current, t->index + 1))
		return false;
	/* Nobody else had work: nobody is owed anything. */
	atomic_store(&own(t)->debt_ns, 0);
	atomic_store(&l->until_ns, now_ns + slice_ns(own(t)));
	return true;
}

bool soft_turn_take(struct soft_turn *t, uint64_t now_ns)
{
	struct runlist_entry *e;
	uint32_t current;
	bool mine;

	if (!t->list) {
		begin(t, now_ns);
		return true;
	}
	if (!find_entry(t, now_ns))
		return true;
	e = own(t);
	atomic_store(&e->slice_us, t->slice_us);
	atomic_store(&e->seen_ns, now_ns);
	atomic_store(&e->has_work, 1);
	current = atomic_load(&t->list->current);
	if (current && is_with(t, current - 1) && now_ns < until(t->list, now_ns)) {
		mine = true;
	} else if (current != t->index + 1) {
		mine = seize(t, current, now_ns);
	} else {
		account(t, e, now_ns);
		mine = pass(t, now_ns);
	}
	if (mine)
		begin(t, now_ns);
	else
		end(t, now_ns);
	return mine;
}

void soft_turn_yield(struct soft_turn *t, uint64_t now_ns)
{
	if (!t->list || !has_entry(t) || atomic_load(&t->list->current) != t->index + 1)
		return;
	account(t, own(t), now_ns);
	if (!pass(t, now_ns))
		end(t, now_ns);
}

void soft_turn_leave(struct soft_turn *t, uint64_t now_ns)
{
	end(t, now_ns);
	if (!t->list || !has_entry(t))
		return;
	atomic_store(&own(t)->has_work, 0);
	if (atomic_load(&t->list->current) != t->index + 1)
		return;
	account(t, own(t), now_ns);
	(void)pass(t, now_ns);
}

void soft_turn_slice(struct soft_turn *t, uint32_t us)
{
	t->slice_us = us;
}

struct soft_turn_word soft_turn_word(const struct soft_turn *t)
{
	struct soft_turn_word w = {NULL, 0};

	if (t->list && t->index < RUNLIST_ENTRIES)
		w = (struct soft_turn_word){&own(t)->word, atomic_load(&own(t)->word)};
	return w;
}

void soft_turn_wait(struct soft_turn_word w)
{
	const struct timespec most = {.tv_nsec = WAIT_NS};

	if (w.at)
		syscall(SYS_futex, w.at, FUTEX_WAIT, w.was, &most, NULL, 0);
}

uint64_t soft_turn_had_ns(const struct soft_turn *t, uint64_t now_ns)
{
	return t->had_ns + (t->since_ns ? now_ns - MIN(t->since_ns, now_ns) : 0);
}
