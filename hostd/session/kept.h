/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that the posted commands of a lane named lately. The lane keeps a reference on
 * each, so the next command finds it again without a lock.
 *
 * Nothing that is destroyed stays for that: all is let go of when any object of the
 * session has left its table, and before the lane sleeps. A command that may wait lends
 * it: whoever takes an object out of its table meanwhile lets go of all that is lent.
 *
 * Used by the lane's own thread only, but for what is lent, which lies under
 * sess_lane.asleep_lock and is not looked at by its lane.
 */
#ifndef WEFT_SESS_KEPT_H
#define WEFT_SESS_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "session/object.h"

struct sess_lane;

#define KEPT_SLOTS 64u

/* Keys: of a handle's object, and of a kernel in the context where it was used last (obj
 * is the instance, and dev belongs to it). */
#define KEPT_OBJECT(handle) (handle)
#define KEPT_KERNEL(handle) ((handle) | 1)

struct kept {
	uint64_t taken; /* of the object table when these were found there */
	unsigned n;     /* slots in use */
	bool lending;   /* the lane's command may wait; its own thread's */
	bool lent;      /* and nobody has let go of it yet; under sess_lane.asleep_lock */
	struct kept_slot {
		uint64_t key; /* 0: empty */
		struct sess_obj *obj;
		struct dev_func *dev;
	} slots[KEPT_SLOTS];
};

/* Guests number objects of each type from 0: types are to lie apart. */
static inline struct kept_slot *kept_slot(struct kept *k, uint64_t key)
{
	uint64_t index = key >> 4, type = key >> 36, kernel = key & 1;

	return &k->slots[(index + type * 21 + kernel * KEPT_SLOTS / 2) % KEPT_SLOTS];
}

/* Returns the slot kept under a key, good until the command ends; NULL: none. */
static inline const struct kept_slot *kept_find(struct kept *k, const struct obj_table *t,
						uint64_t key)
{
	const struct kept_slot *slot = kept_slot(k, key);

	return !k->lending && slot->key == key && k->taken == obj_taken(t) ? slot : NULL;
}

/* Takes the reference over. Not while a command runs: it may be using what was kept in
 * the same place. */
void kept_put(struct sess_lane *sl, uint64_t key, struct sess_obj *o,
	      struct dev_func *dev);

/* Lets go of what is stale; of all of it. */
void kept_check(struct sess_lane *sl);
void kept_drop(struct sess_lane *sl);

/* Around a command that may wait. Ends the lane's batch. */
void kept_lend(struct sess_lane *sl);
void kept_back(struct sess_lane *sl);

/* Lets go of what the session's lanes have lent: an object has left its table. Any thread,
 * with neither session.lanes_lock nor a lane's rest held. */
void kept_sweep(struct session *s);

#endif
