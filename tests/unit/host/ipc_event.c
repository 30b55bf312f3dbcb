/* SPDX-License-Identifier: Apache-2.0 */
/* Events between processes: when they get a name, and what must not wait for that. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "fake.h"
#include "session/ipc_event.h"

#define PAGE_BYTES 4096

static struct session *s;
static struct ipc_events *e;
static int file = -1; /* of the event named last */
static unsigned asked;
static void (*while_asking)(void);

static int export(void *arg, const struct share_part *x, uint8_t *name)
{
	asked++;
	if (while_asking)
		while_asking();
	closep(&file);
	file = dup(x->fd);
	memset(name, (int)asked, 16);
	return 0;
}

static void drop(void *arg, const uint8_t *name)
{
}

/* The stream gets there when the test says so. */
static struct device_ops ops;
static struct {
	void (*fn)(void *arg, uint64_t token);
	void *arg;
} queued[4];
static unsigned n_queued, n_run;

static CUresult host_func(struct dev_ctx *ctx, struct dev_stream *st,
			  void (*fn)(void *arg, uint64_t token), void *arg)
{
	queued[n_queued].fn = fn;
	queued[n_queued++].arg = arg;
	return CUDA_SUCCESS;
}

static void host_func_done(struct device *dev, uint64_t token)
{
}

static void run_next(void)
{
	cr_assert_lt(n_run, n_queued);
	queued[n_run].fn(queued[n_run].arg, n_run + 1);
	n_run++;
}

static void setup(void)
{
	s = fake_session();
	ops = *s->ops;
	ops.stream.host_func = host_func;
	ops.stream.host_func_done = host_func_done;
	s->ops = &ops;
	s->accounts.ipc_export = export;
	s->accounts.ipc_drop = drop;
	e = s->ipc_events;
}

static void teardown(void)
{
	closep(&file);
	sess_free(s);
}

TestSuite(ipc_event, .init = setup, .fini = teardown, .timeout = 20);

static struct share_event *page_of_file(void)
{
	void *p = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);

	cr_assert_neq(p, MAP_FAILED);
	return p;
}

static void *end_it(void *arg)
{
	ipc_events_end(e);
	return NULL;
}

/* Plays the main thread of a worker whose program dies at that moment. */
static void end_while_asking(void)
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, end_it, NULL), 0);
	pthread_join(t, NULL);
}

Test(ipc_event, the_session_may_end_while_weftd_is_asked)
{
	struct ipc_event *ev = ipc_event_new(e);
	uint8_t name[16];

	while_asking = end_while_asking;
	cr_assert_eq(ipc_event_export(e, ev, name), CUDA_SUCCESS);
	while_asking = NULL;
	ipc_event_close(e, ev);
}

/* None of them takes anything of which there is little. */
Test(ipc_event, as_many_as_one_likes_without_a_name)
{
	static struct ipc_event *ev[2 * IPC_EVENTS_MAX];
	int before = dup(0), after;

	for (unsigned i = 0; i < ARRAY_SIZE(ev); i++)
		cr_assert_not_null(ev[i] = ipc_event_new(e));
	close(before);
	after = dup(0);
	cr_assert_eq(after, before, "no descriptor");
	close(after);
	cr_assert_eq(asked, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(ev); i++)
		ipc_event_close(e, ev[i]);
}

Test(ipc_event, names_have_an_end)
{
	static struct ipc_event *ev[IPC_EVENTS_MAX + 1];
	uint8_t name[16];

	for (unsigned i = 0; i < ARRAY_SIZE(ev); i++) {
		CUresult r;

		ev[i] = ipc_event_new(e);
		r = ipc_event_export(e, ev[i], name);
		cr_assert_eq(r, i < IPC_EVENTS_MAX ? CUDA_SUCCESS
						   : CUDA_ERROR_OUT_OF_MEMORY);
	}
	ipc_event_close(e, ev[0]);
	cr_assert_eq(ipc_event_export(e, ev[IPC_EVENTS_MAX], name), CUDA_SUCCESS);
	for (unsigned i = 1; i < ARRAY_SIZE(ev); i++)
		ipc_event_close(e, ev[i]);
}

/* Records made before it had a name count, and those under way go where others look. */
Test(ipc_event, records_before_the_name)
{
	struct dev_ctx *ctx = s->primary->dev;
	struct ipc_event *ev = ipc_event_new(e);
	uint8_t name[16], again[16];
	struct share_event *page;

	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(ipc_event_record(e, ev, ctx, NULL), CUDA_SUCCESS);
	run_next();
	cr_assert_eq(ipc_event_export(e, ev, name), CUDA_SUCCESS);
	page = page_of_file();
	cr_assert_eq(atomic_load(&page->recorded), 3);
	cr_assert_eq(atomic_load(&page->done), 1);
	run_next();
	cr_assert_eq(atomic_load(&page->done), 2);
	cr_assert_eq(ipc_event_query(e, ev), CUDA_ERROR_NOT_READY);
	run_next();
	cr_assert_eq(atomic_load(&page->done), 3);
	cr_assert_eq(ipc_event_query(e, ev), CUDA_SUCCESS);
	cr_assert_eq(ipc_event_export(e, ev, again), CUDA_SUCCESS);
	cr_assert_eq(memcmp(name, again, sizeof(name)), 0);
	cr_assert_eq(asked, 1);
	munmap(page, PAGE_BYTES);
	ipc_event_close(e, ev);
}
