/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ipc/trace.h"
#include "memory/changes.h"
#include "memory/hostpool.h"
#include "memory/ledger.h"
#include "memory/pieces.h"
#include "memory/region.h"
#include "memory/transfer.h"

#define READ_WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define READ_ONLY  CU_MEM_ACCESS_FLAGS_PROT_READ
#define NO_ACCESS  CU_MEM_ACCESS_FLAGS_PROT_NONE

/* Granted, but the device has none: another session is just about to let go of it. */
#define CREATE_TRIES 8

static CUresult prepare_copies(struct mover *mv)
{
	const struct mem_env *e = mv->sp->env;
	CUresult r;

	mv->held = e->ctx_hold(e->arg, &mv->ctx);
	if (!mv->held)
		return CUDA_ERROR_INVALID_CONTEXT;
	r = e->ops->stream.create(mv->ctx, CU_STREAM_NON_BLOCKING, 0, &mv->st);
	for (unsigned i = 0; i < TRANSFERS && r == CUDA_SUCCESS; i++)
		r = e->ops->event.create(mv->ctx, CU_EVENT_DISABLE_TIMING,
					 &mv->ring[i].done);
	for (unsigned i = 0; i < ARRAY_SIZE(mv->step) && r == CUDA_SUCCESS; i++)
		r = e->ops->event.create(mv->ctx, CU_EVENT_DISABLE_TIMING, &mv->step[i]);
	return r;
}

int mover_init(struct mover *mv, struct space *sp, bool copies)
{
	memset(mv, 0, sizeof(*mv));
	mv->sp = sp;
	hostpool_hold(sp->hostpool);
	if (copies && prepare_copies(mv) != CUDA_SUCCESS) {
		mover_fini(mv);
		return -EIO;
	}
	pthread_mutex_lock(&sp->lock);
	mv->run = ++sp->runs;
	pthread_mutex_unlock(&sp->lock);
	return 0;
}

void mover_fini(struct mover *mv)
{
	const struct mem_env *e = mv->sp->env;

	mover_drain(mv);
	for (unsigned i = 0; i < TRANSFERS; i++) {
		if (mv->ring[i].done)
			e->ops->event.destroy(mv->ring[i].done);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(mv->step); i++) {
		if (mv->step[i])
			e->ops->event.destroy(mv->step[i]);
	}
	if (mv->st)
		e->ops->stream.destroy(mv->st);
	hostpool_go_on(mv->sp->hostpool);
	cold_moved(mv->sp);
	if (mv->held)
		e->ctx_put(e->arg, mv->held);
}

