/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops.h"
#include "session/batch.h"
#include "session/command.h"

bool batch_goes_on(const struct sess_lane *sl)
{
	const struct wire_hdr *hdr = &sl->msg->hdr;

	return sess_posted(sl) && hdr->op == WIRE_OP_launch_kernel &&
	       hdr->seq == sl->batch.last + 1;
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

bool batch_add(struct sess_lane *sl, struct dev_ctx *ctx, struct dev_stream *st,
	       const struct dev_launch *l)
{
	struct batch *b = &sl->batch;
	char *params;

	if (!is_plain(l) || !sess_posted(sl) || (!b->n && !sl->more))
		return false;
	if (b->n && (b->ctx != ctx || b->stream != st))
		batch_end(sl);
	params = place(b, l->params_size);
	if (!params && b->n) {
		batch_end(sl);
		params = place(b, l->params_size);
	}
	if (!params)
		return false;
	memcpy(params, l->params, l->params_size);
	b->ctx = ctx;
	b->stream = st;
	b->launches[b->n] = *l;
	b->launches[b->n].params = params;
	b->launches[b->n++].attrs = NULL;
	b->last = sl->msg->hdr.seq;
	return true;
}

void batch_settle(struct sess_lane *sl)
{
	const struct batch *b = &sl->batch;

	if (b->n && (b->n == DEV_BATCH_MAX || !sl->more))
		batch_end(sl);
}

void batch_end(struct sess_lane *sl)
{
	struct session *s = sl->s;
	struct batch *b = &sl->batch;
	unsigned n = b->n;
	CUresult r;

	if (!n)
		return;
	b->n = b->used = 0;
	if (sess_enter(sl) == 0) {
		r = device_launch(s->ops, b->ctx, b->stream, b->launches, n);
		sess_leave(sl);
		sess_failed(sl, WIRE_OP_launch_kernel, r);
	}
	sess_count_posted(&s->count->posts, n);
	tickets_done(&s->tickets, b->last);
}
