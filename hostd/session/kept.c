/* SPDX-License-Identifier: Apache-2.0 */
#include "session/command.h"

/* Moves what is kept to ret_objs, which has room for KEPT_SLOTS. Returns how many. */
static unsigned empty(struct kept *k, struct sess_obj **ret_objs)
{
	unsigned n = 0;

	for (unsigned i = 0; i < KEPT_SLOTS && k->n; i++) {
		struct kept_slot *slot = &k->slots[i];

		if (!slot->obj)
			continue;
		ret_objs[n++] = slot->obj;
		*slot = (struct kept_slot){0};
		k->n--;
	}
	return n;
}

static void put_all(struct session *s, struct sess_obj **objs, unsigned n)
{
	while (n)
		obj_put(s, objs[--n]);
}

void kept_drop(struct sess_lane *sl)
{
	struct sess_obj *objs[KEPT_SLOTS];

	batch_end(sl); /* it names what is kept */
	put_all(sl->s, objs, empty(&sl->kept, objs));
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

void kept_lend(struct sess_lane *sl)
{
	struct kept *k = &sl->kept;

	batch_end(sl);
	if (!k->n)
		return;
	pthread_mutex_lock(&sl->asleep_lock);
	k->lending = k->lent = true;
	/* Under the lock: who sweeps never takes back what is not counted yet. */
	atomic_fetch_add(&sl->s->lent, 1);
	pthread_mutex_unlock(&sl->asleep_lock);
	/* seq_cst, as above and in obj_take(): one of the two sides sees the other. */
	if (likely(k->taken == atomic_load(&sl->s->objs.taken)))
		return;
	kept_back(sl);
	kept_check(sl);
}

static void unlend_locked(struct session *s, struct kept *k)
{
	k->lent = false;
	atomic_fetch_sub(&s->lent, 1);
}

void kept_back(struct sess_lane *sl)
{
	struct kept *k = &sl->kept;

	if (!k->lending)
		return;
	pthread_mutex_lock(&sl->asleep_lock);
	if (k->lent)
		unlend_locked(sl->s, k);
	pthread_mutex_unlock(&sl->asleep_lock);
	k->lending = false;
}

/* Returns how many objects it moved to ret_objs. */
static unsigned take_lent_locked(struct session *s, struct sess_lane *sl,
				 struct sess_obj **ret_objs)
{
	unsigned n = 0;

	if (!sl || sl == SESS_LANE_RESERVED)
		return 0;
	pthread_mutex_lock(&sl->asleep_lock);
	if (sl->kept.lent) {
		n = empty(&sl->kept, ret_objs);
		unlend_locked(s, &sl->kept);
	}
	pthread_mutex_unlock(&sl->asleep_lock);
	return n;
}

void kept_sweep(struct session *s)
{
	struct sess_obj *objs[KEPT_SLOTS];

	for (unsigned i = 0; i < SESS_LANES_MAX && atomic_load(&s->lent); i++) {
		unsigned n;

		pthread_mutex_lock(&s->lanes_lock);
		n = take_lent_locked(s, s->lanes[i], objs);
		pthread_mutex_unlock(&s->lanes_lock);
		put_all(s, objs, n);
	}
}
