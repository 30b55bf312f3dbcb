/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills. A copy to the device that has no reply must not wait for its stream:
 * few bytes are taken by the device at once; if the stream is busy others are staged, up
 * to a limit, and the device takes them from there when it gets to them. A copy that has
 * a reply may wait and needs no staging.
 */
#include "dispatch/handlers.h"
#include "session/trace.h"

/* Bytes that a session may have staged. Beyond them the lane waits for the device. */
#define STAGED_MAX (256ull << 20)

static pthread_mutex_t staged_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t staged_cond = PTHREAD_COND_INITIALIZER;
static uint64_t staged_bytes; /* of this process, which serves one session */

/* Bytes that write_taken() takes without waiting. */
#define TAKEN_MAX (64u << 10)

/* Bytes on their way; freed by the last row's done callback. */
struct staging {
	struct session *s;
	_Atomic unsigned refs;
	uint32_t size;
	_Alignas(64) char data[];
};

static void unstage(struct session *s, uint32_t size)
{
	wmem_put(&s->accounts, size);
	pthread_mutex_lock(&staged_lock);
	staged_bytes -= size;
	pthread_cond_signal(&staged_cond);
	pthread_mutex_unlock(&staged_lock);
}

/* Waits for what is staged already, if it can be had only then. */
static bool stage(struct session *s, uint32_t size)
{
	bool last, ok;

	pthread_mutex_lock(&staged_lock);
	do {
		while (staged_bytes + size > STAGED_MAX)
			pthread_cond_wait(&staged_cond, &staged_lock);
		last = !staged_bytes;
		staged_bytes += size;
		pthread_mutex_unlock(&staged_lock);
		ok = wmem_take(&s->accounts, size) == 0;
		pthread_mutex_lock(&staged_lock);
		if (ok)
			break;
		staged_bytes -= size;
		if (!last && staged_bytes)
			pthread_cond_wait(&staged_cond, &staged_lock);
	} while (!last);
	pthread_mutex_unlock(&staged_lock);
	return ok;
}

static struct staging *staging_new(struct session *s, const void *data, uint32_t size)
{
	struct staging *st;

	if (!stage(s, size))
		return NULL;
	st = aligned_alloc(64, sizeof(*st) + ALIGN_UP(size, 64u));
	if (!st) {
		unstage(s, size);
		return NULL;
	}
	st->s = s;
	atomic_init(&st->refs, 1);
	st->size = size;
	memcpy(st->data, data, size);
	return st;
}

/* On any thread. */
static void staging_put(void *arg)
{
	struct staging *st = arg;

	if (atomic_fetch_sub_explicit(&st->refs, 1, memory_order_acq_rel) != 1)
		return;
	unstage(st->s, st->size);
	free(st);
}

struct target {
	struct dev_ctx *ctx;
	struct dev_stream *stream;
	CUdeviceptr dst;
	uint64_t pitch;
	uint32_t width, height; /* one row if the rows touch */
};

static CUresult write_rows(struct session *s, const struct target *t, const char *data)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t y = 0; y < t->height && r == CUDA_SUCCESS; y++)
		r = s->ops->copy.write(t->ctx, t->stream, t->dst + y * t->pitch,
				       data + (size_t)y * t->width, t->width);
	return r;
}

static CUresult write_staged(struct session *s, const struct target *t, const void *data,
			     uint32_t size)
{
	struct staging *st = staging_new(s, data, size);
	CUresult r = CUDA_SUCCESS;

	if (!st)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t y = 0; y < t->height && r == CUDA_SUCCESS; y++) {
		atomic_fetch_add_explicit(&st->refs, 1, memory_order_relaxed);
		r = s->ops->copy.write_async(t->ctx, t->stream, t->dst + y * t->pitch,
					     st->data + (size_t)y * t->width, t->width,
					     staging_put, st);
		if (r != CUDA_SUCCESS)
			staging_put(st); /* done is not called for one that failed */
	}
	staging_put(st);
	return r;
}