static void fail(struct mover *mv, CUresult r)
{
	if (!mv->error)
		mv->error = r == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

/* ---- beginning and end ---- */

static struct mapping *first_mapping(const struct backing *c)
{
	return list_entry(c->mappings.next, struct mapping, in_backing);
}

static CUdeviceptr address_of(const struct transfer *t)
{
	return first_mapping(t->c)->addr + t->offset;
}

static void set_states(struct transfer *t, unsigned n, enum piece_state to)
{
	pieces_set_state(t->c, pieces_at(t->c, t->offset), n, to);
}

/* Notes a move that has come about, for traces. */
static void trace_move(const struct mover *mv, const struct transfer *t)
{
	const struct mem_env *e = mv->sp->env;
	enum piece_state is = t->c->piece[pieces_at(t->c, t->offset)].state;
	const struct trace_record r = {
		.kind = is == PIECE_RESIDENT ? TRACE_SWAP_IN : TRACE_SWAP_OUT,
		.begin_ns = t->begin_ns,
		.end_ns = clock_now_ns(),
		.value = t->size,
	};

	/* Mapped where it is, or left where it was: nothing has moved. */
	if (is != t->from && (is == PIECE_RESIDENT || t->from == PIECE_RESIDENT))
		trace_write(e->trace, &r);
}

/* The transfer has come to an end: others may have the backing. */
static void end_transfer(struct mover *mv, struct transfer *t)
{
	struct space *sp = mv->sp;

	if (trace_on(sp->env->count))
		trace_move(mv, t);
	t->c->moving--;
	backing_count_locked(sp, t->c);
	ledger_publish_locked(sp);
	if (t->c->wanted)
		pthread_cond_broadcast(&sp->moved_cond);
	mv->under_way -= t->size;
	free(t->host);
	free(t->digests);
	t->host = NULL;
	t->digests = NULL;
}

/* The pieces at addr that are size together, in one of these states (1 << PIECE_*), and
 * may be moved. How many; 0: there are none (any more). */
static unsigned find_locked(struct mover *mv, struct transfer *t, CUdeviceptr addr,
			    uint64_t size, unsigned states, unsigned *ret_first)
{
	struct mapping *m = mapping_at_locked(mv->sp, addr);
	struct backing *c = m ? m->backing : NULL;
	unsigned n;

	if (!c || c->wanted >= mv->run || !c->charged)
		return 0;
	n = pieces_run(c, addr - m->addr, size, ret_first);
	if (!n || !(states >> c->piece[*ret_first].state & 1))
		return 0;
	t->c = c;
	t->offset = addr - m->addr;
	t->size = size;
	t->from = c->piece[*ret_first].state;
	t->dev = NULL;
	t->result = CUDA_SUCCESS;
	t->unmapped = t->mapped = false;
	t->aside = 0;
	t->n_taken = 0;
	t->digests = NULL;
	t->compares = false;
	t->begin_ns = clock_now_ns();
	return n;
}

typedef bool take_fn(struct mover *mv, struct transfer *t, unsigned first, unsigned n);

/* take_locked makes the n pieces from the first the transfer's, or fails. */
static bool begin(struct mover *mv, struct transfer *t, CUdeviceptr addr, uint64_t size,
		  unsigned states, take_fn *take_locked)
{
	unsigned first, n;
	bool begun;

	pthread_mutex_lock(&mv->sp->lock);
	n = find_locked(mv, t, addr, size, states, &first);
	begun = n && take_locked(mv, t, first, n);
	if (begun) {
		t->c->moving++;
		mv->under_way += size;
	}
	pthread_mutex_unlock(&mv->sp->lock);
	return begun;
}

/* ---- host memory behind an address ---- */

/* The first n, one behind the other. */
static CUresult map_hosts(struct space *sp, struct host_piece **host, unsigned n,
			  CUdeviceptr addr, CUmemAccess_flags access)
{
	const struct mem_env *e = sp->env;
	CUresult r = CUDA_SUCCESS;
	uint64_t at = 0;
	unsigned i;

	for (i = 0; i < n && r == CUDA_SUCCESS; i++) {
		r = e->ops->memory.map(e->dev, addr + at, host[i]->dev);
		at += r == CUDA_SUCCESS ? host[i]->size : 0;
	}
	if (r == CUDA_SUCCESS && access != NO_ACCESS)
		r = e->ops->memory.set_access(e->dev, addr, at, access);
	if (r != CUDA_SUCCESS && at)
		e->ops->memory.unmap(e->dev, addr, at);
	return r;
}

/* At the first n addresses where the backing is mapped. */
static CUresult unmap_some(struct mover *mv, const struct transfer *t, unsigned n)
{
	const struct mem_env *e = mv->sp->env;
	CUresult r = CUDA_SUCCESS;
	struct mapping *m;

	list_for_each (m, &t->c->mappings, in_backing) {
		if (!n-- || r != CUDA_SUCCESS)
			break;
		r = e->ops->memory.unmap(e->dev, m->addr + t->offset, t->size);
	}
	return r;
}

/* Wherever the backing is mapped; or nowhere. */
static CUresult map_hosts_all(struct mover *mv, const struct transfer *t)
{
	CUresult r = CUDA_SUCCESS;
	struct mapping *m;
	unsigned n = 0;

	list_for_each (m, &t->c->mappings, in_backing) {
		r = map_hosts(mv->sp, t->host, t->n_host, m->addr + t->offset, m->access);
		if (r != CUDA_SUCCESS) {
			unmap_some(mv, t, n);
			return r;
		}
		n++;
	}
	return r;
}

static void put_hosts(struct mover *mv, struct transfer *t)
{
	for (unsigned i = 0; i < t->n_host; i++)
		hostpool_put(mv->sp->hostpool, t->host[i]);
}

/* Lists in t the host pieces of n pieces that are evicted. */
static bool hold_hosts_locked(struct mover *mv, struct transfer *t, unsigned first,
			      unsigned n)
{
	t->host = calloc(n, sizeof(struct host_piece *));
	if (!t->host) {
		fail(mv, CUDA_ERROR_OUT_OF_MEMORY);
		return false;
	}
	for (unsigned i = 0; i < n; i++)
		t->host[i] = t->c->piece[first + i].host;
	t->n_host = n;
	return true;
}

static bool take_hosts(struct mover *mv, struct transfer *t)
{
	uint64_t left = t->size;

	for (t->n_host = 0; left; t->n_host++) {
		uint64_t size = piece_size(mv->sp, left);
		uint64_t offset = t->offset + t->size - left;

		t->host[t->n_host] =
			hostpool_take_again(mv->sp->hostpool, size, t->c->id, offset);
		if (!t->host[t->n_host]) {
			put_hosts(mv, t);
			t->n_host = 0;
			return false;
		}
		left -= size;
	}
	return true;
}

/* ---- copies ---- */

static void copy_one(struct mover *mv, struct transfer *t, const struct host_piece *h,
		     CUdeviceptr at, bool out)
{
	struct dev_copy_2d c = {.dst = out ? h->stage : at,
				.src = out ? at : h->stage,
				.width = h->size,
				.height = 1};

	if (t->result == CUDA_SUCCESS)
		t->result = mv->sp->env->ops->copy.rows(mv->ctx, mv->st, &c);
}

static void note_end(struct mover *mv, struct transfer *t, struct dev_event *ev)
{
	if (t->result == CUDA_SUCCESS)
		t->result = mv->sp->env->ops->event.record(mv->ctx, ev, mv->st);
}

static void copy(struct mover *mv, struct transfer *t, bool out)
{
	CUdeviceptr at = address_of(t);

	for (unsigned i = 0; i < t->n_host; i++) {
		if (!changes_none(t, i))
			copy_one(mv, t, t->host[i], at, out);
		at += t->host[i]->size;
	}
	note_end(mv, t, t->done);
}

/* Copies that were given to the device have ended, even if not all could be. */
static void wait_for(struct mover *mv, struct transfer *t)
{
	const struct mem_env *e = mv->sp->env;

	if (t->result == CUDA_SUCCESS)
		t->result = e->ops->event.synchronize(t->done);
	else
		e->ops->stream.synchronize(mv->ctx, mv->st);
}

/* ---- what has changed ---- */

static struct transfer *nth(struct mover *mv, unsigned i)
{
	return &mv->ring[(mv->first + i) % TRANSFERS];
}

/* Digests of all parts of those that wait for theirs, n of them; NULL: they cannot be had. The
 * caller frees them. */
static struct digest *make_digests(struct mover *mv, unsigned n)
{
	const struct mem_env *e = mv->sp->env;
	struct digest_range *r = calloc(n, sizeof(*r));
	struct digest *d = calloc(n, sizeof(*d));
	unsigned at = 0;
	bool ok = r && d;

	for (unsigned i = 0; i < mv->n && ok; i++) {
		if (!nth(mv, i)->compares)
			continue;
		changes_ranges(nth(mv, i), r + at);
		at += nth(mv, i)->n_host;
	}
	ok = ok && e->ops->copy.digest(mv->ctx, mv->st, &mv->sp->digests, r, n, d) ==
			   CUDA_SUCCESS;
	free(r);
	if (ok)
		return d;
	free(d);
	return NULL;
}

/* Begins the copies of those that wait for digests. */
static void compare_all(struct mover *mv)
{
	unsigned n = 0, at = 0;
	struct digest *d;

	for (unsigned i = 0; i < mv->n; i++)
		n += nth(mv, i)->compares ? nth(mv, i)->n_host : 0;
	d = n ? make_digests(mv, n) : NULL;
	for (unsigned i = 0; i < mv->n; i++) {
		struct transfer *t = nth(mv, i);

		if (!t->compares)
			continue;
		mv->unchanged += changes_known(t, d ? d + at : NULL);
		at += t->n_host;
		copy(mv, t, true);
	}
	free(d);
}

/* ---- out ---- */

/* Opens memory that has no access, for a copy to read it, or (open false) closes it. */
static CUresult open_source(struct mover *mv, struct transfer *t, bool open)
{
	if (first_mapping(t->c)->access != NO_ACCESS)
		return CUDA_SUCCESS;
	return mv->sp->env->ops->memory.set_access(mv->sp->env->dev, address_of(t),
						   t->size, open ? READ_ONLY : NO_ACCESS);
}

static bool out_take_locked(struct mover *mv, struct transfer *t, unsigned first,
			    unsigned n)
{
	struct backing *c = t->c;
	unsigned n_evicted = pieces_of(mv->sp, t->size);

	if (n != 1 || !backing_movable(c))
		return false;
	t->host = calloc(n_evicted, sizeof(struct host_piece *));
	if (!t->host || pieces_reserve(c, n_evicted) < 0) {
		free(t->host);
		fail(mv, CUDA_ERROR_OUT_OF_MEMORY);
		return false;
	}
	c->moving_pieces += n_evicted;
	t->dev = c->piece[first].dev;
	piece_set_state(c, &c->piece[first], PIECE_LEAVING);
	return true;
}

/* The piece becomes as many as there are host pieces. */
static void replace_locked(struct transfer *t, enum piece_state to)
{
	struct backing *c = t->c;
	unsigned i = pieces_at(c, t->offset);
	struct piece *p = &c->piece[i];
	uint64_t at = t->offset;

	pieces_resize(c, i, 1, t->n_host);
	for (unsigned k = 0; k < t->n_host; k++, p++) {
		*p = (struct piece){.offset = at,
				    .size = t->host[k]->size,
				    .host = t->host[k],
				    .state = PIECE_LEAVING};
		piece_set_state(c, p, to);
		at += p->size;
	}
}

/* The device has its memory back. Whoever waits for it need not wait for more. */
static void give_up(struct mover *mv, struct transfer *t)
{
	struct space *sp = mv->sp;
	void (*left)(void *arg, uint64_t bytes);
	void *arg;

	sp->env->ops->memory.release(sp->env->dev, t->dev);
	mv->moved += t->size;
	pthread_mutex_lock(&sp->lock);
	left = sp->left;
	arg = sp->left_arg;
	pthread_mutex_unlock(&sp->lock);
	if (left && t->to == PIECE_MAPPED)
		left(arg, t->size);
}

/* Nothing is mapped at the address any more, if this succeeds; else nothing has changed.
 */
static CUresult step_aside(struct mover *mv, struct transfer *t)
{
	const struct mem_env *e = mv->sp->env;
	CUdeviceptr to;
	CUresult r = e->ops->memory.reserve(e->dev, t->size, 0, 0, &to);

	if (r != CUDA_SUCCESS)
		return r;
	r = e->ops->memory.map(e->dev, to, t->dev);
	if (r == CUDA_SUCCESS) {
		r = e->ops->memory.set_access(e->dev, to, t->size, READ_ONLY);
		if (r == CUDA_SUCCESS)
			r = e->ops->memory.unmap(e->dev, address_of(t), t->size);
		if (r != CUDA_SUCCESS)
			e->ops->memory.unmap(e->dev, to, t->size);
	}
	if (r == CUDA_SUCCESS)
		t->aside = to;
	else
		e->ops->memory.unreserve(e->dev, to, t->size);
	return r;
}

/* The device's memory is not mapped any more, if this succeeds. */
static CUresult unmap_source(struct mover *mv, struct transfer *t)
{
	const struct mem_env *e = mv->sp->env;
	CUresult r = e->ops->memory.unmap(e->dev, t->aside ? t->aside : address_of(t),
					  t->size);

	if (r == CUDA_SUCCESS && t->aside)
		e->ops->memory.unreserve(e->dev, t->aside, t->size);
	return r;
}

/* Returns how much of the address host pieces have taken. */
static uint64_t taken_bytes(const struct transfer *t)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < t->n_taken; i++)
		sum += t->host[i]->size;
	return sum;
}

