/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: managed memory that moves
 *
 * Each piece of an allocation is the host's (the window's memory is mapped here, and kernels
 * read it over the bus) or the device's (its pages are closed here). This process says which:
 * a launch takes to the device what its parameters name, a thread that touches a closed page
 * has its piece brought back, and more of those behind it if they are touched in order.
 * Kernels run wherever a piece is, so whatever is guessed wrong costs time alone.
 *
 * A piece moves under the lock, which is never held while memory of the program's is touched:
 * not by a signal handler of its own either.
 *
 * What the program only reads it is lent: a copy of what is the device's, until the process's next
 * command, after which it might be an old one.
 *
 * Where kernels have atomics of system scope, and the bus has none, memory is never both sides' at
 * once: the program has what it touches while kernels stand still, for a moment, and then they have
 * it back.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "calls.h"
#include "core/pages.h"
#include "core/process.h"
#include "core/thread.h"
#include "object/enter.h"
#include "object/extent.h"
#include "object/hostmem.h"
#include "object/managed.h"

/* Pieces that are brought back at a time, if they are touched in order. */
#define RUN_MAX 8u
/* For so long a launch, a touch and prefetching wait for the kernels before it to end: these may
 * wait for what the program is to do next. */
#define LAUNCH_WAIT_US   5000u
#define TOUCH_WAIT_US    5000u
#define PREFETCH_WAIT_US 20000u
/* After one that waited in vain, or did not get all that it named to the device, for as long none
 * tries again; twice as long each time in a row. */
#define PAUSE_NS     (100 * NSEC_PER_MSEC)
#define PAUSE_MAX_NS (10 * NSEC_PER_SEC)
/* Memory that a kernel and the program use at once, and small allocations' pages that are touched
 * within so long of having moved, stay on the host for some launches, each time for twice as many
 * and one. To move to and fro takes 1.5 ms (H200). */
#define SOON_NS  (15 * NSEC_PER_MSEC)
#define SKIP_MAX 1024u
/* After the second time, small allocations' pages move with so many launches in a row that name
 * them, if the program has touched none of them in between. */
#define SHARED_LAUNCHES 4u

/* For so long after a touch kernels stand still, and at most. To let them do so and have them go on
 * takes as long (H200). An instruction may touch two pieces, so more than one is the program's. */
#define HELD_NS     (2 * NSEC_PER_MSEC)
#define HELD_MAX_NS (20 * NSEC_PER_MSEC)

/* Bytes that a read is lent, from a piece so many times between two commands: each takes half as long
 * as a piece to come back. */
#define LENT_SIZE  ((size_t)64 << 10)
#define LENT_TIMES 2u
#define LENT_MAX   32u

struct pause {
	uint64_t until_ns, ns;
};

/* Whether the program touches them while kernels use them. */
struct watch {
	bool closed; /* small allocations' pages, to see that; the host's all the same */
	unsigned launches; /* since it was closed */
	unsigned skip, skips_left;
	uint64_t last;     /* launch that was counted: one may name several of them */
	uint64_t moved_ns; /* to the device */
	uint64_t talked;   /* launches, when program and kernel used it at once */
};

struct managed_mem {
	struct list link;
	uintptr_t base;
	size_t size, piece;
	uint64_t offset; /* in the window's file */
	bool shared;     /* by small allocations (hostmem_small.c): it has one piece */
	struct watch watch;
	unsigned stays; /* allocations that are to */
	unsigned reads; /* that are read mostly */
	bool lent;      /* since it last came back */
	unsigned skip, skips_left; /* touches for which nothing is lent */
	struct pause no_room;
	unsigned n, n_host; /* pieces, and those that are the host's */
	unsigned next, run; /* where a touch is in order, and pieces of the last one */
	unsigned held, held_end; /* among these are those that kernels are to have back */
	unsigned char of[];      /* enum whose */
};

/* Sides that may use a piece. */
enum whose {
	PROGRAM_AND_KERNELS, /* the host's, open */
	DEVICE,              /* closed */
	KERNELS, /* the host's and closed: there was no room for it, or no quiet */
};

