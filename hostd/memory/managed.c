/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "ipc/page.h"
#include "memory/env.h"
#include "memory/hostmem.h"
#include "memory/managed.h"
#include "memory/region.h"

#define READ_WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE

/* Pieces that are copied to the host while those before them are mapped there. */
#define AHEAD 4u

struct managed_piece {
	struct dev_mem *host;   /* its part of the file */
	struct backing *device; /* with a reference; NULL: it is the host's */
	struct backing *coming; /* made, not mapped yet */
};

struct allocation {
	struct list link;
	struct region *region;
	CUdeviceptr twin; /* where all of the file's part is mapped, whoever has it */
	uint64_t offset, size;
	unsigned n;
	struct managed_piece piece[];
};

struct managed {
	const struct mem_env *env;
	struct space *sp;
	struct hostmem *hostmem;
	pthread_mutex_t lock; /* not space.lock: held while memory is charged */
	struct list all;
	managed_quiet *quiet;
	void *quiet_arg;
	bool still; /* kernels stand still since the last move */
};

/* A move of pieces first to end - 1, and what it is made with. */
struct move {
	struct managed *m;
	struct allocation *a;
	unsigned first, end, done;
	uint64_t from, to; /* within a, of what is duplicated */
	struct dev_ctx *ctx;
	struct dev_stream *stream;
	struct dev_event *copied[AHEAD];
	CUresult result;
};

int managed_new(const struct mem_env *env, struct space *sp, struct managed **ret_m)
{
	struct managed *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->env = env;
	m->sp = sp;
	pthread_mutex_init(&m->lock, NULL);
	list_init(&m->all);
	*ret_m = m;
	return 0;
}

void managed_set_host(struct managed *m, struct hostmem *h)
{
	m->hostmem = h;
}

void managed_on_quiet(struct managed *m, managed_quiet *quiet, void *arg)
{
	pthread_mutex_lock(&m->lock);
	m->quiet = quiet;
	m->quiet_arg = arg;
	pthread_mutex_unlock(&m->lock);
}

/* ---- pieces ---- */

static uint64_t offset_of(unsigned i)
{
	return i * MANAGED_PIECE;
}

static uint64_t size_of(const struct allocation *a, unsigned i)
{
	return MIN(MANAGED_PIECE, a->size - offset_of(i));
}

static CUdeviceptr addr_of(const struct allocation *a, unsigned i)
{
	return a->region->base + offset_of(i);
}

static CUresult map_host(const struct managed *m, CUdeviceptr addr, uint64_t size,
			 struct dev_mem *mem)
{
	const struct device_memory_ops *ops = &m->env->ops->memory;
	CUresult r = ops->map(m->env->dev, addr, mem);

	if (r)
		return r;
	r = ops->set_access(m->env->dev, addr, size, READ_WRITE);
	if (r)
		ops->unmap(m->env->dev, addr, size);
	return r;
}

static CUresult unmap(const struct managed *m, CUdeviceptr addr, uint64_t size)
{
	return m->env->ops->memory.unmap(m->env->dev, addr, size);
}

/* ---- making and freeing ---- */

static CUresult make_piece(struct managed *m, struct dev_ctx *ctx, struct allocation *a,
			   unsigned i)
{
	const struct device_memory_ops *ops = &m->env->ops->memory;
	uint64_t size = size_of(a, i);
	struct dev_mem *mem;
	CUresult r;

	r = ops->create_in_file(ctx, hostmem_fd(m->hostmem), a->offset + offset_of(i),
				size, &mem);
	if (r)
		return r;
	r = map_host(m, addr_of(a, i), size, mem);
	if (r == CUDA_SUCCESS) {
		r = map_host(m, a->twin + offset_of(i), size, mem);
		if (r)
			unmap(m, addr_of(a, i), size);
	}
	if (r)
		ops->release(m->env->dev, mem);
	else
		a->piece[i].host = mem;
	return r;
}

