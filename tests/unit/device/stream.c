/* SPDX-License-Identifier: Apache-2.0 */
/* device_ops: the order of work in streams, events, host functions. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

/* Appends a letter to a text when its stream gets there. */
struct note {
	struct fix *f;
	struct notes *to;
	char letter;
};

struct notes {
	pthread_mutex_t lock;
	char text[64];
	size_t n;
};

static void note_run(void *arg, uint64_t token)
{
	struct note *n = arg;

	pthread_mutex_lock(&n->to->lock);
	n->to->text[n->to->n++] = n->letter;
	pthread_mutex_unlock(&n->to->lock);
	if (token)
		n->f->ops->stream.host_func_done(n->f->dev, token);
	free(n);
}

static void note_put(struct fix *f, struct dev_stream *st, struct notes *to, char letter)
{
	struct note *n = malloc(sizeof(*n));

	*n = (struct note){f, to, letter};
	OK(f->ops->stream.host_func(f->ctx, st, note_run, n));
}

static void stream_new(struct fix *f, unsigned flags, struct dev_stream **st)
{
	OK(f->ops->stream.create(f->ctx, flags, 0, st));
}

DEVICE_TEST(device_stream, a_stream_keeps_its_order)
{
	struct notes notes = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct dev_stream *st;

	stream_new(f, 0, &st);
	for (int i = 0; i < 26; i++)
		note_put(f, st, &notes, (char)('a' + i));
	OK(f->ops->stream.synchronize(f->ctx, st));
	cr_assert(!strcmp(notes.text, "abcdefghijklmnopqrstuvwxyz"), "%s", notes.text);
	f->ops->stream.destroy(st);
}

DEVICE_TEST(device_stream, streams_go_on_beside_a_waiting_one)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_stream *a, *b;
	struct block block;
	uint32_t v = 7;

	stream_new(f, 0, &a);
	stream_new(f, 0, &b);
	block_put(f, a, &block);
	block_wait(&block);
	OK(f->ops->copy.write(f->ctx, b, m.addr, &v, sizeof(v)));
	OK(f->ops->stream.synchronize(f->ctx, b));
	FAILS(f->ops->stream.query(f->ctx, a), CUDA_ERROR_NOT_READY);
	OK(f->ops->stream.query(f->ctx, b));
	block_release(&block);
	OK(f->ops->stream.synchronize(f->ctx, a));
	OK(f->ops->stream.query(f->ctx, a));
	f->ops->stream.destroy(a);
	f->ops->stream.destroy(b);
	fix_free(f, &m);
}

DEVICE_TEST(device_stream, the_legacy_stream_waits_for_blocking_ones)
{
	struct notes notes = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct dev_stream *a, *free_one;
	struct block block;

	stream_new(f, 0, &a);
	stream_new(f, DEV_STREAM_NON_BLOCKING, &free_one);
	block_put(f, a, &block);
	note_put(f, NULL, &notes, '2'); /* after a */
	note_put(f, a, &notes, '3');    /* after the legacy stream */
	note_put(f, free_one, &notes, '1');
	OK(f->ops->stream.synchronize(f->ctx, free_one));
	FAILS(f->ops->stream.query(f->ctx, NULL), CUDA_ERROR_NOT_READY);
	cr_assert(!strcmp(notes.text, "1"), "%s", notes.text);
	block_release(&block);
	OK(f->ops->ctx.synchronize(f->ctx));
	cr_assert(!strcmp(notes.text, "123"), "%s", notes.text);
	f->ops->stream.destroy(a);
	f->ops->stream.destroy(free_one);
}

DEVICE_TEST(device_stream, synchronising_the_legacy_stream_waits_for_blocking_ones)
{
	struct notes notes = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct dev_stream *st[8];

	for (size_t i = 0; i < ARRAY_SIZE(st); i++) {
		stream_new(f, 0, &st[i]);
		note_put(f, st[i], &notes, 'x');
	}
	OK(f->ops->stream.synchronize(f->ctx, NULL));
	cr_assert(notes.n == 8);
	for (size_t i = 0; i < ARRAY_SIZE(st); i++)
		f->ops->stream.destroy(st[i]);
}