_Atomic unsigned managed_moving, managed_waiting;
const struct managed_carrier *managed_carrier;

pthread_mutex_t managed_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all = {&all, &all};
static struct guest_thread *server; /* whose lane brings pieces back */
static struct pause busy;           /* the device was not quiet in time */
static uint64_t launches;           /* that had their names looked at */
static bool exclusive = true;       /* there may be atomics of system scope */

/* Kernels stand still, since and until when; 0: they do not. */
static struct {
	uint64_t since_ns, until_ns;
} held;

/* Copies that the program reads, each of a part of one piece. */
static struct lent {
	uintptr_t at;
	size_t size;
} lent[LENT_MAX];
static unsigned n_lent;
static __thread bool holds; /* the lock */

void managed_enter(sigset_t *ret_old)
{
	sigset_t all_signals;

	sigfillset(&all_signals);
	pthread_sigmask(SIG_SETMASK, &all_signals, ret_old);
	pthread_mutex_lock(&managed_lock);
	holds = true;
}

void managed_leave(const sigset_t *old)
{
	holds = false;
	pthread_mutex_unlock(&managed_lock);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static bool pauses(const struct pause *p)
{
	return p->ns && clock_now_ns() < p->until_ns;
}

/* Notes whether a try was in vain. */
static void tried(struct pause *p, bool in_vain)
{
	p->ns = in_vain ? MIN(MAX(2 * p->ns, PAUSE_NS), PAUSE_MAX_NS) : 0;
	p->until_ns = clock_now_ns() + p->ns;
}

static uintptr_t piece_at(const struct managed_mem *m, unsigned i)
{
	return m->base + i * m->piece;
}

/* Bytes of pieces i to end - 1. */
static size_t bytes_of(const struct managed_mem *m, unsigned i, unsigned end)
{
	return (end == m->n ? m->size : end * m->piece) - i * m->piece;
}

static bool waits(const struct managed_mem *m)
{
	return m->n_host && !m->stays;
}

static bool is_on_device(const struct managed_mem *m, unsigned i)
{
	return m->of[i] == DEVICE;
}

/* Notes whose pieces i to end - 1 are. */
static void set_locked(struct managed_mem *m, unsigned i, unsigned end, enum whose of)
{
	bool did = waits(m);

	for (; i < end; i++) {
		m->n_host += is_on_device(m, i);
		m->of[i] = (unsigned char)of;
		m->n_host -= is_on_device(m, i);
	}
	atomic_fetch_add(&managed_waiting, (unsigned)waits(m) - (unsigned)did);
}

static int open_pieces(struct managed_mem *m, unsigned i, unsigned end)
{
	return pages_open(piece_at(m, i), bytes_of(m, i, end), m->offset + i * m->piece);
}

/* First piece from i on, before end, that is (not) on the device; end: there is none. */
static unsigned first_that(const struct managed_mem *m, unsigned i, unsigned end,
			   bool on_device)
{
	while (i < end && is_on_device(m, i) != on_device)
		i++;
	return i;
}

/* First piece from i on, before end, that is (not) open. */
static unsigned first_open(const struct managed_mem *m, unsigned i, unsigned end,
			   bool open)
{
	while (i < end && (m->of[i] == PROGRAM_AND_KERNELS) != open)
		i++;
	return i;
}

/* Closes those of pieces i to end - 1 that are open. False: some may be missing. */
static bool close_pieces(const struct managed_mem *m, unsigned i, unsigned end)
{
	unsigned last;

	for (i = first_open(m, i, end, true); i < end && !m->watch.closed;
	     i = first_open(m, last, end, true)) {
		last = first_open(m, i, end, false);
		if (pages_close(piece_at(m, i), bytes_of(m, i, last)) < 0)
			return false;
	}
	return true;
}

/* Has the host move pieces i to end - 1. */
static CUresult move_locked(struct guest_thread *t, const struct managed_mem *m,
			    unsigned i, unsigned end, bool to_device, uint32_t wait_us,
			    struct managed_move_rep *ret)
{
	CUresult r = call_managed_move(t, piece_at(m, i), bytes_of(m, i, end), to_device,
				       wait_us, exclusive, ret);

	if (r == CUDA_SUCCESS)
		exclusive = ret->system_atomics;
	return r;
}

/* Kernels stand still, from now on or for longer. */
static void stand_still_locked(void)
{
	uint64_t now_ns = clock_now_ns();

	if (!held.until_ns)
		held.since_ns = now_ns;
	held.until_ns = MIN(now_ns + HELD_NS, held.since_ns + HELD_MAX_NS);
}

/* Kernels do so for the program to have pieces i to end - 1 as well. */
static void hold_locked(struct managed_mem *m, unsigned i, unsigned end)
{
	m->held = m->held == m->held_end ? i : MIN(m->held, i);
	m->held_end = MAX(m->held_end, end);
	stand_still_locked();
}

/* ---- to the device ---- */

/* Pieces that are closed and do not move are kernels' alone, or both sides'. */
static void leave_locked(struct managed_mem *m, unsigned i, unsigned end, bool to_kernels)
{
	set_locked(m, i, end, to_kernels ? KERNELS : PROGRAM_AND_KERNELS);
	if (!to_kernels)
		open_pieces(m, i, end);
}

/* Returns how many of the host's pieces i to end - 1 are the device's now, from i on. */
static CUresult take_locked(struct guest_thread *t, struct managed_mem *m, unsigned i,
			    unsigned end, uint32_t wait_us, unsigned *ret_n)
{
	struct managed_move_rep rep = {0};
	size_t size = bytes_of(m, i, end);
	unsigned n = 0;
	CUresult r;

	*ret_n = 0;
	if (!close_pieces(m, i, end)) {
		set_locked(m, i, end, PROGRAM_AND_KERNELS);
		open_pieces(m, i, end);
		return CUDA_SUCCESS;
	}
	r = move_locked(t, m, i, end, true, wait_us, &rep);
	if (rep.still)
		stand_still_locked();
	tried(&busy, r == CUDA_ERROR_NOT_READY);
	if (r == CUDA_SUCCESS)
		n = rep.moved >= size ? end - i : (unsigned)(rep.moved / m->piece);
	set_locked(m, i, i + n, DEVICE);
	if (i + n < end)
		leave_locked(m, i + n, end,
			     exclusive &&
				     (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY));
	m->watch.closed = false;
	*ret_n = n;
	return r == CUDA_ERROR_NOT_READY || r == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS
									  : r;
}

/* All of the host's among pieces i to end - 1, without asking for room. */
static void give_kernels_locked(struct managed_mem *m, unsigned i, unsigned end)
{
	bool closed = close_pieces(m, i, end);
	unsigned last;

	for (i = first_that(m, i, end, false); i < end;
	     i = first_that(m, last, end, false)) {
		last = first_that(m, i, end, true);
		leave_locked(m, i, last, closed);
	}
	m->watch.closed = false;
}

/* All of the host's among pieces i to end - 1, until there is no room or no quiet. */
static CUresult take_all_locked(struct guest_thread *t, struct managed_mem *m, unsigned i,
				unsigned end, uint32_t wait_us)
{
	CUresult r = CUDA_SUCCESS;
	bool all = true;
	unsigned last, n;

	if (pauses(&busy) || pauses(&m->no_room)) {
		if (exclusive)
			give_kernels_locked(m, i, end);
		return CUDA_SUCCESS;
	}
	for (i = first_that(m, i, end, false); i < end && all && r == CUDA_SUCCESS;
	     i = first_that(m, last, end, false)) {
		last = first_that(m, i, end, true);
		r = take_locked(t, m, i, last, wait_us, &n);
		all = n == last - i;
	}
	if (!busy.ns)
		tried(&m->no_room, !all);
	return r;
}

/* Gives kernels back what the program had while they stood still, and has them go on. On the
 * server's lane: others may have launches that wait for just that. */
static void hand_back_locked(void)
{
	struct managed_move_rep rep = {0};
	struct managed_mem *m;
	unsigned last, n;

	if (!held.until_ns)
		return;
	list_for_each (m, &all, link) {
		for (unsigned i = first_that(m, m->held, m->held_end, false);
		     i < m->held_end; i = first_that(m, last, m->held_end, false)) {
			last = first_that(m, i, m->held_end, true);
			take_locked(server, m, i, last, 0, &n);
		}
		m->held = m->held_end = 0;
	}
	held.until_ns = 0;
	m = list_entry(all.next, struct managed_mem, link); /* which stays where it is */
	call_managed_move(server, m->base, bytes_of(m, 0, 1), is_on_device(m, 0), 0, 0,
			  &rep);
}

static struct managed_mem *find_locked(uint64_t addr)
{
	struct managed_mem *m;

	list_for_each (m, &all, link) {
		if (addr - m->base < m->size)
			return m;
	}
	return NULL;
}

/* ---- pages of small allocations ---- */

static void look_away(struct managed_mem *m)
{
	struct watch *w = &m->watch;

	w->skips_left = w->skip;
	w->skip = MIN(2 * w->skip + 1, SKIP_MAX);
}

static bool is_untouched_locked(struct managed_mem *m)
{
	struct watch *w = &m->watch;

	if (!w->closed) {
		w->launches = 0;
		w->closed = pages_close(m->base, m->size) == 0;
		if (!w->closed) /* something may be missing */
			open_pieces(m, 0, m->n);
	}
	return w->closed && ++w->launches >= SHARED_LAUNCHES;
}

/* Whether a launch that names it is to take it to the device. */
static bool is_due_locked(struct managed_mem *m)
{
	struct watch *w = &m->watch;

	if (w->last == launches)
		return false;
	w->last = launches;
	if (exclusive)
		w->skip = w->skips_left = 0;
	if (w->skips_left) {
		w->skips_left--;
		return false;
	}
	return !m->shared || w->skip <= 1 || is_untouched_locked(m);
}

/* The program has touched what is the host's. */
static void shared_touched_locked(struct managed_mem *m)
{
	m->watch.closed = false;
	open_pieces(m, 0, m->n);
	look_away(m);
}

/* The program has touched what was the device's, and no kernel worked on it. */
static void quiet_back_locked(struct managed_mem *m)
{
	if (m->shared && clock_now_ns() - m->watch.moved_ns < SOON_NS)
		look_away(m);
	else
		m->watch.skip = m->watch.skips_left = 0;
}

/* A kernel worked on it, which stood still meanwhile, and may use it on. */
static void talking_back_locked(struct managed_mem *m)
{
	struct watch *w = &m->watch;

	if (w->talked != launches || !w->skip)
		look_away(m);
	w->talked = launches;
}

static bool is_talking(const struct managed_mem *m)
{
	return (m->watch.skip || exclusive) && m->watch.talked == launches;
}

void managed_named(struct guest_thread *t, const uint64_t *words, size_t n)
{
	sigset_t old;

	managed_enter(&old);
	hand_back_locked();
	launches++;
	for (size_t i = 0; i < n; i++) {
		struct managed_mem *m = NULL;

		if (words[i] - guest_process.band_base < guest_process.band_size)
			m = find_locked(words[i]);
		if (m && waits(m) && is_due_locked(m)) {
			take_all_locked(t, m, 0, m->n, LAUNCH_WAIT_US);
			m->watch.moved_ns = clock_now_ns();
		}
	}
	hand_back_locked();
	managed_leave(&old);
}

static void note_locked(struct managed_names *names, uint64_t word)
{
	const struct managed_mem *m = NULL;

	if (word - guest_process.band_base < guest_process.band_size)
		m = find_locked(word);
	for (unsigned i = 0; m && i < names->n; i++) {
		if (names->base[i] == m->base)
			return;
	}
	if (m && names->n < ARRAY_SIZE(names->base))
		names->base[names->n++] = m->base;
}

void managed_note(struct managed_names *names, const void *params, size_t bytes)
{
	sigset_t old;
	const char *p = params;
	uint64_t word;

	if (likely(!atomic_load_explicit(&managed_moving, memory_order_relaxed)))
		return;
	managed_enter(&old);
	for (size_t at = 0; at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, p + at, sizeof(word));
		note_locked(names, word);
	}
	managed_leave(&old);
}

