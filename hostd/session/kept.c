/* SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

void kept_drop(struct sess_lane *sl)
{
	struct kept *k = &sl->kept;

	batch_end(sl); /* it names what is kept */
	for (unsigned i = 0; i < KEPT_SLOTS && k->n; i++) {
		struct sess_obj *o = k->slots[i].obj;

		if (!o)
			continue;
		k->slots[i] = (struct kept_slot){0};
		k->n--;
		obj_put(sl->s, o);
	}
}

void kept_check(struct sess_lane *sl)
{
	uint64_t taken = obj_taken(&sl->s->objs);

	if (likely(sl->kept.taken == taken))
		return;
	kept_drop(sl);
	/* Not what it is by now: the end of an object may take others out. */
	sl->kept.taken = taken;
}

void kept_put(struct sess_lane *sl, uint64_t key, struct sess_obj *o,
	      struct dev_func *dev)
{
	struct kept_slot *slot = kept_slot(&sl->kept, key);
	struct sess_obj *before = slot->obj;

	if (before)
		batch_end(sl);
	*slot = (struct kept_slot){.key = key, .obj = o, .dev = dev};
	sl->kept.n += !before;
	obj_put(sl->s, before);
}