DEVICE_TEST(device_stream, an_event_orders_two_streams)
{
	struct notes notes = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct dev_stream *a, *b;
	struct dev_event *ev;
	struct block block;

	stream_new(f, DEV_STREAM_NON_BLOCKING, &a);
	stream_new(f, DEV_STREAM_NON_BLOCKING, &b);
	OK(f->ops->event.create(f->ctx, CU_EVENT_DISABLE_TIMING, &ev));
	OK(f->ops->event.query(ev)); /* never recorded */
	OK(f->ops->stream.wait_event(f->ctx, b, ev));
	block_put(f, a, &block);
	note_put(f, a, &notes, '1');
	OK(f->ops->event.record(f->ctx, ev, a));
	OK(f->ops->stream.wait_event(f->ctx, b, ev));
	note_put(f, b, &notes, '2');
	FAILS(f->ops->event.query(ev), CUDA_ERROR_NOT_READY);
	/* A later record does not move what was waited for. */
	note_put(f, a, &notes, '1');
	block_release(&block);
	OK(f->ops->event.synchronize(ev));
	OK(f->ops->event.query(ev));
	OK(f->ops->stream.synchronize(f->ctx, b));
	OK(f->ops->stream.synchronize(f->ctx, a));
	cr_assert(notes.text[0] == '1' && notes.n == 3 && strchr(notes.text, '2'), "%s",
		  notes.text);
	f->ops->event.destroy(ev);
	f->ops->stream.destroy(a);
	f->ops->stream.destroy(b);
}

DEVICE_TEST(device_stream, waiting_takes_the_record_of_that_moment)
{
	struct notes notes = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct dev_stream *a, *b;
	struct dev_event *ev;
	struct block first, second;

	stream_new(f, DEV_STREAM_NON_BLOCKING, &a);
	stream_new(f, DEV_STREAM_NON_BLOCKING, &b);
	OK(f->ops->event.create(f->ctx, 0, &ev));
	block_put(f, a, &first);
	OK(f->ops->event.record(f->ctx, ev, a));
	OK(f->ops->stream.wait_event(f->ctx, b, ev));
	block_put(f, a, &second);
	OK(f->ops->event.record(f->ctx, ev, a)); /* again, later */
	note_put(f, b, &notes, 'b');
	block_release(&first);
	OK(f->ops->stream.synchronize(f->ctx, b)); /* must not need the second */
	cr_assert(notes.n == 1);
	FAILS(f->ops->event.query(ev), CUDA_ERROR_NOT_READY);
	block_release(&second);
	OK(f->ops->event.synchronize(ev));
	f->ops->event.destroy(ev);
	f->ops->stream.destroy(a);
	f->ops->stream.destroy(b);
}

DEVICE_TEST(device_stream, events_measure_time)
{
	struct dev_event *start, *end, *untimed;
	struct dev_stream *st;
	struct block block;
	float ms = -1;

	stream_new(f, 0, &st);
	OK(f->ops->event.create(f->ctx, 0, &start));
	OK(f->ops->event.create(f->ctx, CU_EVENT_BLOCKING_SYNC, &end));
	OK(f->ops->event.create(f->ctx, CU_EVENT_DISABLE_TIMING, &untimed));
	FAILS(f->ops->event.elapsed(start, end, &ms), CUDA_ERROR_INVALID_HANDLE);
	OK(f->ops->event.record(f->ctx, start, st));
	block_put(f, st, &block);
	OK(f->ops->event.record(f->ctx, end, st));
	OK(f->ops->event.record(f->ctx, untimed, st));
	FAILS(f->ops->event.elapsed(start, end, &ms), CUDA_ERROR_NOT_READY);
	usleep(20000);
	block_release(&block);
	OK(f->ops->event.synchronize(end));
	OK(f->ops->event.elapsed(start, end, &ms));
	cr_assert(ms >= 19 && ms < 2000, "%f", (double)ms);
	OK(f->ops->event.synchronize(untimed));
	FAILS(f->ops->event.elapsed(start, untimed, &ms), CUDA_ERROR_INVALID_HANDLE);
	f->ops->event.destroy(start);
	f->ops->event.destroy(end);
	f->ops->event.destroy(untimed);
	f->ops->stream.destroy(st);
}