int handle_copy_htod(struct sess_lane *sl, const struct copy_htod_args *a,
		     struct copy_htod_rep *rep)
{
	const struct copy_htod_cmd *c = a->cmd;
	struct session *s = sl->s;
	struct target t = {.dst = c->dst, .pitch = c->pitch};
	uint64_t begin_ns;

	if ((uint64_t)c->width * c->height != a->payload_size)
		return -EPROTO;
	rep->res.result = sess_stream(sl, c->stream, &t.stream, &t.ctx);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	t.width = c->pitch == c->width ? a->payload_size : c->width;
	t.height = c->pitch == c->width ? 1 : c->height;
	count(&s->count->bytes_to_device, a->payload_size);
	note_rows(s, t.dst, t.pitch, t.width, t.height);
	/* Outside the gate: a kernel may be waiting for another lane, and that for the gate to close.
	 * If this fails the copy does, too. */
	if (!sess_posted(sl) &&
	    s->ops->stream.query(t.ctx, t.stream) == CUDA_ERROR_NOT_READY)
		(void)s->ops->stream.synchronize(t.ctx, t.stream);
	if (sess_enter(sl) < 0)
		return -EPIPE;
	begin_ns = trace_begin(s);
	if (sess_posted(sl) && s->ops->copy.write_taken && a->payload_size <= TAKEN_MAX)
		rep->res.result = s->ops->copy.write_taken(
			t.ctx, t.stream, t.dst, t.pitch, a->payload, t.width, t.height);
	else if (!sess_posted(sl) ||
		 s->ops->stream.query(t.ctx, t.stream) == CUDA_SUCCESS)
		rep->res.result = write_rows(s, &t, a->payload);
	else
		rep->res.result = write_staged(s, &t, a->payload, a->payload_size);
	trace_lane(sl, TRACE_TO_DEVICE, begin_ns, a->payload_size);
	sess_leave(sl);
	if (!sess_posted(sl))
		rep->res.result = sess_sync_result(sl, rep->res.result);
	return 0;
}

/* ---- device to host ---- */

struct source {
	struct dev_ctx *ctx;
	struct dev_stream *stream;
	CUdeviceptr src;
	uint64_t pitch, width, total;
	bool no_gate; /* another stream stands still until this is done */
};

/* Reads `size` bytes of the packed rows, beginning with byte `at` of them. */
static CUresult read_piece(struct session *s, const struct source *f, uint64_t at,
			   char *buf, uint32_t size)
{
	while (size) {
		uint64_t row = at / f->width, x = at % f->width;
		uint32_t n = (uint32_t)MIN(f->width - x, (uint64_t)size);
		CUresult r = s->ops->copy.read(f->ctx, f->stream, buf,
					       f->src + row * f->pitch + x, n);

		if (r != CUDA_SUCCESS)
			return r;
		at += n;
		buf += n;
		size -= n;
	}
	return CUDA_SUCCESS;
}

static int reply_result(struct sess_lane *sl, CUresult result)
{
	struct copy_dtoh_rep rep = {.res.result = result};

	return sess_done(sl, &rep, sizeof(rep));
}

/* One record; the device writes where the guest will read. */
static int send_piece(struct sess_lane *sl, const struct source *f, uint64_t at,
		      uint32_t size, CUresult *ret_result)
{
	uint16_t flags = at + size < f->total ? WIRE_F_MORE : 0;
	void *payload;

	if (!sess_reply_begin(sl, flags, sizeof(struct copy_dtoh_rep), size, &payload))
		return -EPIPE;
	if (!f->no_gate && sess_enter(sl) < 0)
		return -EPIPE;
	*ret_result = read_piece(sl->s, f, at, payload, size);
	sess_leave(sl);
	/* A record that was begun but not sent is forgotten by the next one. */
	return *ret_result == CUDA_SUCCESS ? sess_reply_end(sl) : 0;
}

