/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/array.h"
#include "dispatch/handlers.h"
#include "session/trace.h"

static void array_fini(struct session *s, struct sess_obj *o)
{
	struct sess_array *a = container_of(o, struct sess_array, obj);

	if (a->dev) {
		tally_ending(&s->apart, a->charged);
		s->ops->array.destroy(a->dev);
		tally_ended(&s->apart, a->charged);
		footprint_changed(s);
	}
	if (a->charged)
		space_uncharge(s->space, a->charged);
}

static CUresult make(struct session *s, const struct array_shape *shape,
		     struct sess_array *a)
{
	struct dev_ctx *ctx = a->obj.ctx->dev;
	uint64_t bytes;
	CUresult r = s->ops->array.bytes(ctx, shape, &bytes);

	if (r == CUDA_SUCCESS)
		r = space_charge(s->space, bytes);
	if (r)
		return r;
	a->charged = bytes;
	tally_making(&s->apart, bytes);
	r = s->ops->array.create(ctx, shape, &a->dev);
	if (r == CUDA_SUCCESS)
		tally_made(&s->apart, bytes);
	else
		tally_unmade(&s->apart, bytes);
	footprint_changed(s); /* the driver takes more at once than it needs */
	return r;
}

int handle_array_create(struct sess_lane *sl, const struct array_create_args *args,
			struct array_create_rep *rep)
{
	const struct array_create_cmd *c = args->cmd;
	struct array_shape shape = {.width = c->width,
				    .height = c->height,
				    .depth = c->depth,
				    .format = c->format,
				    .channels = c->channels,
				    .flags = c->flags,
				    .levels = c->levels};
	struct sess_array *a;

	if (c->levels > ARRAY_LEVELS_MAX || c->levels > array_levels(&shape)) {
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
		return 0;
	}
	a = obj_new(HANDLE_ARRAY, c->array, sizeof(*a), sl->ctx, array_fini);
	if (!a) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	a->levels = MAX(c->levels, 1u);
	rep->res.result = make(sl->s, &shape, a);
	if (rep->res.result != CUDA_SUCCESS) {
		obj_put(sl->s, &a->obj);
		return 0;
	}
	return publish(sl, &a->obj, &rep->res.result);
}

/* As for memory: waits for the work that may still use it. */
int handle_array_destroy(struct sess_lane *sl, const struct array_destroy_args *args,
			 struct array_destroy_rep *rep)
{
	struct sess_array *a = sess_get(sl, HANDLE_ARRAY, args->cmd->array);

	if (!a) {
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
		return 0;
	}
	rep->res.result =
		sess_sync_result(sl, sl->s->ops->ctx.synchronize(a->obj.ctx->dev));
	obj_put(sl->s, obj_take(sl->s, HANDLE_ARRAY, args->cmd->array));
	return 0;
}

CUresult array_named(struct sess_lane *sl, uint64_t h, unsigned level,
		     struct dev_array **ret_array)
{
	struct sess_array *a = sess_get(sl, HANDLE_ARRAY, h);

	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	if (level >= a->levels)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_array = a->dev;
	return CUDA_SUCCESS;
}

/* ---- copies ---- */

/* Bytes of a box that travels; 0: no such box. */
static uint32_t box_bytes(const struct wire_array_box *b)
{
	uint64_t rows = (uint64_t)b->height * b->depth;

	return rows && rows <= WIRE_PAYLOAD_MAX && b->width <= WIRE_PAYLOAD_MAX / rows
		       ? (uint32_t)(rows * b->width)
		       : 0;
}

/* Without its array, which array_named() finds. */
static struct dev_box box_of(const struct wire_array_box *b)
{
	return (struct dev_box){.level = b->level,
				.x = b->x,
				.y = b->y,
				.z = b->z,
				.width = b->width,
				.height = b->height,
				.depth = b->depth};
}