static void give_place_back(struct mover *mv, struct transfer *t)
{
	if (t->n_taken)
		mv->sp->env->ops->memory.unmap(mv->sp->env->dev, address_of(t),
					       taken_bytes(t));
	t->n_taken = 0;
}

/* Maps the device's memory where it was: it stays there. */
static void step_back(struct mover *mv, struct transfer *t)
{
	const struct mem_env *e = mv->sp->env;
	CUmemAccess_flags access = first_mapping(t->c)->access;
	CUresult r;

	give_place_back(mv, t);
	r = e->ops->memory.map(e->dev, address_of(t), t->dev);
	if (r == CUDA_SUCCESS && access != NO_ACCESS)
		r = e->ops->memory.set_access(e->dev, address_of(t), t->size, access);
	if (r == CUDA_SUCCESS)
		r = unmap_source(mv, t);
	if (r != CUDA_SUCCESS)
		fail(mv, r);
}

/* n more host pieces take the place of the device's memory. If that is not possible none
 * of them does. */
static void take_place(struct mover *mv, struct transfer *t, unsigned n)
{
	CUresult r =
		map_hosts(mv->sp, t->host + t->n_taken, n, address_of(t) + taken_bytes(t),
			  first_mapping(t->c)->access);

	if (r == CUDA_SUCCESS) {
		t->n_taken += n;
		return;
	}
	give_place_back(mv, t);
	t->to = PIECE_SWAPPED;
	fail(mv, r);
}

