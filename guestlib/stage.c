// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "calls.h"
#include "hostmem.h"
#include "stage.h"

#define SLOT_BYTES_ALL ((size_t)STAGE_SLOTS * STAGE_SLOT_BYTES)
/* Stages of a process: more threads than that copy through their lanes. */
#define STAGES_MAX 16u
/* About as long as the device takes for a few slots; then it is busy with other things.
 */
#define PATIENCE_NS 200000u

struct stage {
	struct stage *next; /* in the pool */
	char *mem;          /* slots, then a number for each slot */
	_Atomic uint32_t *done;
	uint32_t awaited[STAGE_SLOTS]; /* slot i is free once done[i] is that */
	uint32_t number;
	unsigned at;
	struct hostmem_region region;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stage *pool[2]; /* by use; last in, first out: warm in caches */
static unsigned n_stages;

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
	for (unsigned i = 0; i < STAGE_SLOTS; i++)
		atomic_init(&s->done[i], 0);
	return s;
}

struct stage *stage_take(struct guest_thread *t, enum stage_use use)
{
	struct stage *s;
	bool more;

	pthread_mutex_lock(&lock);
	s = pool[use];
	if (s)
		pool[use] = s->next;
	more = !s && n_stages < STAGES_MAX;
	n_stages += more;
	pthread_mutex_unlock(&lock);
	/* One that cannot be had counts for ever: the next try would end the same way. */
	return more ? stage_new(t) : s;
}

void stage_put(struct stage *s, enum stage_use use, bool idle)
{
	if (!idle)
		return; /* the device may still write there */
	pthread_mutex_lock(&lock);
	s->next = pool[use];
	pool[use] = s;
	pthread_mutex_unlock(&lock);
}

static bool is_done(const struct stage *s, unsigned slot, unsigned n)
{
	for (unsigned i = slot; i < slot + n; i++) {
		/* acquire: what the device wrote before is there */
		if (atomic_load_explicit(&s->done[i], memory_order_acquire) !=
		    s->awaited[i])
			return false;
	}
	return true;
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

bool stage_room(struct stage *s, size_t size, struct stage_piece *ret)
{
	unsigned n = (unsigned)((size + STAGE_SLOT_BYTES - 1) / STAGE_SLOT_BYTES);
	unsigned at = s->at + n > STAGE_SLOTS ? 0 : s->at;

	if (n > STAGE_SLOTS || !wait_done(s, at, n))
		return false;
	*ret = (struct stage_piece){
		.slot = at,
		.n = n,
		.mem = s->mem + (size_t)at * STAGE_SLOT_BYTES,
		.dev = s->region.addr + (uint64_t)at * STAGE_SLOT_BYTES,
	};
	s->at = at + n;
	return true;
}

CUresult stage_mark(struct stage *s, struct guest_thread *t, uint64_t stream,
		    const struct stage_piece *p)
{
	struct fill_cmd *cmd = begin_fill(t);

	if (!cmd)
		return guest_lost(t);
	s->number++;
	for (unsigned i = p->slot; i < p->slot + p->n; i++)
		s->awaited[i] = s->number;
	cmd->dst = (uintptr_t)&s->done[p->slot];
	cmd->pitch = 0;
	cmd->width = p->n;
	cmd->height = 1;
	cmd->value = s->number;
	cmd->elem_bytes = sizeof(uint32_t);
	cmd->stream = stream;
	return guest_post(t);
}

bool stage_done(struct stage *s, const struct stage_piece *p)
{
	return wait_done(s, p->slot, p->n);
}
