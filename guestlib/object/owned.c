/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "object/context.h"
#include "object/owned.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void owned_add(struct guest_ctx *c, struct owned *o, void (*drop)(struct owned *o))
{
	o->drop = drop;
	list_init(&o->link);
	pthread_mutex_lock(&lock);
	/* One that has ended meanwhile will not look here again. */
	if (c && atomic_load(&c->alive))
		list_append(&c->owned, &o->link);
	pthread_mutex_unlock(&lock);
}

void owned_remove(struct owned *o)
{
	pthread_mutex_lock(&lock);
	list_remove(&o->link);
	pthread_mutex_unlock(&lock);
}

static struct owned *pop(struct list *all)
{
	struct owned *o = NULL;

	pthread_mutex_lock(&lock);
	if (!list_empty(all)) {
		o = list_entry(all->next, struct owned, link);
		list_remove(&o->link);
	}
	pthread_mutex_unlock(&lock);
	return o;
}

void owned_take_all(struct guest_ctx *c, struct list *ret_all)
{
	pthread_mutex_lock(&lock);
	list_insert_after(&c->owned, ret_all);
	list_remove(&c->owned); /* the others have a new head */
	pthread_mutex_unlock(&lock);
}

void owned_drop_all(struct list *all)
{
	struct owned *o;

	while ((o = pop(all)))
		o->drop(o);
}