static void out_end(struct mover *mv, struct transfer *t)
{
	bool gone;

	wait_for(mv, t);
	if (t->result == CUDA_SUCCESS)
		t->result = unmap_source(mv, t);
	gone = t->result == CUDA_SUCCESS;
	if (gone)
		give_up(mv, t);
	else
		fail(mv, t->result);
	if (gone && t->to == PIECE_MAPPED)
		take_place(mv, t, t->n_host - t->n_taken);
	if (!gone && t->aside)
		step_back(mv, t);
	else if (!gone)
		open_source(mv, t, false);
	if (gone && t->to == PIECE_SWAPPED)
		changes_note(t);
	else
		changes_forget(t);
	pthread_mutex_lock(&mv->sp->lock);
	t->c->moving_pieces -= pieces_of(mv->sp, t->size);
	if (gone)
		replace_locked(t, t->to);
	else
		set_states(t, 1, PIECE_RESIDENT);
	if (!gone)
		put_hosts(mv, t);
	end_transfer(mv, t);
	pthread_mutex_unlock(&mv->sp->lock);
}

/* ---- in ---- */

static bool in_take_locked(struct mover *mv, struct transfer *t, unsigned first,
			   unsigned n)
{
	struct backing *idle;

	if (t->c->share != BACKING_OWN || !hold_hosts_locked(mv, t, first, n))
		return false;
	set_states(t, n, PIECE_RETURNING);
	idle = t->c->compressible ? NULL : idle_take_locked(mv->sp, t->size);
	if (idle)
		t->dev = backing_strip(idle);
	return true;
}

