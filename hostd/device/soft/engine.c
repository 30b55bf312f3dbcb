/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines: one thread each for copies in, copies out, copies within the device, host
 * functions and words of memory, so that these overlap with one another and with kernels
 * as on a GPU. A thread without work is parked; one that has only words to wait for looks
 * at all of them in turn and sleeps between two rounds.
 */
#include <errno.h>

#include "base/macros.h"
#include "device/futex.h"
#include "device/soft/soft.h"

#define ROUND_NS 50000

static struct soft_op *engine_next_locked(struct soft_engine *e)
{
	struct soft_op *op;

	if (list_empty(&e->queue))
		return NULL;
	op = list_entry(e->queue.next, struct soft_op, engine);
	list_remove(&op->engine);
	return op;
}

/* Nothing has changed in a round: time passes. */
static void engine_nap_locked(struct soft_engine *e)
{
	const struct timespec nap = {.tv_nsec = ROUND_NS};
	uint32_t word = e->word;

	e->missed = NULL;
	e->parked = true;
	pthread_mutex_unlock(&e->dev->lock);
	futex_wait(&e->word, word, &nap);
	pthread_mutex_lock(&e->dev->lock);
}

static void engine_run_locked(struct soft_engine *e, struct soft_op *op)
{
	bool again = false;

	if (op == e->missed)
		engine_nap_locked(e);
	pthread_mutex_unlock(&e->dev->lock);
	if (op->kind == SOFT_OP_HOST)
		soft_host_run(op);
	else if (op->kind == SOFT_OP_WORDS)
		again = !soft_words_run(op);
	else
		soft_copy_run(op);
	pthread_mutex_lock(&e->dev->lock);
	if (!again)
		return;
	list_append(&e->queue, &op->engine);
	if (!e->missed)
		e->missed = op;
}

static void *engine_main(void *arg)
{
	struct soft_engine *e = arg;
	struct device *dev = e->dev;
	struct soft_op *op;
	uint32_t word;

	pthread_mutex_lock(&dev->lock);
	while (!e->stop) {
		op = engine_next_locked(e);
		if (!op) {
			e->parked = true;
			word = e->word;
			pthread_mutex_unlock(&dev->lock);
			futex_wait(&e->word, word, NULL);
			pthread_mutex_lock(&dev->lock);
			continue;
		}
		engine_run_locked(e, op);
	}
	pthread_mutex_unlock(&dev->lock);
	return NULL;
}

static void engine_wake_locked(struct soft_engine *e)
{
	__atomic_add_fetch(&e->word, 1, __ATOMIC_RELEASE);
	if (!e->parked)
		return;
	e->parked = false;
	futex_wake(&e->word, 1);
}

void soft_engine_queue_locked(struct soft_engine *e, struct soft_op *op)
{
	list_append(&e->queue, &op->engine);
	engine_wake_locked(e);
}

int soft_engine_start(struct soft_engine *e, struct device *dev)
{
	int r;

	*e = (struct soft_engine){.dev = dev};
	list_init(&e->queue);
	r = pthread_create(&e->thread, NULL, engine_main, e);
	e->running = r == 0;
	return -r;
}

void soft_engine_stop(struct soft_engine *e)
{
	if (!e->running)
		return;
	pthread_mutex_lock(&e->dev->lock);
	e->stop = true;
	engine_wake_locked(e);
	pthread_mutex_unlock(&e->dev->lock);
	pthread_join(e->thread, NULL);
	e->running = false;
}