/* ---- lent ---- */

static void take_back_locked(void)
{
	while (n_lent) {
		n_lent--;
		pages_take_back(lent[n_lent].at, lent[n_lent].size);
	}
	atomic_store(&pages_lent, false);
}

/* The thread says a command, or has said one. */
static void on_command(void)
{
	sigset_t old;

	if (holds) /* and what it says are moves */
		return;
	managed_enter(&old);
	take_back_locked();
	managed_leave(&old);
}

static bool is_lent(uintptr_t addr)
{
	for (unsigned i = 0; i < n_lent; i++) {
		if (addr - lent[i].at < lent[i].size)
			return true;
	}
	return false;
}

/* Bytes to lend from addr on, of piece i of m; 0: it is to come back. */
static size_t lends(struct managed_mem *m, unsigned i, uintptr_t addr)
{
	size_t most = piece_at(m, i) + bytes_of(m, i, i + 1) - addr, size = LENT_SIZE;
	unsigned times = 0;

	for (unsigned k = 0; k < n_lent; k++) {
		const struct lent *l = &lent[k];

		times += l->at - piece_at(m, i) < m->piece;
		if (l->at + l->size == addr)
			size = m->reads ? 2 * l->size : 0;
		else if (l->at > addr)
			most = MIN(most, l->at - addr);
	}
	return times >= LENT_TIMES && !m->reads ? 0 : MIN(size, most);
}