static CUresult create(struct space *sp, uint64_t size, enum dev_memory memory,
		       struct dev_mem **ret_dev)
{
	const struct timespec pause = {.tv_nsec = SPACE_IDLE_NS / 4};
	CUresult r = sp->env->ops->memory.create(sp->env->dev, size, memory, ret_dev);

	for (unsigned i = 0; i < CREATE_TRIES && r == CUDA_ERROR_OUT_OF_MEMORY; i++) {
		nanosleep(&pause, NULL);
		r = sp->env->ops->memory.create(sp->env->dev, size, memory, ret_dev);
	}
	return r;
}

/* Unmaps what is there and maps the new memory; the first mapping must be writable. */
static CUresult exchange(struct mover *mv, struct transfer *t)
{
	const struct mem_env *e = mv->sp->env;
	CUmemAccess_flags access = READ_WRITE;
	CUresult r = CUDA_SUCCESS;
	struct mapping *m;
	unsigned n = 0;

	if (t->from == PIECE_MAPPED)
		r = unmap_some(mv, t, t->c->n_mappings);
	if (r != CUDA_SUCCESS)
		return r;
	t->unmapped = t->from == PIECE_MAPPED;
	list_for_each (m, &t->c->mappings, in_backing) {
		r = e->ops->memory.map(e->dev, m->addr + t->offset, t->dev);
		if (r != CUDA_SUCCESS)
			break;
		n++;
		access = n == 1 ? READ_WRITE : m->access;
		if (access != NO_ACCESS)
			r = e->ops->memory.set_access(e->dev, m->addr + t->offset,
						      t->size, access);
		if (r != CUDA_SUCCESS)
			break;
	}
	t->mapped = r == CUDA_SUCCESS;
	if (!t->mapped)
		unmap_some(mv, t, n);
	return r;
}