struct dev_side array_side(const struct wire_array_side *s, uint32_t width,
			   uint32_t height, uint32_t depth)
{
	return (struct dev_side){.box = {.level = s->level,
					 .x = s->x,
					 .y = s->y,
					 .z = s->z,
					 .width = width,
					 .height = height,
					 .depth = depth},
				 .memory = {s->addr, s->pitch, s->slice}};
}

int handle_array_write(struct sess_lane *sl, const struct array_write_args *a,
		       struct array_write_rep *rep)
{
	const struct array_write_cmd *c = a->cmd;
	struct dev_box box = box_of(&c->box);
	struct dev_stream *st;
	struct dev_ctx *ctx;
	uint64_t begin_ns;
	CUresult r;

	if (box_bytes(&c->box) != a->payload_size)
		return -EPROTO;
	r = sess_stream(sl, c->stream, &st, &ctx);
	if (r == CUDA_SUCCESS)
		r = array_named(sl, c->box.array, c->box.level, &box.array);
	if (r == CUDA_SUCCESS) {
		copy_wait_before(sl, ctx, st);
		if (sess_enter(sl) < 0)
			return -EPIPE;
		begin_ns = trace_begin(sl->s);
		r = sl->s->ops->array.write(ctx, st, &box, a->payload);
		trace_lane(sl, TRACE_TO_DEVICE, begin_ns, a->payload_size);
		sess_leave(sl);
	}
	if (r == CUDA_SUCCESS)
		count(&sl->s->count->bytes_to_device, a->payload_size);
	rep->res.result = sess_sync_result(sl, r);
	return 0;
}

static int read_failed(struct sess_lane *sl, CUresult result)
{
	struct array_read_rep rep = {.res.result = result};

	return sess_done(sl, &rep, sizeof(rep));
}

/* Ends the reply that was begun if the read succeeded; else an error takes its place. */
static int read_done(struct sess_lane *sl, CUresult result, uint32_t bytes)
{
	if (result != CUDA_SUCCESS)
		return read_failed(sl, result);
	count(&sl->s->count->bytes_from_device, bytes);
	return sess_reply_end(sl);
}

int handle_array_read(struct sess_lane *sl, const struct array_read_args *a)
{
	const struct array_read_cmd *c = a->cmd;
	struct dev_box box = box_of(&c->box);
	uint32_t bytes = box_bytes(&c->box);
	struct dev_stream *st;
	struct dev_ctx *ctx;
	void *payload;
	uint64_t begin_ns;
	CUresult r;

	if (!bytes)
		return -EPROTO;
	r = sess_stream(sl, c->stream, &st, &ctx);
	if (r == CUDA_SUCCESS)
		r = array_named(sl, c->box.array, c->box.level, &box.array);
	/* Output that kernels printed must be out before the record is begun. */
	begin_ns = trace_begin(sl->s);
	if (r == CUDA_SUCCESS)
		r = sl->s->ops->stream.synchronize(ctx, st);
	trace_lane(sl, TRACE_WAIT, begin_ns, 0);
	r = sess_sync_result(sl, r);
	if (r != CUDA_SUCCESS)
		return read_failed(sl, r);
	if (!sess_reply_begin(sl, 0, sizeof(struct array_read_rep), bytes, &payload))
		return -EPIPE;
	if (sess_enter(sl) < 0)
		return -EPIPE;
	begin_ns = trace_begin(sl->s);
	r = sl->s->ops->array.read(ctx, st, payload, &box);
	trace_lane(sl, TRACE_TO_HOST, begin_ns, bytes);
	sess_leave(sl);
	return read_done(sl, r, bytes);
}

/* ---- copies of graphs: as host_write and host_read, beside all that waits ---- */

int handle_host_array_write(struct sess_lane *sl, const struct host_array_write_args *a,
			    struct host_array_write_rep *rep)
{
	const struct host_array_write_cmd *c = a->cmd;
	struct dev_box box = box_of(&c->box);
	struct dev_stream *st;
	struct dev_ctx *ctx;
	uint64_t begin_ns;
	CUresult r;

