/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "calls.h"
#include "object/context.h"
#include "object/hostmem.h"
#include "core/process.h"
#include "core/session.h"
#include "copy/stage.h"
#include "core/thread.h"

/* Beside the slots for pieces, some for copies that only have to be taken: these share
 * nothing with what may be held up by a busy stream. */
#define TAKE_SLOTS     4u
#define SLOTS_ALL      (STAGE_SLOTS + TAKE_SLOTS)
#define SLOT_BYTES_ALL ((size_t)SLOTS_ALL * STAGE_SLOT_BYTES)
/* Stages of a process: more threads than that copy through their lanes. */
#define STAGES_MAX 16u
/* About as long as the device takes for a few slots; then it is busy with other things.
 */
#define PATIENCE_NS 200000u

/* A slot that small copies share, the one in hand. */
struct shared_slot {
	struct list link; /* of in_hand, while it is open */
	bool open;
	bool ended; /* the device will say when it is done; under the lock */
	struct stage_piece slot;
	size_t used;
	uint64_t stream, wire_id; /* of these copies and their context */
};

struct stage {
	struct stage *next; /* in the pool */
	char *mem;          /* slots, then a number for each slot */
	_Atomic uint32_t *done;
	uint32_t awaited[SLOTS_ALL]; /* slot i is free once done[first[i]] is that */
	uint8_t first[SLOTS_ALL];    /* of the piece that had it last */
	uint32_t number;
	unsigned at, take_at;
	struct hostmem_region region;
	struct shared_slot small[2]; /* by enum stage_small */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stage *pool[2]; /* by use; last in, first out: warm in caches */
static unsigned n_stages;
/* Open slots of all threads: another one may end the stream. */
static struct list in_hand = {&in_hand, &in_hand};

static struct stage *stage_new(struct guest_thread *t)
{
	struct stage *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (hostmem_region_new(t, SLOT_BYTES_ALL + HOSTMEM_PAGE, &s->region)) {
		free(s);
		return NULL;
	}
	s->mem = (char *)(uintptr_t)s->region.addr;
	s->done = (_Atomic uint32_t *)(uintptr_t)(s->region.addr + SLOT_BYTES_ALL);
	for (unsigned i = 0; i < SLOTS_ALL; i++)
		atomic_init(&s->done[i], 0);
	return s;
}

static bool is_done(const struct stage *s, unsigned slot, unsigned n)
{
	for (unsigned i = slot; i < slot + n; i++) {
		/* acquire: what the device wrote before is there. A later number of a
		 * piece that begins there says the same. */
		uint32_t done =
			atomic_load_explicit(&s->done[s->first[i]], memory_order_acquire);

		if ((int32_t)(done - s->awaited[i]) < 0)
			return false;
	}
	return true;
}

void stage_put(struct stage *s, enum stage_use use, bool idle)
{
	if (!idle && !is_done(s, 0, SLOTS_ALL))
		return; /* the device may still write there */
	pthread_mutex_lock(&lock);
	s->next = pool[use];
	pool[use] = s;
	pthread_mutex_unlock(&lock);
}

struct stage *stage_take(struct guest_thread *t, enum stage_use use)
{
	struct stage *s;
	bool more;