/* Whether a read of piece i of m is lent anything, and not brought back. */
static bool may_lend(struct managed_mem *m, unsigned i)
{
	if (!pages_can_lend() || m->shared || n_lent == LENT_MAX || held.until_ns ||
	    is_talking(m) || (i == m->next && !m->reads))
		return false;
	if (m->skips_left && !m->reads) {
		m->skips_left--;
		return false;
	}
	return true;
}

/* Lends the program what it reads of piece i at addr. NOT_SUPPORTED: it is to come back. */
static CUresult lend_locked(struct managed_mem *m, unsigned i, uintptr_t addr)
{
	uintptr_t at = ALIGN_DOWN(addr, LENT_SIZE);
	size_t size = may_lend(m, i) ? lends(m, i, at) : 0;
	CUresult r;

	if (!size)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* Before: who says a command meanwhile takes it back. */
	atomic_store(&pages_lent, true);
	r = call_managed_duplicate(server, at, size, TOUCH_WAIT_US);
	if (r == CUDA_SUCCESS && pages_lend(at, size, m->offset + (at - m->base)) < 0)
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (r == CUDA_SUCCESS) {
		lent[n_lent++] = (struct lent){at, size};
		if (m->lent) /* before, and it has not come back */
			m->skip = 0;
		m->lent = true;
	}
	atomic_store(&pages_lent, n_lent > 0);
	return r;
}