/* The pieces become one, of device memory. */
static void join_locked(struct transfer *t)
{
	struct backing *c = t->c;
	unsigned i = pieces_at(c, t->offset);
	struct piece *p = &c->piece[i];

	set_states(t, t->n_host, PIECE_RESIDENT);
	pieces_resize(c, i, t->n_host, 1);
	p->size = t->size;
	p->dev = t->dev;
	p->host = NULL;
}

/* Leaves evicted what could not come: mapped as it was if that is possible, else swapped.
 * */
static void in_failed(struct mover *mv, struct transfer *t)
{
	const struct mem_env *e = mv->sp->env;
	enum piece_state to = t->from;

	if (t->mapped)
		unmap_some(mv, t, t->c->n_mappings);
	if (t->unmapped && map_hosts_all(mv, t) != CUDA_SUCCESS)
		to = PIECE_SWAPPED;
	if (t->dev)
		e->ops->memory.release(e->dev, t->dev);
	fail(mv, t->result);
	pthread_mutex_lock(&mv->sp->lock);
	set_states(t, t->n_host, to);
	end_transfer(mv, t);
	pthread_mutex_unlock(&mv->sp->lock);
}

static void in_end(struct mover *mv, struct transfer *t)
{
	const struct mem_env *e = mv->sp->env;
	struct mapping *m = first_mapping(t->c);

	if (t->mapped)
		wait_for(mv, t);
	if (t->result == CUDA_SUCCESS && m->access != READ_WRITE)
		t->result = e->ops->memory.set_access(e->dev, m->addr + t->offset,
						      t->size, m->access);
	if (t->result != CUDA_SUCCESS) {
		in_failed(mv, t);
		return;
	}
	if (t->from == PIECE_MAPPED)
		changes_forget(t);
	put_hosts(mv, t);
	pthread_mutex_lock(&mv->sp->lock);
	join_locked(t);
	end_transfer(mv, t);
	pthread_mutex_unlock(&mv->sp->lock);
	mv->moved += t->size;
}

/* ---- the ring ---- */

static void end_oldest(struct mover *mv)
{
	struct transfer *t = &mv->ring[mv->first];

	if (t->compares)
		compare_all(mv);
	mv->first = (mv->first + 1) % TRANSFERS;
	mv->n--;
	if (t->to == PIECE_RESIDENT)
		in_end(mv, t);
	else
		out_end(mv, t);
}