/* Ends what a piece has on the device, or wherever it was evicted to. */
static void drop_device(struct managed *m, const struct allocation *a, unsigned i)
{
	CUdeviceptr addr = addr_of(a, i);
	struct backing *c = a->piece[i].device;
	struct space *sp = m->sp;

	pthread_mutex_lock(&sp->lock);
	while (backing_wait_locked(sp, c)) /* the piece has a reference */
		;
	mapping_free_locked(sp, page_at_locked(sp, addr)->map);
	pages_set_map_locked(sp, addr, size_of(a, i), NULL);
	backing_put_locked(sp, c);
	pthread_mutex_unlock(&sp->lock);
}

/* Takes a piece away from wherever it is, with what is in it. */
static void drop_piece(struct managed *m, struct allocation *a, unsigned i)
{
	struct managed_piece *c = &a->piece[i];

	if (!c->host)
		return;
	unmap(m, a->twin + offset_of(i), size_of(a, i));
	if (c->device)
		drop_device(m, a, i);
	else
		unmap(m, addr_of(a, i), size_of(a, i));
	m->env->ops->memory.release(m->env->dev, c->host);
}

static void drop(struct managed *m, struct allocation *a)
{
	for (unsigned i = 0; i < a->n; i++)
		drop_piece(m, a, i);
	if (a->twin)
		m->env->ops->memory.unreserve(m->env->dev, a->twin, a->size);
	if (a->region) {
		pthread_mutex_lock(&m->sp->lock);
		region_free_locked(m->sp, a->region);
		pthread_mutex_unlock(&m->sp->lock);
	}
	free(a);
}

static CUresult make_region(struct managed *m, struct allocation *a, uint64_t bytes)
{
	struct space *sp = m->sp;
	CUresult r = space_entry(sp);

	if (r)
		return r;
	pthread_mutex_lock(&sp->lock);
	r = region_new_locked(sp, REGION_MANAGED, a->size, SPACE_PAGE, 0, &a->region);
	if (r == CUDA_SUCCESS) {
		a->region->bytes = bytes;
		list_append(&sp->regions, &a->region->link);
	}
	pthread_mutex_unlock(&sp->lock);
	return r;
}

static CUresult make(struct managed *m, struct dev_ctx *ctx, struct allocation *a,
		     uint64_t bytes)
{
	CUresult r = make_region(m, a, bytes);

	if (r == CUDA_SUCCESS)
		r = m->env->ops->memory.reserve(m->env->dev, a->size, SPACE_PAGE, 0,
						&a->twin);
	for (unsigned i = 0; i < a->n && r == CUDA_SUCCESS; i++)
		r = make_piece(m, ctx, a, i);
	return r;
}

static CUresult alloc_in(struct managed *m, struct dev_ctx *ctx, uint64_t bytes,
			 uint64_t size, uint64_t offset, struct allocation **ret)
{
	unsigned n = (unsigned)((size + MANAGED_PIECE - 1) / MANAGED_PIECE);
	struct allocation *a = calloc(1, sizeof(*a) + n * sizeof(a->piece[0]));
	CUresult r;

	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->offset = offset;
	a->size = size;
	a->n = n;
	list_init(&a->link);
	r = make(m, ctx, a, bytes);
	if (r)
		drop(m, a);
	else
		*ret = a;
	return r;
}

CUresult managed_alloc(struct managed *m, uint64_t bytes, struct managed_region *ret)
{
	uint64_t size = ALIGN_UP(bytes, SPACE_PAGE), offset;
	struct allocation *a;
	struct dev_ctx *ctx;
	CUresult r;
	void *held;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > DEVICE_HOST_SIZE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!m->hostmem || !m->env->ops->memory.create_in_file)
		return CUDA_ERROR_NOT_SUPPORTED;
	held = m->env->ctx_hold(m->env->arg, &ctx);
	if (!held)
		return CUDA_ERROR_INVALID_CONTEXT;
	r = hostmem_take_part(m->hostmem, size, &offset);
	if (r == CUDA_SUCCESS) {
		r = alloc_in(m, ctx, bytes, size, offset, &a);
		if (r)
			hostmem_give_part(m->hostmem, offset, size);
	}
	m->env->ctx_put(m->env->arg, held);
	if (r)
		return r;
	*ret = (struct managed_region){a->region->base, offset, size};
	pthread_mutex_lock(&m->lock);
	list_append(&m->all, &a->link);
	pthread_mutex_unlock(&m->lock);
	return CUDA_SUCCESS;
}