/* Pieces that come back were lent in vain, if not for want of a quiet moment alone. */
static void back_after_lent(struct managed_mem *m, bool busy_device)
{
	bool in_vain = m->lent && !busy_device;

	m->lent = false;
	if (!in_vain)
		return;
	m->skips_left = m->skip;
	m->skip = MIN(2 * m->skip + 1, SKIP_MAX);
}

/* ---- back ---- */

/* Brings pieces i to end - 1, all of the device's, back; wait_us 0: from under the kernels that work
 * on it, if need be; else NOT_READY: there are some. Memory that cannot be had while the session
 * works is nothing that anybody may see: who touches it gets its SIGSEGV. */
static CUresult bring_locked(struct guest_thread *t, struct managed_mem *m, unsigned i,
			     unsigned end, uint32_t wait_us)
{
	struct managed_move_rep rep = {0};
	size_t size = bytes_of(m, i, end);
	CUresult r;

	take_back_locked();
	r = move_locked(t, m, i, end, false, wait_us, &rep);
	if (r == CUDA_ERROR_NOT_READY)
		return r;
	if (rep.still)
		hold_locked(m, i, end);
	if ((r == CUDA_SUCCESS && rep.moved >= size) || guest_status() != CUDA_SUCCESS) {
		set_locked(m, i, end, PROGRAM_AND_KERNELS);
		if (open_pieces(m, i, end) == 0)
			return r;
	}
	log_warning("managed memory cannot be brought back (%d)", (int)r);
	pages_end(piece_at(m, i), size);
	return r ? r : CUDA_ERROR_UNKNOWN;
}