static int send_all(struct sess_lane *sl, const struct source *f)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t begin_ns = trace_begin(sl->s);

	for (uint64_t at = 0; at < f->total;) {
		uint32_t n = (uint32_t)MIN(f->total - at, (uint64_t)WIRE_PAYLOAD_MAX);
		int r = send_piece(sl, f, at, n, &result);

		if (r < 0)
			return r;
		if (result != CUDA_SUCCESS)
			return reply_result(sl, result);
		at += n;
	}
	trace_lane(sl, TRACE_TO_HOST, begin_ns, f->total);
	count(&sl->s->count->bytes_from_device, f->total);
	return 0;
}

/* Rows that lie on one another could be any number of a little memory. Returns false if
 * they do. */
static bool set_rows(struct source *f, uint64_t height)
{
	if ((height > 1 && f->pitch < f->width) ||
	    __builtin_mul_overflow(f->width, height, &f->total))
		return false;
	if (f->pitch == f->width || height == 1)
		f->width = f->pitch = f->total;
	return true;
}

int handle_copy_dtoh(struct sess_lane *sl, const struct copy_dtoh_args *a)
{
	const struct copy_dtoh_cmd *c = a->cmd;
	struct source f = {.src = c->src, .pitch = c->pitch, .width = c->width};
	CUresult r = sess_stream(sl, c->stream, &f.stream, &f.ctx);
	uint64_t begin_ns;

	if (r == CUDA_SUCCESS && !set_rows(&f, c->height))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && !f.total)
		r = sl->s->ops->stream.synchronize(f.ctx, f.stream);
	/* Earlier failures come first: the bytes may be wrong because of them. Printed
	 * text must be out before the first record. */
	begin_ns = trace_begin(sl->s);
	if (r == CUDA_SUCCESS && f.total)
		r = sl->s->ops->stream.synchronize(f.ctx, f.stream);
	trace_lane(sl, TRACE_WAIT, begin_ns, 0);
	r = sess_sync_result(sl, r);
	if (r != CUDA_SUCCESS || !f.total)
		return reply_result(sl, r);
	note_rows(sl->s, c->src, c->pitch, c->width, c->height);
	return send_all(sl, &f);
}

/* ---- copies of graphs ---- */

CUresult copy_own_stream(struct sess_lane *sl, uint64_t ctx, struct dev_ctx **ret_ctx,
			 struct dev_stream **ret_stream)
{
	struct sess_ctx *c = sess_get(sl, HANDLE_CONTEXT, ctx);

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_ctx = c->dev;
	return sl->s->ops->stream.create(c->dev, DEV_STREAM_NON_BLOCKING, 0, ret_stream);
}

int handle_host_write(struct sess_lane *sl, const struct host_write_args *a,
		      struct host_write_rep *rep)
{
	const struct host_write_cmd *c = a->cmd;
	struct target t = {.dst = c->dst, .pitch = c->pitch};
	uint64_t begin_ns = trace_begin(sl->s);
	CUresult r;

	if ((uint64_t)c->width * c->height != a->payload_size)
		return -EPROTO;
	t.width = c->pitch == c->width ? a->payload_size : c->width;
	t.height = c->pitch == c->width ? 1 : c->height;
	r = copy_own_stream(sl, c->ctx, &t.ctx, &t.stream);
	rep->res.result = r;
	if (r != CUDA_SUCCESS)
		return 0;
	count(&sl->s->count->bytes_to_device, a->payload_size);
	r = write_rows(sl->s, &t, a->payload);
	if (r == CUDA_SUCCESS)
		r = sl->s->ops->stream.synchronize(t.ctx, t.stream);
	trace_lane(sl, TRACE_TO_DEVICE, begin_ns, a->payload_size);
	sl->s->ops->stream.destroy(t.stream);
	rep->res.result = r;
	return 0;
}

