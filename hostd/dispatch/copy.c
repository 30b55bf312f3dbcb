/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills. A copy to the device that has no reply should not wait for its stream, for it
 * holds all later tickets: the device takes the bytes at once if it can. What has to wait does so
 * outside the gate.
 */
#include "dispatch/handlers.h"
#include "session/trace.h"

struct target {
	struct dev_ctx *ctx;
	struct dev_stream *stream;
	CUdeviceptr dst;
	uint64_t pitch;
	uint32_t width, height; /* one row if the rows touch */
	const char *data;
};

static CUresult write_rows(struct session *s, const struct target *t)
{
	CUresult r = CUDA_SUCCESS;

	for (uint32_t y = 0; y < t->height && r == CUDA_SUCCESS; y++)
		r = s->ops->copy.write(t->ctx, t->stream, t->dst + y * t->pitch,
				       t->data + (size_t)y * t->width, t->width);
	return r;
}

/* If this fails the copy does, too. */
void copy_wait_before(struct sess_lane *sl, struct dev_ctx *ctx, struct dev_stream *st)
{
	const struct device_ops *ops = sl->s->ops;

	if (ops->stream.query(ctx, st) == CUDA_ERROR_NOT_READY)
		(void)ops->stream.synchronize(ctx, st);
}

/* Returns -EPIPE, or 0 with the result. */
static int write_once(struct sess_lane *sl, const struct target *t, bool taken,
		      CUresult *ret_result)
{
	struct session *s = sl->s;
	uint64_t begin_ns;

	if (sess_enter(sl) < 0)
		return -EPIPE;
	begin_ns = trace_begin(s);
	*ret_result =
		taken ? s->ops->copy.write_taken(t->ctx, t->stream, t->dst, t->pitch,
						 t->data, t->width, t->height)
		      : write_rows(s, t);
	if (*ret_result != CUDA_ERROR_NOT_READY)
		trace_lane(sl, TRACE_TO_DEVICE, begin_ns, (uint64_t)t->width * t->height);
	sess_leave(sl);
	return 0;
}

int handle_copy_htod(struct sess_lane *sl, const struct copy_htod_args *a,
		     struct copy_htod_rep *rep)
{
	const struct copy_htod_cmd *c = a->cmd;
	struct session *s = sl->s;
	struct target t = {.dst = c->dst, .pitch = c->pitch, .data = a->payload};
	int r;

	if ((uint64_t)c->width * c->height != a->payload_size)
		return -EPROTO;
	rep->res.result = sess_stream(sl, c->stream, &t.stream, &t.ctx);
	if (rep->res.result != CUDA_SUCCESS)
		return 0;
	t.width = c->pitch == c->width ? a->payload_size : c->width;
	t.height = c->pitch == c->width ? 1 : c->height;
	count(&s->count->bytes_to_device, a->payload_size);
	note_rows(s, t.dst, t.pitch, t.width, t.height);
	if (sess_posted(sl)) {
		r = write_once(sl, &t, true, &rep->res.result);
		if (r < 0 || rep->res.result != CUDA_ERROR_NOT_READY)
			return r;
	}
	copy_wait_before(sl, t.ctx, t.stream);
	r = write_once(sl, &t, false, &rep->res.result);
	if (r == 0 && !sess_posted(sl))
		rep->res.result = sess_sync_result(sl, rep->res.result);
	return r;
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
	struct target t = {.dst = c->dst, .pitch = c->pitch, .data = a->payload};
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
	r = write_rows(sl->s, &t);
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