/* All of the device's among pieces i to end - 1, unless it works on: touching them brings them
 * back. */
static CUresult bring_all_locked(struct guest_thread *t, struct managed_mem *m,
				 unsigned i, unsigned end)
{
	CUresult r = CUDA_SUCCESS;
	unsigned last;

	for (i = first_that(m, i, end, true);
	     i < end && r == CUDA_SUCCESS && !pauses(&busy);
	     i = first_that(m, last, end, true)) {
		last = first_that(m, i, end, false);
		r = bring_locked(t, m, i, last, PREFETCH_WAIT_US);
	}
	if (r == CUDA_ERROR_NOT_READY) {
		tried(&busy, true);
		r = CUDA_SUCCESS;
	}
	return r;
}

/* Back from kernels that do not end soon: one may be waiting for the program. */
static void bring_from_kernels_locked(struct managed_mem *m, unsigned i, unsigned end)
{
	talking_back_locked(m);
	bring_locked(server, m, i, end, 0);
}

static void touched_locked(struct managed_mem *m, uintptr_t addr, bool writes)
{
	unsigned i = (unsigned)((addr - m->base) / m->piece), end;
	bool open = m->of[i] == PROGRAM_AND_KERNELS;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (open && m->watch.closed) {
		shared_touched_locked(m);
		return;
	}
	/* Somebody else has touched it as well. */
	if (open || (is_lent(addr) && !writes)) {
		pages_wake(addr);
		return;
	}
	if (m->of[i] == DEVICE && !writes)
		r = lend_locked(m, i, addr);
	if (r == CUDA_SUCCESS)
		return;
	back_after_lent(m, r == CUDA_ERROR_NOT_READY);
	m->run = i == m->next ? MIN(2 * m->run, RUN_MAX) : 1;
	m->next = MIN(i + m->run, m->n);
	end = first_open(m, i, m->next, true);
	if (is_talking(m) || r == CUDA_ERROR_NOT_READY ||
	    bring_locked(server, m, i, end, TOUCH_WAIT_US) == CUDA_ERROR_NOT_READY)
		bring_from_kernels_locked(m, i, end);
	else if (held.until_ns)
		talking_back_locked(m);
	else
		quiet_back_locked(m);
}

void managed_serve_locked(void)
{
	pthread_mutex_lock(&managed_lock);
	holds = true; /* whenever it says anything */
	if (!guest_self && thread_become(server))
		log_warning("managed memory: out of memory");
}

/* Returns until when the program has what it has touched, if kernels stand still for that. */
static uint64_t touched(uintptr_t addr, bool writes)
{
	struct managed_mem *m;
	uint64_t until_ns;

	managed_serve_locked();
	if (clock_now_ns() >= held.until_ns)
		hand_back_locked();
	m = find_locked(addr);
	if (m)
		touched_locked(m, addr, writes);
	else if (addr)
		pages_wake(addr);
	until_ns = held.until_ns;
	pthread_mutex_unlock(&managed_lock);
	return until_ns;
}

/* ---- allocations ---- */

bool managed_can_serve(pages_touched *touched_page)
{
	sigset_t old;
	bool can;

	managed_enter(&old);
	if (!server) {
		pages_on_command = on_command;
		server = calloc(1, sizeof(*server));
		if (server && thread_open_own_lane(server)) {
			thread_free(server);
			server = NULL;
		}
	}
	can = server && pages_start(touched_page) == 0;
	managed_leave(&old);
	return can;
}

static struct managed_mem *mem_new(const struct managed_alloc_rep *rep, bool shared)
{
	unsigned n = (unsigned)((rep->mapped + rep->piece - 1) / rep->piece);
	struct managed_mem *m = calloc(1, sizeof(*m) + n * sizeof(m->of[0]));

