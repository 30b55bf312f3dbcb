/* SPDX-License-Identifier: Apache-2.0 */
/* User objects, and the lists of references on them: graph.users, guest_exec.users. */
#ifndef WEFT_GUEST_GRAPH_USER_H
#define WEFT_GUEST_GRAPH_USER_H

#include <stdatomic.h>

#include "base/list.h"
#include "core/guest.h"

struct user_object {
	uint64_t handle;
	_Atomic uint64_t refs; /* also dropped without the lock */
	CUhostFn destroy;
	void *ptr;
};

/* Drops count references; with the last one the destructor runs. Any thread, with the
 * lock or without. */
void user_drop(struct user_object *o, uint64_t count);

/* ---- lists; under the graphs' lock ---- */

/* Adds count references, which the caller has; OUT_OF_MEMORY. */
CUresult graph_users_hold(struct list *users, struct user_object *o, uint64_t count);
/* Takes count references out again, for the caller to drop. False: the list has not so
 * many. */
bool graph_users_release(struct list *users, const struct user_object *o, uint64_t count);
void graph_users_drop(struct list *users);
/* Drops all references of a list, which is empty afterwards, when the work queued in a
 * stream (as it travels) has run; at once if that cannot be known. */
void graph_users_drop_later(struct guest_thread *t, struct list *users, uint64_t stream);
/* Adds the references of another list; OUT_OF_MEMORY. */
CUresult graph_users_copy(struct list *to, const struct list *from);

#endif