DEVICE_TEST(device_stream, things_may_be_destroyed_while_in_use)
{
	struct notes notes = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct dev_stream *a, *b;
	struct dev_event *ev;
	struct block block;

	stream_new(f, 0, &a);
	stream_new(f, 0, &b);
	OK(f->ops->event.create(f->ctx, 0, &ev));
	block_put(f, a, &block);
	OK(f->ops->event.record(f->ctx, ev, a));
	OK(f->ops->stream.wait_event(f->ctx, b, ev));
	note_put(f, b, &notes, 'b');
	f->ops->event.destroy(ev);
	f->ops->stream.destroy(b);
	f->ops->stream.destroy(a);
	block_release(&block);
	OK(f->ops->ctx.synchronize(f->ctx));
	cr_assert(notes.n == 1);
}

static void put_null(void *arg, uint64_t token)
{
	struct fix *f = arg;

	f->ops->stream.host_func_done(f->dev, token);
}

struct flood {
	struct fix *f;
	struct dev_stream *st;
	int queued;
};

static void *flood_main(void *arg)
{
	struct flood *p = arg;
	struct fix *f = p->f;

	for (int i = 0; i < 5000; i++) {
		OK(f->ops->stream.host_func(f->ctx, p->st, put_null, f));
		__atomic_add_fetch(&p->queued, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

SOFT_TEST(device_stream, a_queue_is_bounded)
{
	struct flood p = {.f = f};
	struct block block;
	pthread_t t;
	int queued;

	stream_new(f, 0, &p.st);
	block_put(f, p.st, &block);
	block_wait(&block);
	pthread_create(&t, NULL, flood_main, &p);
	while (__atomic_load_n(&p.queued, __ATOMIC_ACQUIRE) < 500)
		usleep(1000);
	usleep(100000);
	queued = __atomic_load_n(&p.queued, __ATOMIC_ACQUIRE);
	cr_assert_leq(queued, 2000);
	block_release(&block);
	pthread_join(t, NULL);
	OK(f->ops->stream.synchronize(f->ctx, p.st));
	f->ops->stream.destroy(p.st);
}

struct waiter {
	struct fix *f;
	struct dev_stream *st;
	struct dev_event *ev;
};

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;
	struct fix *f = w->f;

	OK(f->ops->stream.wait_event(f->ctx, w->st, w->ev));
	return NULL;
}

/* An event's target goes while a full stream has no room for the wait (ASan looks). */
SOFT_TEST(device_stream, a_wait_for_room_keeps_what_it_is_for)
{
	struct waiter w = {.f = f};
	struct dev_stream *gone, *other;
	struct block full, last;
	pthread_t t;

	stream_new(f, DEV_STREAM_NON_BLOCKING, &w.st);
	stream_new(f, DEV_STREAM_NON_BLOCKING, &gone);
	stream_new(f, DEV_STREAM_NON_BLOCKING, &other);
	OK(f->ops->event.create(f->ctx, 0, &w.ev));
	block_put(f, w.st, &full);
	for (int i = 1; i < 1024; i++)
		OK(f->ops->stream.host_func(f->ctx, w.st, put_null, f));
	block_put(f, gone, &last);
	OK(f->ops->event.record(f->ctx, w.ev, gone));
	f->ops->stream.destroy(gone);
	pthread_create(&t, NULL, waiter_main, &w);
	usleep(100000); /* it stands there by now, else this shows nothing */
	block_release(&last);
	OK(f->ops->event.record(f->ctx, w.ev, other));
	block_release(&full);
	pthread_join(t, NULL);
	OK(f->ops->ctx.synchronize(f->ctx));
	f->ops->event.destroy(w.ev);
	f->ops->stream.destroy(w.st);
	f->ops->stream.destroy(other);
}

DEVICE_TEST(device_stream, results_are_seen_by_host_functions)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_copy_2d copy = {
		.dst = DEVICE_HOST_BASE, .src = m.addr, .width = 4, .height = 1};
	int fd = fd_memfd("test", DEVICE_HOST_GRAIN);
	uint32_t in = 42,
		 *out = mmap(NULL, DEVICE_HOST_GRAIN, PROT_READ, MAP_SHARED, fd, 0);
	struct dev_stream *st;
	struct block block;

	cr_assert_neq(out, MAP_FAILED);
	OK(f->ops->memory.host_map(f->ctx, copy.dst, DEVICE_HOST_GRAIN, fd, 0));
	stream_new(f, 0, &st);
	OK(f->ops->copy.write(f->ctx, st, m.addr, &in, sizeof(in)));
	OK(f->ops->copy.rows(f->ctx, st, &copy));
	block_put(f, st, &block);
	block_wait(&block);
	cr_assert_eq(*out, 42);
	block_release(&block);
	OK(f->ops->stream.synchronize(f->ctx, st));
	OK(f->ops->memory.host_unmap(f->ctx, copy.dst));
	f->ops->stream.destroy(st);
	fix_free(f, &m);
	munmap(out, DEVICE_HOST_GRAIN);
	close(fd);
}

DEVICE_TEST(device_stream, flags_are_checked)
{
	struct dev_stream *st;
	struct dev_event *ev;

	FAILS(f->ops->stream.create(f->ctx, 0x80, 0, &st), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->event.create(f->ctx, 0x80, &ev), CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->stream.create(f->ctx, 0, -1000, &st)); /* clamped, as CUDA does */
	f->ops->stream.destroy(st);
	f->ops->stream.host_func_done(f->dev, 12345678); /* unknown: ignored */
}

struct worker {
	struct fix *f;
	struct fix_mem *m;
	unsigned number;
	bool ok;
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct fix *f = w->f;
	CUdeviceptr at = w->m->addr + w->number * 4096;
	struct dev_stream *st;
	struct dev_event *ev;

	stream_new(f, w->number & 1 ? DEV_STREAM_NON_BLOCKING : 0, &st);
	OK(f->ops->event.create(f->ctx, 0, &ev));
	w->ok = true;
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t v[4] = {i, i, i, i}, out[4];
		struct dev_copy_2d c = {
			.dst = at + 1024, .src = at, .width = sizeof(v), .height = 1};

		OK(f->ops->copy.write(f->ctx, i % 3 ? st : NULL, at, v, sizeof(v)));
		OK(f->ops->copy.rows(f->ctx, st, &c));
		OK(f->ops->event.record(f->ctx, ev, st));
		OK(f->ops->stream.wait_event(f->ctx, NULL, ev));
		OK(f->ops->copy.read(f->ctx, i % 5 ? NULL : st, out, at + 1024,
				     sizeof(out)));
		w->ok &= !memcmp(v, out, sizeof(v));
	}
	f->ops->event.destroy(ev);
	f->ops->stream.destroy(st);
	return NULL;
}