	if (!m)
		return NULL;
	m->base = rep->addr;
	m->size = rep->mapped;
	m->piece = rep->piece;
	m->offset = rep->offset;
	m->n = m->n_host = m->next = n;
	m->run = 1;
	m->shared = shared;
	return m;
}

/* A host is not trusted to say what this process maps where. */
static bool is_sound(const struct managed_alloc_rep *rep, size_t size)
{
	return rep->mapped >= size && rep->piece && rep->piece % HOSTMEM_PAGE == 0 &&
	       guest_is_device(rep->addr) && guest_is_device(rep->addr + rep->mapped - 1);
}

CUresult managed_new(struct guest_thread *t, struct hostmem *h, bool shared)
{
	sigset_t old;
	struct managed_alloc_rep rep = {0};
	struct managed_mem *m;
	CUresult r;

	if (!managed_can_serve(touched))
		return CUDA_ERROR_NOT_SUPPORTED;
	r = call_managed_alloc(t, h->size, &rep);
	if (r)
		return r;
	if (!is_sound(&rep, h->size))
		return guest_broken(t);
	extent_forget(t, rep.addr);
	m = mem_new(&rep, shared);
	if (!m || open_pieces(m, 0, m->n) < 0) {
		pages_end(rep.addr, rep.mapped);
		free(m);
		call_managed_free(t, rep.addr);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	managed_enter(&old);
	list_append(&all, &m->link);
	atomic_fetch_add(&managed_moving, 1);
	atomic_fetch_add(&managed_waiting, 1);
	managed_leave(&old);
	h->base = h->dev = h->host = m->base;
	h->moves = m;
	return CUDA_SUCCESS;
}

CUresult managed_end(struct guest_thread *t, struct managed_mem *m)
{
	sigset_t old;
	CUresult r;

	managed_enter(&old);
	hand_back_locked();
	take_back_locked();
	list_remove(&m->link);
	atomic_fetch_sub(&managed_moving, 1);
	atomic_fetch_sub(&managed_waiting, (unsigned)waits(m));
	managed_leave(&old);
	/* First, for the next one may come to the same place. */
	pages_end(m->base, m->size);
	extent_forget(t, m->base);
	r = call_managed_free(t, m->base);
	extent_forget(t, m->base);
	free(m);
	return r;
}

CUresult managed_prefetch(struct guest_thread *t, struct managed_mem *m, uint64_t addr,
			  uint64_t size, bool to_device)
{
	sigset_t old;
	unsigned i = (unsigned)((addr - m->base) / m->piece);
	unsigned end = (unsigned)((addr + size - 1 - m->base) / m->piece) + 1;
	CUresult r;

	managed_enter(&old);
	hand_back_locked();
	r = to_device ? take_all_locked(t, m, i, MIN(end, m->n), PREFETCH_WAIT_US)
		      : bring_all_locked(t, m, i, MIN(end, m->n));
	hand_back_locked();
	managed_leave(&old);
	return r;
}

void managed_stay(struct managed_mem *m, bool stays)
{
	sigset_t old;
	bool did;

	managed_enter(&old);
	did = waits(m);
	m->stays += stays ? 1u : -1u;
	atomic_fetch_add(&managed_waiting, (unsigned)waits(m) - (unsigned)did);
	managed_leave(&old);
}

void managed_read_mostly(struct managed_mem *m, bool does)
{
	sigset_t old;

	managed_enter(&old);
	m->reads += does ? 1u : -1u;
	managed_leave(&old);
}

void managed_after_fork(void)
{
	pages_after_fork();
	pthread_mutex_init(&managed_lock, NULL);
	list_init(&all);
	atomic_store(&managed_moving, 0);
	atomic_store(&managed_waiting, 0);
	held.until_ns = 0;
	n_lent = 0;
	holds = false;
	atomic_store(&pages_lent, false);
	exclusive = true;
	server = NULL; /* its lane was the parent's */
	if (managed_carrier)
		managed_carrier->after_fork();
}