int handle_host_read(struct sess_lane *sl, const struct host_read_args *a)
{
	const struct host_read_cmd *c = a->cmd;
	struct source f = {
		.src = c->src, .pitch = c->pitch, .width = c->width, .no_gate = true};
	CUresult r;
	int e;

	if (!set_rows(&f, c->height) || !f.total)
		return reply_result(sl, CUDA_ERROR_INVALID_VALUE);
	r = copy_own_stream(sl, c->ctx, &f.ctx, &f.stream);
	if (r != CUDA_SUCCESS)
		return reply_result(sl, r);
	e = send_all(sl, &f);
	sl->s->ops->stream.destroy(f.stream);
	return e;
}

/* ---- within the device ---- */

static bool is_host(uint64_t addr)
{
	return addr - DEVICE_HOST_BASE < DEVICE_HOST_SIZE;
}

static enum trace_kind copy_kind(const struct dev_copy_2d *c)
{
	if (is_host(c->src) == is_host(c->dst))
		return TRACE_ON_DEVICE;
	return is_host(c->src) ? TRACE_TO_DEVICE : TRACE_TO_HOST;
}

static void count_copy(struct session *s, const struct dev_copy_2d *c)
{
	uint64_t bytes = (uint64_t)c->width * c->height;

	if (is_host(c->src) && !is_host(c->dst))
		count(&s->count->bytes_to_device, bytes);
	if (is_host(c->dst) && !is_host(c->src))
		count(&s->count->bytes_from_device, bytes);
}

/* Where the device has no writes in stream order, a fill does it. */
static CUresult mark(struct session *s, struct dev_ctx *ctx, struct dev_stream *st,
		     uint64_t addr, uint32_t number)
{
	struct dev_mem_op op = {
		.op = CU_STREAM_MEM_OP_WRITE_VALUE_32, .addr = addr, .value = number};
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (s->ops->stream.mem_ops)
		r = s->ops->stream.mem_ops(ctx, st, &op, 1, 0);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		r = s->ops->copy.fill(ctx, st, addr, 0, number, sizeof(number), 1, 1);
	return r;
}

int handle_copy_dtod(struct sess_lane *sl, const struct copy_dtod_args *a,
		     struct copy_dtod_rep *rep)
{
	struct dev_copy_2d c = {
		.dst = a->cmd->dst,
		.src = a->cmd->src,
		.dst_pitch = a->cmd->dst_pitch,
		.src_pitch = a->cmd->src_pitch,
		.width = a->cmd->width,
		.height = a->cmd->height,
	};
	struct dev_stream *st;
	struct dev_ctx *ctx;
	uint64_t begin_ns;
	CUresult r;

	if (a->cmd->wait > 1 || (a->cmd->wait && sess_posted(sl)))
		return -EPROTO;
	r = sess_stream(sl, a->cmd->stream, &st, &ctx);
	if (r != CUDA_SUCCESS) {
		rep->res.result = r;
		return 0;
	}
	note_rows(sl->s, c.dst, c.dst_pitch, c.width, c.height);
	note_rows(sl->s, c.src, c.src_pitch, c.width, c.height);
	if (sess_enter(sl) < 0)
		return -EPIPE;
	begin_ns = trace_begin(sl->s);
	r = sl->s->ops->copy.rows(ctx, st, &c);
	trace_lane(sl, copy_kind(&c), begin_ns, (uint64_t)c.width * c.height);
	sl->last_stream = a->cmd->stream;
	if (r == CUDA_SUCCESS)
		count_copy(sl->s, &c);
	/* Also behind a copy that was refused: the guest waits for it. */
	if (a->cmd->mark) {
		CUresult m = mark(sl->s, ctx, st, a->cmd->mark, a->cmd->number);

		r = r ? r : m;
	}
	sess_leave(sl);
	if (a->cmd->wait) {
		begin_ns = trace_begin(sl->s);
		if (r == CUDA_SUCCESS)
			r = sl->s->ops->copy.end(ctx, st);
		trace_lane(sl, TRACE_WAIT, begin_ns, 0);
		r = sess_sync_result(sl, r);
	}
	rep->res.result = r;
	return 0;
}