DEVICE_TEST(device_stream, many_threads_share_a_context)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct worker w[8];
	pthread_t t[8];

	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct worker){.f = f, .m = &m, .number = i};
		pthread_create(&t[i], NULL, worker_main, &w[i]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		pthread_join(t[i], NULL);
		cr_assert(w[i].ok);
	}
	OK(f->ops->ctx.synchronize(f->ctx));
	fix_free(f, &m);
}

DEVICE_TEST(device_stream, attributes_and_limits)
{
	size_t value = 0;
	int v = 0;

	OK(f->ops->attribute(f->dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE, &v));
	cr_assert(v == 32);
	OK(f->ops->attribute(f->dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &v));
	cr_assert((unsigned)v == f->info.n_sms);
	for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX && f->soft; a++)
		OK(f->ops->attribute(f->dev, (CUdevice_attribute)a, &v));
	FAILS(f->ops->attribute(f->dev, CU_DEVICE_ATTRIBUTE_MAX, &v),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->attribute(f->dev, 0, &v), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->attribute(f->dev, (CUdevice_attribute)-1, &v),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->ctx.set_limit(f->ctx, CU_LIMIT_STACK_SIZE, 4096));
	OK(f->ops->ctx.get_limit(f->ctx, CU_LIMIT_STACK_SIZE, &value));
	cr_assert(value == 4096);
	OK(f->ops->ctx.get_limit(f->ctx, CU_LIMIT_MALLOC_HEAP_SIZE, &value));
	cr_assert(value == 8 << 20);
	FAILS(f->ops->ctx.set_limit(f->ctx, CU_LIMIT_STACK_SIZE, 512 << 10),
	      CUDA_ERROR_INVALID_VALUE); /* times all threads: more than the memory */
	FAILS(f->ops->ctx.set_limit(f->ctx, CU_LIMIT_SHMEM_SIZE, 1),
	      CUDA_ERROR_NOT_PERMITTED);
	FAILS(f->ops->ctx.get_limit(f->ctx, CU_LIMIT_MAX, &value),
	      CUDA_ERROR_INVALID_VALUE);
}