	if (t->shared) /* posting may take long, and must not with a lock */
		return NULL;
	pthread_mutex_lock(&lock);
	s = pool[use];
	if (s)
		pool[use] = s->next;
	more = !s && n_stages < STAGES_MAX;
	n_stages += more;
	pthread_mutex_unlock(&lock);
	/* One that cannot be had counts for ever: the next try would end the same way. */
	if (more)
		return stage_new(t);
	/* From the start, where it is warm in the caches. */
	if (s && is_done(s, 0, STAGE_SLOTS))
		s->at = 0;
	return s;
}

static bool wait_done(const struct stage *s, unsigned slot, unsigned n)
{
	uint64_t start;

	if (is_done(s, slot, n))
		return true;
	start = clock_now_ns();
	do {
		for (unsigned i = 0; i < 32; i++) {
			if (is_done(s, slot, n))
				return true;
			__builtin_ia32_pause();
		}
	} while (clock_now_ns() - start < PATIENCE_NS);
	return false;
}

static bool slots_at(const struct stage *s, unsigned at, unsigned n,
		     struct stage_piece *ret)
{
	if (!wait_done(s, at, n))
		return false;
	*ret = (struct stage_piece){
		.slot = at,
		.n = n,
		.mem = s->mem + (size_t)at * STAGE_SLOT_BYTES,
		.dev = s->region.addr + (uint64_t)at * STAGE_SLOT_BYTES,
	};
	return true;
}

bool stage_room(struct stage *s, size_t size, struct stage_piece *ret)
{
	unsigned n = (unsigned)((size + STAGE_SLOT_BYTES - 1) / STAGE_SLOT_BYTES);
	unsigned at = s->at + n > STAGE_SLOTS ? 0 : s->at;

	if (n > STAGE_SLOTS || !slots_at(s, at, n, ret))
		return false;
	s->at = at + n;
	return true;
}

void stage_mark(struct stage *s, struct stage_piece *p)
{
	s->number++;
	for (unsigned i = p->slot; i < p->slot + p->n; i++) {
		s->awaited[i] = s->number;
		s->first[i] = (uint8_t)p->slot;
	}
	p->mark = (struct stage_mark){(uintptr_t)&s->done[p->slot], s->number};
}

bool stage_done(struct stage *s, const struct stage_piece *p)
{
	return wait_done(s, p->slot, p->n);
}

/* ---- small copies ---- */

static bool next_slot(struct stage *s, enum stage_small kind, struct stage_piece *ret)
{
	if (kind == STAGE_POSTED)
		return stage_room(s, STAGE_SLOT_BYTES, ret);
	if (!slots_at(s, STAGE_SLOTS + s->take_at, 1, ret))
		return false;
	s->take_at = (s->take_at + 1) % TAKE_SLOTS;
	return true;
}

static bool next_in_hand(struct stage *s, enum stage_small kind)
{
	if (!next_slot(s, kind, &s->small[kind].slot))
		return false;
	stage_mark(s, &s->small[kind].slot);
	s->small[kind].used = 0;
	return true;
}

static bool pick_up(struct stage *s, enum stage_small kind, uint64_t stream,
		    uint64_t wire_id)
{
	struct shared_slot *h = &s->small[kind];

	if (!next_in_hand(s, kind))
		return false;
	h->open = true;
	h->ended = false;
	h->stream = stream;
	h->wire_id = wire_id;
	pthread_mutex_lock(&lock);
	list_append(&in_hand, &h->link);
	pthread_mutex_unlock(&lock);
	return true;
}

/* Has the device say when it is done with a slot, behind all of its stream. */
static void post_mark(struct guest_thread *t, const struct shared_slot *h)
{
	struct fill_cmd *cmd = begin_fill(t);

	if (!cmd)
		return; /* the session is over */
	cmd->dst = h->slot.mark.addr;
	cmd->pitch = 0;
	cmd->width = 1;
	cmd->height = 1;
	cmd->value = h->slot.mark.number;
	cmd->elem_bytes = sizeof(uint32_t);
	cmd->stream = h->stream;
	(void)guest_post(t);
}

/* As post_mark(), in the context that the slot's stream belongs to: the number of a
 * default stream means another one in the thread's context. */
static void post_mark_there(struct guest_thread *t, const struct shared_slot *h)
{
	bool away = h->stream <= GUEST_STREAM_PER_THREAD && t->wire_id != h->wire_id;

	if (away)
		(void)session_set_current(t, wire_id_ctx(h->wire_id));
	post_mark(t, h);
	if (away && ctx_living(t->wire_id))
		(void)session_set_current(t, thread_ctx(t));
	else if (away)
		t->wire_id = h->wire_id;
}

/* Lets go of a slot in hand. */
static void let_go(struct stage *s, struct shared_slot *h, struct guest_thread *t)
{
	if (!h->open)
		return;
	pthread_mutex_lock(&lock);
	ctx_hold();
	if (!ctx_living(h->wire_id)) /* a context ends with its work */
		atomic_store_explicit(&s->done[h->slot.slot], h->slot.mark.number,
				      memory_order_release);
	else if (!h->ended)
		post_mark_there(t, h);
	ctx_let_go();
	list_remove(&h->link);
	pthread_mutex_unlock(&lock);
	h->open = false;
}

/* Slots in hand get their marks. */
static void thread_end(struct guest_thread *t)
{
	struct stage *s = t->stage;

	if (!s || !t->lane || lane_dead(t->lane) || guest_status())
		return;
	t->stage = NULL;
	let_go(s, &s->small[STAGE_POSTED], t);
	let_go(s, &s->small[STAGE_TAKEN], t);
	stage_put(s, STAGE_TO_DEVICE, true);
}

bool stage_append(struct guest_thread *t, enum stage_small kind, uint64_t stream,
		  size_t size, struct stage_piece *ret)
{
	size_t bytes = ALIGN_UP(size, (size_t)64);
	struct stage_mark mark = {0};
	struct stage *s = t->stage;
	struct shared_slot *h;

	if (!s && guest_process.host_size) {
		s = t->stage = stage_take(t, STAGE_TO_DEVICE);
		t->at_end = thread_end;
	}
	if (!s)
		return false;
	h = &s->small[kind];
	if (h->open && (h->stream != stream || h->wire_id != t->wire_id))
		let_go(s, h, t);
	if (h->open && h->used + bytes > STAGE_SLOT_BYTES) {
		mark = h->slot.mark;
		if (!next_in_hand(s, kind)) {
			let_go(s, h, t);
			return false;
		}
	} else if (!h->open && !pick_up(s, kind, stream, t->wire_id)) {
		return false;
	}
	*ret = (struct stage_piece){
		.mem = h->slot.mem + h->used, .dev = h->slot.dev + h->used, .mark = mark};
	h->used += bytes;
	return true;
}

void stage_close(struct guest_thread *t, uint64_t stream)
{
	struct shared_slot *h;

	pthread_mutex_lock(&lock);
	ctx_hold();
	list_for_each (h, &in_hand, link) {
		if (h->stream != stream || h->ended || !ctx_living(h->wire_id))
			continue;
		post_mark(t, h);
		h->ended = true;
	}
	ctx_let_go();
	pthread_mutex_unlock(&lock);
}
