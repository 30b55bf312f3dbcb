/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "ops.h"
#include "session/batch.h"
#include "session/command.h"
#include "session/trace.h"

bool batch_goes_on(const struct sess_lane *sl)
{
	const struct wire_hdr *hdr = &sl->msg->hdr;
	const struct batch *b = &sl->batch;

	if (!sess_posted(sl) || hdr->op != WIRE_OP_launch_kernel ||
	    sess_apart(sl) != b->apart)
		return false;
	return b->apart || hdr->seq == b->tickets[b->n - 1] + 1;
}

int batch_after(struct sess_lane *sl, uint64_t ticket)
{
	struct tickets *t = &sl->s->tickets;

	if (ticket >= sl->msg->hdr.seq)
		return -EPROTO;
	if (likely(tickets_past(t, ticket + 1)))
		return 0;
	batch_end(sl);
	return tickets_wait(t, ticket + 1);
}

static bool is_plain(const struct dev_launch *l)
{
	return !l->n_attrs && !l->cooperative && !l->cluster[0];
}

/* Where the parameters of one more would lie; NULL: there is no room. */
static char *place(struct batch *b, size_t size)
{
	uint32_t at = ALIGN_UP(b->used, 16u);

	if (b->n == DEV_BATCH_MAX || size > BATCH_PARAMS - at)
		return NULL;
	b->used = at + (uint32_t)size;
	return b->params + at;
}

static void add(struct sess_lane *sl, struct dev_ctx *ctx, struct dev_stream *st,
		const struct dev_launch *l, const void *params)
{
	struct batch *b = &sl->batch;

	b->apart = sess_apart(sl);
	b->ctx = ctx;
	b->stream = st;
	b->tickets[b->n] = sl->msg->hdr.seq;
	b->launches[b->n] = *l;
	b->launches[b->n].params = params;
	b->launches[b->n++].attrs = NULL;
	sl->batched = true;
}

enum batch_add batch_add(struct sess_lane *sl, struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_launch *l)
{
	struct batch *b = &sl->batch;
	char *params;

	if (!is_plain(l) || !sess_posted(sl))
		return BATCH_ALONE;
	if (b->n && (b->ctx != ctx || b->stream != st))
		batch_end(sl);
	if (!b->n && !sl->more) {
		add(sl, ctx, st, l, l->params);
		batch_end(sl);
		return BATCH_TAKEN;
	}
	params = place(b, l->params_size);
	if (!params && b->n) {
		batch_end(sl);
		params = place(b, l->params_size);
	}
	if (!params)
		return BATCH_ALONE;
	memcpy(params, l->params, l->params_size);
	add(sl, ctx, st, l, params);
	return BATCH_TAKEN;
}

void batch_submit_due(struct sess_lane *sl)
{
	const struct batch *b = &sl->batch;

	if (b->n && (b->n == DEV_BATCH_MAX || !sl->more ||
		     (b->apart && tickets_pressing(&sl->s->tickets))))
		batch_end(sl);
}

void batch_end(struct sess_lane *sl)
{
	struct session *s = sl->s;
	struct batch *b = &sl->batch;
	unsigned n = b->n;
	uint64_t begin_ns = 0;
	CUresult r;

	if (!n)
		return;
	b->n = b->used = 0;
	if (sess_enter(sl) == 0) {
		if (unlikely(b->launches[n - 1].traced))
			begin_ns = clock_now_ns();
		r = device_launch(s->ops, b->ctx, b->stream, b->launches, n);
		sess_count_launches(sl, n);
		if (unlikely(begin_ns))
			trace_submitted(sl, b->launches, n, begin_ns);
		sess_leave(sl);
		sess_failed(sl, WIRE_OP_launch_kernel, r);
	}
	sess_count_posted(sl, n);
	if (b->apart)
		tickets_executed(&s->tickets, b->tickets, n);
	else
		tickets_done(&s->tickets, b->tickets[n - 1]);
}