/* The allocation that has addr. */
static struct allocation *find_locked(struct managed *m, CUdeviceptr addr)
{
	struct allocation *a;

	list_for_each (a, &m->all, link) {
		if (addr - a->region->base < a->size)
			return a;
	}
	return NULL;
}

CUresult managed_release(struct managed *m, CUdeviceptr addr)
{
	struct allocation *a = NULL;
	uint64_t offset, size;

	pthread_mutex_lock(&m->lock);
	a = find_locked(m, addr);
	if (a && a->region->base == addr)
		list_remove(&a->link);
	else
		a = NULL;
	pthread_mutex_unlock(&m->lock);
	if (!a)
		return CUDA_ERROR_INVALID_VALUE;
	offset = a->offset;
	size = a->size;
	drop(m, a);
	hostmem_give_part(m->hostmem, offset, size);
	return CUDA_SUCCESS;
}

void managed_free(struct managed *m)
{
	struct allocation *a, *tmp;

	if (!m)
		return;
	list_for_each_safe (a, tmp, &m->all, link)
		drop(m, a);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* ---- moving ---- */

static CUresult copy_part(struct move *mv, uint64_t at, uint64_t size, bool to_device)
{
	CUdeviceptr twin = mv->a->twin + at, addr = mv->a->region->base + at;
	const struct dev_copy_2d c = {.dst = to_device ? addr : twin,
				      .src = to_device ? twin : addr,
				      .width = size,
				      .height = 1};

	return mv->m->env->ops->copy.rows(mv->ctx, mv->stream, &c);
}

static CUresult copy(struct move *mv, unsigned i, bool to_device)
{
	return copy_part(mv, offset_of(i), size_of(mv->a, i), to_device);
}

/* Adds a piece to what the session has moved, as evicted memory that moves is. */
static void count(_Atomic uint64_t *moved, const struct move *mv, unsigned i)
{
	atomic_fetch_add_explicit(moved, size_of(mv->a, i), memory_order_relaxed);
}

/* Puts what has been made for a piece in the place of the host's memory. */
static CUresult put_device_locked(struct move *mv, unsigned i)
{
	CUdeviceptr addr = addr_of(mv->a, i);
	struct managed_piece *c = &mv->a->piece[i];
	struct space *sp = mv->m->sp;
	struct mapping *map;
	CUresult r = mapping_new_locked(sp, addr, c->coming, &map);

	if (r)
		return r;
	r = backing_set_access(sp, c->coming, addr, READ_WRITE);
	if (r) {
		mapping_free_locked(sp, map);
		return r;
	}
	map->access = READ_WRITE;
	pages_set_map_locked(sp, addr, size_of(mv->a, i), map);
	c->device = steal(c->coming);
	return CUDA_SUCCESS;
}

static CUresult one_in(struct move *mv, unsigned i)
{
	uint64_t size = size_of(mv->a, i);
	struct managed_piece *c = &mv->a->piece[i];
	CUresult r;

	if (c->device)
		return CUDA_SUCCESS;
	r = unmap(mv->m, addr_of(mv->a, i), size);
	if (r)
		return r;
	pthread_mutex_lock(&mv->m->sp->lock);
	r = put_device_locked(mv, i);
	pthread_mutex_unlock(&mv->m->sp->lock);
	if (r)
		map_host(mv->m, addr_of(mv->a, i), size, c->host);
	else
		r = copy(mv, i, true);
	if (r == CUDA_SUCCESS)
		count(&mv->m->env->count->moved_in_bytes, mv, i);
	return r;
}

/* Puts the host's memory in the place of a piece's, which ends. */
static CUresult put_host(struct move *mv, unsigned i)
{
	struct managed_piece *c = &mv->a->piece[i];

	drop_device(mv->m, mv->a, i);
	c->device = NULL;
	return map_host(mv->m, addr_of(mv->a, i), size_of(mv->a, i), c->host);
}

static bool has_swapped(struct move *mv)
{
	struct space *sp = mv->m->sp;
	bool any = false;

	pthread_mutex_lock(&sp->lock);
	for (unsigned i = mv->first; i < mv->end; i++) {
		const struct backing *c = mv->a->piece[i].device;

		any |= c && c->bytes[PIECE_SWAPPED];
	}
	pthread_mutex_unlock(&sp->lock);
	return any;
}

static CUresult all_in(struct move *mv)
{
	CUresult r = CUDA_SUCCESS, last;

	while (mv->done < mv->end && r == CUDA_SUCCESS) {
		r = one_in(mv, mv->done);
		if (r == CUDA_SUCCESS)
			mv->done++;
	}
	last = mv->m->env->ops->stream.synchronize(mv->ctx, mv->stream);
	return last ? last : r;
}

static CUresult begin_out(struct move *mv, unsigned i)
{
	CUresult r;

	if (!mv->a->piece[i].device)
		return CUDA_SUCCESS;
	r = copy(mv, i, false);
	return r ? r
		 : mv->m->env->ops->event.record(mv->ctx, mv->copied[i % AHEAD],
						 mv->stream);
}

static CUresult end_out(struct move *mv, unsigned i)
{
	CUresult r;

	if (!mv->a->piece[i].device)
		return CUDA_SUCCESS;
	r = mv->m->env->ops->event.synchronize(mv->copied[i % AHEAD]);
	if (r)
		return r;
	count(&mv->m->env->count->moved_out_bytes, mv, i);
	return put_host(mv, i);
}

static CUresult all_out(struct move *mv)
{
	unsigned next = mv->first;
	CUresult r = CUDA_SUCCESS;

	/* Memory out of reach cannot be copied from. */
	if (has_swapped(mv) && space_map_swapped(mv->m->sp) < 0)
		return CUDA_ERROR_UNKNOWN;
	while (mv->done < mv->end && r == CUDA_SUCCESS) {
		for (; next < mv->end && next - mv->done < AHEAD && r == CUDA_SUCCESS;
		     next++)
			r = begin_out(mv, next);
		if (r == CUDA_SUCCESS)
			r = end_out(mv, mv->done);
		if (r == CUDA_SUCCESS)
			mv->done++;
	}
	mv->m->env->ops->stream.synchronize(mv->ctx, mv->stream);
	return r;
}

static CUresult all_duplicated(struct move *mv)
{
	CUresult r = CUDA_SUCCESS, last;

	if (has_swapped(mv) && space_map_swapped(mv->m->sp) < 0)
		return CUDA_ERROR_UNKNOWN;
	for (unsigned i = mv->first; i < mv->end && r == CUDA_SUCCESS; i++) {
		uint64_t from = MAX(mv->from, offset_of(i));
		uint64_t to = MIN(mv->to, offset_of(i) + size_of(mv->a, i));

		if (mv->a->piece[i].device)
			r = copy_part(mv, from, to - from, false);
	}
	last = mv->m->env->ops->stream.synchronize(mv->ctx, mv->stream);
	return r ? r : last;
}

static CUresult prepare(struct move *mv)
{
	const struct device_ops *ops = mv->m->env->ops;
	CUresult r = ops->stream.create(mv->ctx, CU_STREAM_NON_BLOCKING, 0, &mv->stream);

	for (unsigned i = 0; i < AHEAD && r == CUDA_SUCCESS; i++)
		r = ops->event.create(mv->ctx, CU_EVENT_DISABLE_TIMING, &mv->copied[i]);
	return r;
}

static void clean_up(struct move *mv)
{
	const struct device_ops *ops = mv->m->env->ops;

	for (unsigned i = 0; i < AHEAD; i++) {
		if (mv->copied[i])
			ops->event.destroy(mv->copied[i]);
	}
	if (mv->stream)
		ops->stream.destroy(mv->stream);
}

static int with_stream(struct move *mv, CUresult (*all)(struct move *mv))
{
	const struct mem_env *e = mv->m->env;
	uint64_t t[3] = {clock_now_ns()};
	void *held = e->ctx_hold(e->arg, &mv->ctx);

	if (!held)
		return -EIO;
	mv->result = prepare(mv);
	t[1] = clock_now_ns();
	if (mv->result == CUDA_SUCCESS)
		mv->result = all(mv);
	t[2] = clock_now_ns();
	clean_up(mv);
	e->ctx_put(e->arg, held);
	log_debug("managed pieces %u to %u: prepared %llu us, moved %llu: %d", mv->first,
		  mv->done, (unsigned long long)(t[1] - t[0]) / 1000,
		  (unsigned long long)(t[2] - t[1]) / 1000, (int)mv->result);
	return 0;
}

/* Nothing is to be moved: the session was to be quiet alone. */
static int work_none(void *what)
{
	struct move *mv = what;

	mv->done = mv->end;
	return 0;
}

static int work_in(void *what)
{
	return with_stream(what, all_in);
}

static int work_out(void *what)
{
	return with_stream(what, all_out);
}

static int work_duplicate(void *what)
{
	return with_stream(what, all_duplicated);
}

/* Gets memory for the host's pieces; the move ends before the first that there is none for. What
 * the device has no room for spills: from then on it is evicted memory as any other, which returns
 * when there is room, or its session's turn. */
static void get_memory(struct move *mv)
{
	for (unsigned i = mv->first; i < mv->end; i++) {
		struct managed_piece *c = &mv->a->piece[i];

		if (c->device)
			continue;
		if (backing_new_spare(mv->m->sp, size_of(mv->a, i), &c->coming)) {
			mv->end = i;
			return;
		}
	}
}

static void give_memory_back(struct move *mv)
{
	for (unsigned i = mv->first; i < mv->end; i++)
		backing_put(mv->m->sp, steal(mv->a->piece[i].coming));
}

static bool is_there(const struct move *mv, bool to_device)
{
	for (unsigned i = mv->first; i < mv->end; i++) {
		if (to_device != !!mv->a->piece[i].device)
			return false;
	}
	return true;
}

/* r: what quiet() says. */
static CUresult result_of(const struct move *mv, int r)
{
	if (r == -EBUSY)
		return CUDA_ERROR_NOT_READY;
	return r < 0 ? CUDA_ERROR_UNKNOWN : mv->result;
}

static CUresult move_locked(struct managed *m, struct move *mv, bool to_device,
			    struct managed_wait *wait)
{
	int r = 0;

	if (to_device)
		get_memory(mv);
	mv->done = mv->first;
	/* Kernels that stand still go on if nothing moves, too. */
	if (mv->end > mv->first || m->still) {
		r = m->quiet(m->quiet_arg, wait,
			     is_there(mv, to_device) ? work_none
			     : to_device             ? work_in
						     : work_out,
			     mv);
		m->still = wait->still;
	}
	if (to_device)
		give_memory_back(mv);
	return result_of(mv, r);
}

static uint64_t end_of(const struct allocation *a, unsigned i)
{
	return i == a->n ? a->size : offset_of(i);
}

CUresult managed_move(struct managed *m, CUdeviceptr addr, uint64_t size, bool to_device,
		      struct managed_wait *wait, uint64_t *ret_bytes)
{
	struct move mv = {.m = m};
	struct allocation *a;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	uint64_t at;

	pthread_mutex_lock(&m->lock);
	mv.a = a = find_locked(m, addr);
	at = a ? addr - a->region->base : 0;
	if (a && size && at % MANAGED_PIECE == 0 && size <= a->size - at) {
		mv.first = (unsigned)(at / MANAGED_PIECE);
		mv.end = (unsigned)((at + size + MANAGED_PIECE - 1) / MANAGED_PIECE);
		r = m->quiet ? move_locked(m, &mv, to_device, wait)
			     : CUDA_ERROR_NOT_SUPPORTED;
		*ret_bytes = end_of(a, mv.done) - at;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

CUresult managed_duplicate(struct managed *m, CUdeviceptr addr, uint64_t size,
			   struct managed_wait *wait)
{
	struct move mv = {.m = m};
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&m->lock);
	mv.a = find_locked(m, addr);
	mv.from = mv.a ? addr - mv.a->region->base : 0;
	if (mv.a && size && size <= mv.a->size - mv.from) {
		mv.to = mv.from + size;
		mv.first = (unsigned)(mv.from / MANAGED_PIECE);
		mv.end = (unsigned)((mv.to + MANAGED_PIECE - 1) / MANAGED_PIECE);
		r = m->quiet ? result_of(&mv, m->quiet(m->quiet_arg, wait, work_duplicate,
						       &mv))
			     : CUDA_ERROR_NOT_SUPPORTED;
		m->still = wait->still;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}
