/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the real driver wait while a launch holds its locks, and that may wait for a host
 * function: one that has run is told of without the driver. By our own library as the driver. */
#include <semaphore.h>

#include "device/cuda/driver.h"
#include "test.h"

static sem_t asked, answered;
static CUresult(CUDAAPI *query)(CUstream);

static CUresult CUDAAPI slow_query(CUstream st)
{
	sem_post(&asked);
	sem_wait(&answered);
	return query(st);
}

static void *look(void *arg)
{
	struct fix *f = arg;

	(void)f->ops->pending(f->dev);
	return NULL;
}

DEVICE_TEST(device_waits, host_functions_end_while_the_driver_waits)
{
	pthread_t thread;
	struct block b;

	if (f->soft)
		return;
	sem_init(&asked, 0, 0);
	sem_init(&answered, 0, 0);
	block_put(f, NULL, &b);
	block_wait(&b);
	query = cu.cuStreamQuery;
	cu.cuStreamQuery = slow_query;
	cr_assert_eq(pthread_create(&thread, NULL, look, f), 0);
	sem_wait(&asked);
	alarm(20); /* waits for ever if it waits */
	block_release(&b);
	alarm(0);
	cu.cuStreamQuery = query;
	sem_post(&answered);
	pthread_join(thread, NULL);
	OK(f->ops->stream.synchronize(f->ctx, NULL));
}