/*
 * Whether nothing but copies of this kind, of this lane and stream, has begun since the
 * last one found the stream idle. What other lanes do at this moment comes after.
 */
static bool only_taken(struct sess_lane *sl, uint64_t stream, struct dev_ctx *ctx,
		       struct sess_taken *ret_now)
{
	struct session *s = sl->s;
	const struct sess_taken *q = &sl->taken;
	/* In this order: a call that is neither begun here nor done there comes later. */
	uint64_t done = atomic_load(&s->calls_done);

	*ret_now = (struct sess_taken){.calls = atomic_load(&s->calls_begun),
				       .posts = atomic_load(&s->tickets.done),
				       .stream = stream,
				       .ctx = ctx};
	ret_now->known = ret_now->calls == done + 1; /* none but this one */
	return q->known && ret_now->known && q->calls + 1 == ret_now->calls &&
	       q->posts == ret_now->posts && q->stream == stream && q->ctx == ctx;
}

/* As the driver takes pageable bytes: behind all that the stream has, and no further. */
int handle_copy_take(struct sess_lane *sl, const struct copy_take_args *a,
		     struct copy_take_rep *rep)
{
	const struct dev_copy_2d c = {
		.dst = a->cmd->dst,
		.src = a->cmd->src,
		.dst_pitch = a->cmd->dst_pitch,
		.src_pitch = a->cmd->src_pitch,
		.width = a->cmd->width,
		.height = a->cmd->height,
	};
	struct sess_taken now;
	struct dev_stream *st;
	struct dev_ctx *ctx;
	uint64_t begin_ns;
	CUresult r = sess_stream(sl, a->cmd->stream, &st, &ctx);

	if (r != CUDA_SUCCESS) {
		rep->res.result = r;
		return 0;
	}
	begin_ns = 0;
	if (!only_taken(sl, a->cmd->stream, ctx, &now)) {
		begin_ns = trace_begin(sl->s);
		r = sl->s->ops->stream.synchronize(ctx, st);
	}
	trace_lane(sl, TRACE_WAIT, begin_ns, 0);
	if (sess_enter(sl) < 0)
		return -EPIPE;
	begin_ns = trace_begin(sl->s);
	if (r == CUDA_SUCCESS)
		r = sl->s->ops->copy.rows(ctx, st, &c);
	trace_lane(sl, copy_kind(&c), begin_ns, (uint64_t)c.width * c.height);
	if (r == CUDA_SUCCESS)
		count_copy(sl->s, &c);
	now.under_way = r == CUDA_SUCCESS;
	now.known &= now.under_way;
	sl->taken = now;
	if (a->cmd->mark) {
		CUresult m = mark(sl->s, ctx, st, a->cmd->mark, a->cmd->number);

		r = r ? r : m;
	}
	sess_leave(sl);
	rep->res.result = sess_sync_result(sl, r);
	return 0;
}

int handle_fill(struct sess_lane *sl, const struct fill_args *a, struct fill_rep *rep)
{
	const struct fill_cmd *c = a->cmd;
	struct dev_stream *st;
	struct dev_ctx *ctx;
	uint64_t begin_ns;

	if (c->elem_bytes != 1 && c->elem_bytes != 2 && c->elem_bytes != 4)
		return -EPROTO;
	rep->res.result = sess_stream(sl, c->stream, &st, &ctx);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	note_rows(sl->s, c->dst, c->pitch, (uint64_t)c->width * c->elem_bytes, c->height);
	if (sess_enter(sl) < 0)
		return -EPIPE;
	begin_ns = trace_begin(sl->s);
	rep->res.result = sl->s->ops->copy.fill(ctx, st, c->dst, c->pitch, c->value,
						c->elem_bytes, c->width, c->height);
	trace_lane(sl, TRACE_FILL, begin_ns,
		   (uint64_t)c->width * c->height * c->elem_bytes);
	sess_leave(sl);
	return 0;
}
