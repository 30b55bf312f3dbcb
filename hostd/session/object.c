/* SPDX-License-Identifier: Apache-2.0 */
/* Life of an object: its references, and its end. */
#include <stdlib.h>

#include "base/macros.h"
#include "session/object.h"
#include "session/command.h"

void *obj_new(enum handle_type type, uint64_t h, size_t size, struct sess_ctx *ctx,
	      void (*fini)(struct session *, struct sess_obj *))
{
	struct sess_obj *o = calloc(1, size);

	if (!o)
		return NULL;
	atomic_init(&o->refs, 1);
	o->type = type;
	o->handle = h;
	o->fini = fini;
	list_init(&o->in_ctx);
	if (ctx) {
		obj_ref(&ctx->obj);
		o->ctx = ctx;
	}
	return o;
}

bool obj_ref_live(struct sess_obj *o)
{
	unsigned n = atomic_load_explicit(&o->refs, memory_order_relaxed);

	while (n) {
		if (atomic_compare_exchange_weak_explicit(&o->refs, &n, n + 1,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

void obj_put(struct session *s, struct sess_obj *o)
{
	struct sess_ctx *ctx;

	/* acq_rel: what other holders did to the object comes before its end. */
	if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
		return;
	ctx = o->ctx;
	if (o->fini)
		o->fini(s, o);
	free(o);
	if (ctx)
		obj_put(s, &ctx->obj);
}