	if (box_bytes(&c->box) != a->payload_size)
		return -EPROTO;
	r = array_named(sl, c->box.array, c->box.level, &box.array);
	if (r == CUDA_SUCCESS)
		r = copy_own_stream(sl, c->ctx, &ctx, &st);
	rep->res.result = r;
	if (r != CUDA_SUCCESS)
		return 0;
	begin_ns = trace_begin(sl->s);
	r = sl->s->ops->array.write(ctx, st, &box, a->payload);
	trace_lane(sl, TRACE_TO_DEVICE, begin_ns, a->payload_size);
	sl->s->ops->stream.destroy(st);
	if (r == CUDA_SUCCESS)
		count(&sl->s->count->bytes_to_device, a->payload_size);
	rep->res.result = r;
	return 0;
}

int handle_host_array_read(struct sess_lane *sl, const struct host_array_read_args *a)
{
	const struct host_array_read_cmd *c = a->cmd;
	struct dev_box box = box_of(&c->box);
	uint32_t bytes = box_bytes(&c->box);
	struct dev_stream *st;
	struct dev_ctx *ctx;
	void *payload;
	uint64_t begin_ns;
	CUresult r;

	if (!bytes)
		return -EPROTO;
	r = array_named(sl, c->box.array, c->box.level, &box.array);
	if (r == CUDA_SUCCESS)
		r = copy_own_stream(sl, c->ctx, &ctx, &st);
	if (r != CUDA_SUCCESS)
		return read_failed(sl, r);
	if (!sess_reply_begin(sl, 0, sizeof(struct host_array_read_rep), bytes,
			      &payload)) {
		sl->s->ops->stream.destroy(st);
		return -EPIPE;
	}
	begin_ns = trace_begin(sl->s);
	r = sl->s->ops->array.read(ctx, st, payload, &box);
	trace_lane(sl, TRACE_TO_HOST, begin_ns, bytes);
	sl->s->ops->stream.destroy(st);
	return read_done(sl, r, bytes);
}

/* ---- on the device ---- */

int handle_array_copy(struct sess_lane *sl, const struct array_copy_args *a,
		      struct array_copy_rep *rep)
{
	const struct array_copy_cmd *c = a->cmd;
	struct dev_copy_3d d = {
		.dst = array_side(&c->dst, c->width, c->height, c->depth),
		.src = array_side(&c->src, c->width, c->height, c->depth),
	};
	struct dev_stream *st;
	struct dev_ctx *ctx;
	uint64_t begin_ns;
	CUresult r;

	if (c->wait && sess_posted(sl))
		return -EPROTO;
	r = sess_stream(sl, c->stream, &st, &ctx);
	if (r == CUDA_SUCCESS && !c->dst.array && !c->src.array)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && c->dst.array)
		r = array_named(sl, c->dst.array, c->dst.level, &d.dst.box.array);
	if (r == CUDA_SUCCESS && c->src.array)
		r = array_named(sl, c->src.array, c->src.level, &d.src.box.array);
	if (r == CUDA_SUCCESS && c->width && c->height && c->depth) {
		if (sess_enter(sl) < 0)
			return -EPIPE;
		begin_ns = trace_begin(sl->s);
		r = sl->s->ops->array.copy(ctx, st, &d);
		trace_lane(sl, TRACE_ON_DEVICE, begin_ns,
			   (uint64_t)c->width * c->height * c->depth);
		sess_leave(sl);
	}
	begin_ns = c->wait ? trace_begin(sl->s) : 0;
	if (r == CUDA_SUCCESS && c->wait)
		r = sess_sync_result(sl, sl->s->ops->stream.synchronize(ctx, st));
	trace_lane(sl, TRACE_WAIT, begin_ns, 0);
	rep->res.result = r;
	return 0;
}
