/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages: pinned memory through which graphs copy from and to memory that the device does
 * not see. Each executable graph has some of its own, so launches that overlap do not
 * meet in it. It stays until what still has to run in this process has run. Giving it
 * back waits for the device, so it is not done under the lock: a host function of the
 * program may be what the device waits for.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "graph/exec.h"
#include "graph/host.h"
#include "object/hostmem.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what is dying */
static struct list dying = {&dying, &dying};
static _Atomic unsigned n_dying;

struct exec_stage *exec_stage_new(struct guest_thread *t, struct guest_exec *x,
				  size_t size)
{
	struct exec_stage *s = calloc(1, sizeof(*s));
	uint64_t dev;

	if (!s)
		return NULL;
	if (hostmem_alloc_own(t, size, &s->p)) {
		free(s);
		return NULL;
	}
	s->refs = 1;
	list_append(&x->stages, &s->link);
	if (hostmem_view((uintptr_t)s->p, size, &dev) != HOSTMEM_SHARED)
		return NULL; /* ordinary memory: it goes with the rest */
	return s;
}

void exec_stage_ref(struct exec_stage *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void exec_stage_put(struct exec_stage *s)
{
	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
		return;
	pthread_mutex_lock(&lock);
	list_append(&dying, &s->link);
	atomic_fetch_add_explicit(&n_dying, 1, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
}

void exec_stages_drop(struct guest_exec *x)
{
	struct exec_stage *s, *tmp;

	list_for_each_safe (s, tmp, &x->stages, link) {
		list_remove(&s->link);
		exec_stage_put(s);
	}
}

void graph_stage_flush(struct guest_thread *t)
{
	struct exec_stage *s, *tmp;
	struct list mine;

	if (likely(!atomic_load_explicit(&n_dying, memory_order_relaxed)))
		return;
	list_init(&mine);
	pthread_mutex_lock(&lock);
	list_for_each_safe (s, tmp, &dying, link) {
		list_remove(&s->link);
		list_append(&mine, &s->link);
		atomic_fetch_sub_explicit(&n_dying, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&lock);
	list_for_each_safe (s, tmp, &mine, link) {
		hostmem_free(t, s->p);
		free(s);
	}
}