void mover_drain(struct mover *mv)
{
	while (mv->n)
		end_oldest(mv);
}

/* A free slot, and room for so many bytes. */
static struct transfer *next_slot(struct mover *mv, uint64_t size)
{
	while (mv->n == TRANSFERS || (mv->n && mv->under_way + size > TRANSFER_BYTES_MAX))
		end_oldest(mv);
	return nth(mv, mv->n);
}

/* Copies out with STEPS copies under way, so that mapping need not keep up with each of
 * them; what the last ones brought is mapped when the transfer ends. */
static void out_in_steps(struct mover *mv, struct transfer *t)
{
	CUdeviceptr at = t->aside;

	for (unsigned i = 0; i < t->n_host && t->result == CUDA_SUCCESS; i++) {
		copy_one(mv, t, t->host[i], at, true);
		note_end(mv, t, i + 1 < t->n_host ? mv->step[i % STEPS] : t->done);
		at += t->host[i]->size;
		if (i < STEPS - 1 || t->result != CUDA_SUCCESS)
			continue;
		while (mv->n > 1)
			end_oldest(mv);
		t->result = mv->sp->env->ops->event.synchronize(
			mv->step[(i - (STEPS - 1)) % STEPS]);
		if (t->result == CUDA_SUCCESS && t->to == PIECE_MAPPED)
			take_place(mv, t, 1);
	}
}

static void out_at_once(struct mover *mv, struct transfer *t)
{
	t->result = open_source(mv, t, true);
	if (t->result != CUDA_SUCCESS)
		return;
	copy(mv, t, true);
}

void mover_out(struct mover *mv, CUdeviceptr addr, uint64_t size, enum piece_state to)
{
	struct transfer *t = next_slot(mv, size);

	if (!begin(mv, t, addr, size, 1 << PIECE_RESIDENT, out_take_locked))
		return;
	t->to = to;
	mv->n++;
	if (!take_hosts(mv, t))
		t->result = CUDA_ERROR_OUT_OF_MEMORY;
	else if (to == PIECE_SWAPPED && changes_begin(mv, t))
		return;
	else if (to == PIECE_MAPPED && t->n_host > 1 && step_aside(mv, t) == CUDA_SUCCESS)
		out_in_steps(mv, t);
	else
		out_at_once(mv, t);
	if (t->result != CUDA_SUCCESS)
		mover_drain(mv);
}

void mover_in(struct mover *mv, CUdeviceptr addr, uint64_t size)
{
	struct transfer *t = next_slot(mv, size);

	if (!begin(mv, t, addr, size, 1 << PIECE_MAPPED | 1 << PIECE_SWAPPED,
		   in_take_locked))
		return;
	t->to = PIECE_RESIDENT;
	mv->n++;
	if (!t->dev)
		t->result = create(mv->sp, size, backing_memory(t->c), &t->dev);
	if (t->result != CUDA_SUCCESS)
		t->dev = NULL;
	else
		t->result = exchange(mv, t);
	if (t->result == CUDA_SUCCESS)
		copy(mv, t, false);
	if (t->result != CUDA_SUCCESS)
		mover_drain(mv);
}

/* The pieces stay what they are while they are being mapped. */
void mover_map(struct mover *mv, CUdeviceptr addr, uint64_t size)
{
	struct transfer t = {0};
	CUresult r;

	if (!begin(mv, &t, addr, size, 1 << PIECE_SWAPPED, hold_hosts_locked))
		return;
	r = map_hosts_all(mv, &t);
	if (r != CUDA_SUCCESS)
		fail(mv, r);
	changes_forget(&t);
	pthread_mutex_lock(&mv->sp->lock);
	if (r == CUDA_SUCCESS) {
		set_states(&t, t.n_host, PIECE_MAPPED);
		mv->moved += size;
	}
	end_transfer(mv, &t);
	pthread_mutex_unlock(&mv->sp->lock);
}
