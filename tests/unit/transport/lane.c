/* SPDX-License-Identifier: Apache-2.0 */
/* Promises of a lane, on both carriers. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

#define OP 7

/* ---- workers ---- */

/* Echoes body and payload of calls; counts posts in the second word of the reply. */
static void *echo(void *arg)
{
	struct lane *l = arg;
	struct lane_msg m;
	uint64_t posts = 0;

	while (lane_recv(l, &m) == 0) {
		void *to;
		char *body;

		if (m.hdr.flags & WIRE_F_ASYNC) {
			posts++;
			continue;
		}
		body = lane_reply_begin(l, 0, m.body_size + 16, m.payload_size, &to);
		if (!body)
			break;
		memcpy(body + 8, &posts, 8);
		memcpy(body + 16, m.body, m.body_size);
		if (m.payload_size)
			memcpy(to, m.payload, m.payload_size);
		if (lane_reply(l) < 0)
			break;
	}
	return NULL;
}

/* Answers with as many records as the body's first word says, output text before each. */
static void *many(void *arg)
{
	struct lane *l = arg;
	struct lane_msg m;

	while (lane_recv(l, &m) == 0) {
		uint64_t n = *(const uint64_t *)m.body;

		for (uint64_t i = 0; i < n; i++) {
			uint64_t *b;
			void *to;

			if (!lane_reply_begin(l, WIRE_F_OUTPUT, 0, 2, &to))
				return NULL;
			memcpy(to, "hi", 2);
			if (lane_reply(l) < 0)
				return NULL;
			b = lane_reply_begin(l, i + 1 < n ? WIRE_F_MORE : 0, 16, 1000,
					     &to);
			if (!b)
				return NULL;
			b[1] = i;
			memset(to, (int)i, 1000);
			if (lane_reply(l) < 0)
				return NULL;
		}
	}
	return NULL;
}

/* Takes one command and never answers it. */
static void *mute(void *arg)
{
	struct lane_msg m;

	while (lane_recv(arg, &m) == 0)
		;
	return NULL;
}

static uint64_t *begin(struct lane *l, uint32_t body, uint32_t payload, void **to)
{
	uint64_t *b = lane_begin(l, OP, body, payload, to);

	cr_assert_not_null(b);
	cr_assert_eq((uintptr_t)b % 8, 0);
	return b;
}

/* ---- what works ---- */

CARRIER_TEST(lane, echoes_bodies_of_all_sizes)
{
	struct loopback lb;
	struct lane_reply rep;
	pthread_t t;

	pair_open(&lb, carrier, 50);
	t = pair_serve(&lb, echo);
	for (uint32_t size = 8; size <= WIRE_BODY_MAX - 16;
	     size += size < 512 ? 8 : 1048) {
		memset(begin(lb.guest, size, 0, NULL), (int)size / 8, size);
		cr_assert_eq(lane_call(lb.guest, &rep), 0);
		cr_assert_eq(rep.body_size, size + 16);
		cr_assert_eq(rep.payload_size, 0);
		cr_assert(!rep.more);
		for (uint32_t i = 0; i < size; i++)
			cr_assert_eq(((const uint8_t *)rep.body)[16 + i],
				     (uint8_t)(size / 8));
	}
	pair_close(&lb, t);
}

CARRIER_TEST(lane, echoes_payloads_of_all_sizes)
{
	static const uint32_t sizes[] = {
		1,
		7,
		8,
		9,
		63,
		64,
		65,
		4095,
		4096,
		65535,
		65536,
		131072,
		99999,
		500001,
		1000000,
		WIRE_PAYLOAD_MAX - 1,
		WIRE_PAYLOAD_MAX,
	};
	struct loopback lb;
	struct lane_reply rep;
	pthread_t t;

	pair_open(&lb, carrier, 50);
	t = pair_serve(&lb, echo);
	for (unsigned i = 0; i < 4 * ARRAY_SIZE(sizes); i++) {
		uint32_t n = sizes[i * 5 % ARRAY_SIZE(sizes)];
		unsigned char *to;

		begin(lb.guest, 8, n, (void **)&to)[0] = n;
		for (uint32_t j = 0; j < n; j++)
			to[j] = (unsigned char)(j * 31 + i);
		cr_assert_eq(lane_call(lb.guest, &rep), 0);
		cr_assert_eq(rep.payload_size, n);
		for (uint32_t j = 0; j < n; j++)
			cr_assert_eq(((const unsigned char *)rep.payload)[j],
				     (unsigned char)(j * 31 + i));
	}
	pair_close(&lb, t);
}

CARRIER_TEST(lane, posts_arrive_before_the_call)
{
	struct loopback lb;
	struct lane_reply rep;
	pthread_t t;

	pair_open(&lb, carrier, 0);
	t = pair_serve(&lb, echo);
	for (uint64_t i = 1; i <= 20000; i++) {
		memset(begin(lb.guest, 64, i % 100 ? 0 : 5000, NULL), 0, 64);
		cr_assert_eq(lane_post(lb.guest), 0);
		if (i % 4000)
			continue;
		begin(lb.guest, 8, 0, NULL);
		cr_assert_eq(lane_call(lb.guest, &rep), 0);
		cr_assert_eq(((const uint64_t *)rep.body)[1], i);
	}
	pair_close(&lb, t);
}

CARRIER_TEST(lane, tickets_count_posts_and_show_in_calls)
{
	struct loopback lb;
	struct lane_msg m;

	pair_open(&lb, carrier, 0);
	for (uint64_t i = 1; i <= 3; i++) {
		begin(lb.guest, 8, 0, NULL);
		cr_assert_eq(lane_post(lb.guest), 0);
		cr_assert_eq(lane_recv(lb.worker, &m), 0);
		cr_assert_eq(m.hdr.seq, i);
		cr_assert_eq(m.hdr.flags, WIRE_F_ASYNC);
		cr_assert_eq(m.hdr.op, OP);
	}
	cr_assert_eq(lb.tickets.next, 4);
	loopback_fini(&lb);
}

static char printed[64];
static size_t n_printed;

static void print(const void *text, size_t size)
{
	cr_assert_leq(n_printed + size, sizeof(printed));
	memcpy(printed + n_printed, text, size);
	n_printed += size;
}

CARRIER_TEST(lane, replies_in_several_records_with_output)
{
	struct loopback_opts o = {.carrier = carrier, .output = print};
	struct lane_reply rep;
	struct loopback lb;
	pthread_t t;

	cr_assert_eq(loopback_init(&lb, &o), 0);
	t = pair_serve(&lb, many);
	begin(lb.guest, 8, 0, NULL)[0] = 5;
	cr_assert_eq(lane_call(lb.guest, &rep), 0);
	for (uint64_t i = 0;; i++) {
		const unsigned char *p = rep.payload;

		cr_assert_eq(((const uint64_t *)rep.body)[1], i);
		cr_assert_eq(rep.payload_size, 1000);
		cr_assert(p[0] == i && p[999] == i);
		cr_assert_eq(n_printed, 2 * (i + 1));
		cr_assert_eq(rep.more, i < 4);
		if (!rep.more)
			break;
		cr_assert_eq(lane_next(lb.guest, &rep), 0);
	}
	cr_assert_eq(memcmp(printed, "hihihihihi", 10), 0);
	cr_assert_eq(lane_next(lb.guest, &rep), -EINVAL);
	pair_close(&lb, t);
}

CARRIER_TEST(lane, unread_records_of_a_reply_are_skipped)
{
	struct lane_reply rep;
	struct loopback lb;
	pthread_t t;

	pair_open(&lb, carrier, 50);
	t = pair_serve(&lb, many);
	for (unsigned i = 0; i < 3; i++) {
		/* More than fits the rings, so the worker waits for a reader. */
		begin(lb.guest, 8, 0, NULL)[0] = 6000;
		cr_assert_eq(lane_call(lb.guest, &rep), 0);
		cr_assert(rep.more);
		cr_assert_eq(((const uint64_t *)rep.body)[1], 0);
	}
	begin(lb.guest, 8, 0, NULL)[0] = 1;
	cr_assert_eq(lane_call(lb.guest, &rep), 0);
	cr_assert(!rep.more);
	pair_close(&lb, t);
}

CARRIER_TEST(lane, sizes_beyond_the_limits_are_the_callers_mistake)
{
	struct lane_reply rep;
	struct loopback lb;
	pthread_t t;

	pair_open(&lb, carrier, 0);
	t = pair_serve(&lb, echo);
	cr_assert_null(lane_begin(lb.guest, OP, 12, 0, NULL));
	cr_assert_eq(lane_post(lb.guest), -EMSGSIZE);
	cr_assert_null(lane_begin(lb.guest, OP, WIRE_BODY_MAX + 8, 0, NULL));
	cr_assert_eq(lane_call(lb.guest, &rep), -EMSGSIZE);
	cr_assert_null(lane_begin(lb.guest, OP, 8, WIRE_PAYLOAD_MAX + 1, NULL));
	cr_assert_eq(lane_call(lb.guest, &rep), -EMSGSIZE);
	cr_assert_eq(lb.tickets.next, 1);
	/* The lane is none the worse for it. */
	cr_assert(!lane_dead(lb.guest));
	begin(lb.guest, 8, 0, NULL);
	cr_assert_eq(lane_call(lb.guest, &rep), 0);
	pair_close(&lb, t);
}

CARRIER_TEST(lane, a_post_gets_no_reply)
{
	struct loopback lb;
	struct lane_msg m;

	pair_open(&lb, carrier, 0);
	begin(lb.guest, 8, 0, NULL);
	cr_assert_eq(lane_post(lb.guest), 0);
	cr_assert_eq(lane_recv(lb.worker, &m), 0);
	cr_assert_null(lane_reply_begin(lb.worker, 0, 8, 0, NULL));
	cr_assert_eq(lane_reply(lb.worker), -EINVAL);
	loopback_fini(&lb);
}

#define IDLE_WINDOWS 10

static uint64_t ns_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

CARRIER_TEST(lane, idle_sides_use_no_processor)
{
	uint64_t took = UINT64_MAX;
	struct lane_reply rep;
	struct loopback lb;
	clockid_t clock;
	pthread_t t;

	pair_open(&lb, carrier, 50);
	t = pair_serve(&lb, echo);
	begin(lb.guest, 8, 0, NULL);
	cr_assert_eq(lane_call(lb.guest, &rep), 0);
	cr_assert_eq(pthread_getcpuclockid(t, &clock), 0);
	/* The worker may still be on its way to sleep; polling has no such window. */
	for (unsigned i = 0; i < IDLE_WINDOWS && took >= NSEC_PER_MSEC; i++) {
		uint64_t before;

		usleep(20000);
		before = ns_of(clock);
		usleep(300000);
		took = ns_of(clock) - before;
	}
	cr_assert_lt(took, NSEC_PER_MSEC);
	pair_close(&lb, t);
}

/* ---- how long to poll ---- */

/* A machine that does other things all the time lets 15 ms in one piece come sooner. */
#define BUSY_NS (50 * NSEC_PER_SEC)

struct later {
	uint64_t at_ns;
};

static int is_later(void *arg)
{
	return clock_now_ns() >= ((struct later *)arg)->at_ns;
}

/* Both sides sleeping because both sleep must not last for ever. */
Test(spin, polling_comes_back, .timeout = 60)
{
	struct later later;
	struct spin_ask ask = {.ready = is_later, .arg = &later, .batch = 4};
	uint64_t until = clock_now_ns() + BUSY_NS;
	struct spin s;

	spin_init(&s, 2000, 2);
	for (unsigned i = 0; i < 20; i++)
		spin_learn(&s, 1000 * NSEC_PER_MSEC);
	cr_assert_leq(s.budget_ns, 2000);
	/* Answers come after 0.1 ms; being scheduled away spoils a try, before it is
	 * polled (the answer is there at once) or while it is. */
	while (s.budget_ns < s.max_ns && clock_now_ns() < until) {
		later.at_ns = clock_now_ns() + 100 * NSEC_PER_USEC;
		(void)spin_poll(&s, &ask);
	}
	cr_assert_eq(s.budget_ns, s.max_ns);
}

Test(spin, short_sleeps_ask_for_more_polling)
{
	struct spin s;

	spin_init(&s, 50, 2);
	for (unsigned i = 0; i < 20; i++)
		spin_learn(&s, NSEC_PER_SEC);
	cr_assert_gt(s.budget_ns, 0);
	for (unsigned i = 0; i < 20; i++)
		spin_learn(&s, 20 * NSEC_PER_USEC);
	cr_assert_eq(s.budget_ns, 50 * NSEC_PER_USEC);
}

Test(spin, none_wanted)
{
	struct later later = {.at_ns = UINT64_MAX};
	struct spin_ask ask = {.ready = is_later, .arg = &later, .batch = 4};
	struct spin s;

	spin_init(&s, 0, 2);
	cr_assert_eq(spin_poll(&s, &ask), 0);
	spin_learn(&s, 1);
	cr_assert_eq(s.budget_ns, 0);
}

Test(spin, none_with_one_processor)
{
	struct spin s;

	spin_init(&s, 50, 1);
	cr_assert_eq(s.max_ns, 0);
}

/* Threads of OpenMP programs are pinned to a processor each. */
Test(spin, a_pinned_guest_polls)
{
	struct loopback_opts opts = {.carrier = WIRE_CARRIER_WINDOW, .spin_us = 50};
	struct loopback lb;
	cpu_set_t one;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		fprintf(stderr, "skipped: a machine with one processor\n");
		return;
	}
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	cr_assert_eq(loopback_init(&lb, &opts), 0);
	cr_expect_gt(lb.guest->spin.max_ns, 0);
	cr_expect_eq(lb.worker->spin.max_ns, 0);
	loopback_fini(&lb);
}

/* Polls in the middle of somebody else's poll. */
struct inner {
	struct spin *spin;
	struct spin_ask *ask; /* NULL: nothing is inside */
	uint64_t at_ns;
	int result;
};

static int is_later_inside(void *arg)
{
	struct inner *in = arg;

	if (clock_now_ns() < in->at_ns)
		return 0;
	if (in->ask)
		in->result = spin_poll(in->spin, in->ask);
	return 1;
}

static void linger_for_ever(struct spin *s)
{
	spin_init(s, 1000, 2);
	s->brief_ns = NSEC_PER_MSEC;
	s->max_ns = s->budget_ns = 10 * NSEC_PER_SEC;
}

/* How the third of three that linger at a time fared; -1: being scheduled away made one
 * of them give up, for which it is content with less. */
static int third_lingers(void)
{
	struct inner in[3] = {0};
	struct spin_ask ask[3];
	struct spin s[3];

	for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
		linger_for_ever(&s[i]);
		ask[i] = (struct spin_ask){
			.ready = is_later_inside, .arg = &in[i], .batch = 4};
		in[i].at_ns = clock_now_ns() + 5 * NSEC_PER_MSEC * (i + 1);
		if (i) {
			in[i - 1].spin = &s[i];
			in[i - 1].ask = &ask[i];
		}
	}
	in[2].at_ns = UINT64_MAX;
	if (!spin_poll(&s[0], &ask[0]) || !in[0].result || s[2].budget_ns < s[2].max_ns)
		return -1;
	return in[1].result;
}

Test(spin, few_linger, .timeout = 60)
{
	uint64_t until = clock_now_ns() + BUSY_NS;
	int r = -1;

	while (r < 0 && clock_now_ns() < until)
		r = third_lingers();
	cr_expect_eq(r, 0, "the third gives up after the brief time");
}

/* ---- ends ---- */

CARRIER_TEST(lane_end, worker_left_before_the_command)
{
	struct lane_reply rep;
	struct loopback lb;

	pair_open(&lb, carrier, 0);
	lane_free(lb.worker);
	lb.worker = NULL;
	(void)lane_begin(lb.guest, OP, 8, 0, NULL);
	cr_assert_eq(lane_call(lb.guest, &rep), -EPIPE);
	cr_assert(lane_dead(lb.guest));
	cr_assert_null(lane_begin(lb.guest, OP, 8, 0, NULL));
	cr_assert_eq(lane_post(lb.guest), -EPIPE);
	cr_assert_eq(lane_call(lb.guest, &rep), -EPIPE);
	loopback_fini(&lb);
}

CARRIER_TEST(lane_end, worker_leaves_between_begin_and_send)
{
	struct lane_reply rep;
	struct loopback lb;

	pair_open(&lb, carrier, 0);
	begin(lb.guest, 8, 0, NULL);
	lane_free(lb.worker);
	lb.worker = NULL;
	cr_assert_eq(lane_call(lb.guest, &rep), -EPIPE);
	loopback_fini(&lb);
}

/* A post may be swallowed by a dead worker, but not for ever, and it never blocks. */
CARRIER_TEST(lane_end, posts_to_a_dead_worker_end)
{
	struct loopback lb;
	unsigned n = 0;

	pair_open(&lb, carrier, 50);
	/* As a kill -9 has it: the socket closes, nothing else is said. */
	close(lb.worker->sock);
	while (lane_begin(lb.guest, OP, 64, 0, NULL) && lane_post(lb.guest) == 0)
		cr_assert_lt(n++, 10000);
	cr_assert_eq(lane_post(lb.guest), -EPIPE);
	lane_disown(lb.worker);
	lb.worker = NULL;
	loopback_fini(&lb);
}

static void *die_after_one(void *arg)
{
	struct lane_msg m;

	cr_assert_eq(lane_recv(arg, &m), 0);
	usleep(20000);
	shutdown(((struct lane *)arg)->sock, SHUT_RDWR); /* says nothing in the window */
	return NULL;
}

CARRIER_TEST(lane_end, worker_dies_while_the_guest_waits)
{
	struct lane_reply rep;
	struct loopback lb;
	pthread_t t;

	pair_open(&lb, carrier, 50);
	t = pair_serve(&lb, die_after_one);
	begin(lb.guest, 8, 0, NULL);
	cr_assert_eq(lane_call(lb.guest, &rep), -EPIPE);
	pthread_join(t, NULL);
	loopback_fini(&lb);
}

static void *die_amid_a_reply(void *arg)
{
	struct lane *l = arg;
	struct lane_msg m;

	cr_assert_eq(lane_recv(l, &m), 0);
	cr_assert_not_null(lane_reply_begin(l, WIRE_F_MORE, 8, 0, NULL));
	cr_assert_eq(lane_reply(l), 0);
	usleep(20000);
	shutdown(l->sock, SHUT_RDWR);
	return NULL;
}

CARRIER_TEST(lane_end, worker_dies_amid_a_reply)
{
	struct lane_reply rep;
	struct loopback lb;
	pthread_t t;

	pair_open(&lb, carrier, 50);
	t = pair_serve(&lb, die_amid_a_reply);
	begin(lb.guest, 8, 0, NULL);
	/* Records that were sent before the end still count. */
	cr_assert_eq(lane_call(lb.guest, &rep), 0);
	cr_assert(rep.more);
	cr_assert_eq(lane_next(lb.guest, &rep), -EPIPE);
	pthread_join(t, NULL);
	loopback_fini(&lb);
}

CARRIER_TEST(lane_end, what_the_guest_sent_before_it_left_arrives)
{
	struct loopback lb;
	struct lane_msg m;

	pair_open(&lb, carrier, 0);
	for (unsigned i = 0; i < 100; i++) {
		begin(lb.guest, 8, 0, NULL);
		cr_assert_eq(lane_post(lb.guest), 0);
	}
	lane_free(lb.guest);
	lb.guest = NULL;
	for (unsigned i = 0; i < 100; i++)
		cr_assert_eq(lane_recv(lb.worker, &m), 0, "%u", i);
	cr_assert_eq(lane_recv(lb.worker, &m), -EPIPE);
	cr_assert_eq(lane_recv(lb.worker, &m), -EPIPE);
	loopback_fini(&lb);
}

static void *fill_up(void *arg)
{
	struct lane *l = arg;

	while (lane_begin(l, OP, 1024, 0, NULL) && lane_post(l) == 0)
		;
	return (void *)(intptr_t)lane_post(l);
}

/* The guest is stuck in a full ring when its worker dies. */
CARRIER_TEST(lane_end, worker_dies_while_the_ring_is_full)
{
	struct loopback lb;
	pthread_t t;
	void *r;

	pair_open(&lb, carrier, 50);
	cr_assert_eq(pthread_create(&t, NULL, fill_up, lb.guest), 0);
	usleep(50000);
	shutdown(lb.worker->sock, SHUT_RDWR);
	pthread_join(t, &r);
	cr_assert_eq((intptr_t)r, -EPIPE);
	loopback_fini(&lb);
}

static void *kill_soon(void *arg)
{
	usleep(30000);
	lane_kill(arg);
	return NULL;
}

CARRIER_TEST(lane_end, kill_wakes_a_waiting_worker)
{
	struct loopback lb;
	struct lane_msg m;
	pthread_t t;

	pair_open(&lb, carrier, 0);
	pthread_create(&t, NULL, kill_soon, lb.worker);
	cr_assert_eq(lane_recv(lb.worker, &m), -EPIPE);
	pthread_join(t, NULL);
	loopback_fini(&lb);
}

CARRIER_TEST(lane_end, kill_wakes_a_waiting_guest)
{
	struct lane_reply rep;
	struct loopback lb;
	pthread_t t, k;

	pair_open(&lb, carrier, 0);
	t = pair_serve(&lb, mute);
	pthread_create(&k, NULL, kill_soon, lb.guest);
	begin(lb.guest, 8, 0, NULL);
	cr_assert_eq(lane_call(lb.guest, &rep), -EPIPE);
	pthread_join(k, NULL);
	pair_close(&lb, t);
}

CARRIER_TEST(lane_end, kill_wakes_a_worker_whose_guest_does_not_read)
{
	struct loopback lb;
	struct lane_msg m;
	pthread_t t;
	void *to;

	pair_open(&lb, carrier, 50);
	begin(lb.guest, 8, 0, NULL);
	lb.guest->in = lb.guest->out.hdr;
	cr_assert_eq(lb.guest->ops->publish(lb.guest, &lb.guest->out), 0);
	cr_assert_eq(lane_recv(lb.worker, &m), 0);
	pthread_create(&t, NULL, kill_soon, lb.worker);
	while (lane_reply_begin(lb.worker, WIRE_F_MORE, 8, 100000, &to) &&
	       lane_reply(lb.worker) == 0)
		;
	cr_assert(lane_dead(lb.worker));
	cr_assert_eq(lane_reply(lb.worker), -EPIPE);
	pthread_join(t, NULL);
	loopback_fini(&lb);
}

/* A worker process that is really killed, in the middle of answering. */
CARRIER_TEST(lane_end, worker_process_is_killed)
{
	struct lane_reply rep;
	struct loopback lb;
	unsigned calls = 0;
	pid_t pid;
	int r;

	pair_open(&lb, carrier, 50);
	pid = fork();
	if (pid == 0) {
		close(lb.guest->sock);
		echo(lb.worker);
		_exit(0);
	}
	close(lb.worker->sock);
	lane_disown(lb.worker);
	lb.worker = NULL;
	for (;;) {
		if (++calls == 1000)
			kill(pid, SIGKILL);
		if (!lane_begin(lb.guest, OP, 8, calls % 64 ? 0 : 70000, NULL)) {
			r = lane_post(lb.guest);
			break;
		}
		r = lane_call(lb.guest, &rep);
		if (r < 0)
			break;
	}
	cr_assert_eq(r, -EPIPE);
	cr_assert_geq(calls, 999);
	waitpid(pid, NULL, 0);
	loopback_fini(&lb);
}

/* ---- peers that break the rules ---- */

/* Sends a record that the guest's own functions would not make. */
static void forge(struct lane *l, uint16_t op, uint16_t flags, uint64_t seq,
		  uint32_t body)
{
	void *p;

	l->out = (struct lane_out){
		.hdr = {.words = (uint16_t)((sizeof(struct wire_hdr) + body) / 8),
			.op = op,
			.flags = flags,
			.seq = seq}};
	cr_assert_eq(l->ops->reserve(l, &l->out, &p), 0);
	memset(p, 0, body);
	cr_assert_eq(l->ops->publish(l, &l->out), 0);
}

CARRIER_TEST(lane_bad, commands_with_flags_of_replies)
{
	static const uint16_t bad[] = {WIRE_F_REPLY, WIRE_F_MORE, WIRE_F_OUTPUT, 0x40,
				       0x8000};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct loopback lb;
		struct lane_msg m;

		pair_open(&lb, carrier, 0);
		forge(lb.guest, OP, bad[i], 1, 8);
		cr_assert_eq(lane_recv(lb.worker, &m), -EPROTO);
		cr_assert_eq(lane_recv(lb.worker, &m), -EPROTO, "sticky");
		cr_assert(lane_dead(lb.worker));
		loopback_fini(&lb);
	}
}

CARRIER_TEST(lane_bad, payload_flag_without_room)
{
	struct loopback lb;
	struct lane_msg m;

	pair_open(&lb, carrier, 0);
	forge(lb.guest, OP, WIRE_F_PAYLOAD, 1, 0);
	cr_assert_eq(lane_recv(lb.worker, &m), -EPROTO);
	loopback_fini(&lb);
}

CARRIER_TEST(lane_bad, payload_of_no_or_too_many_bytes)
{
	for (unsigned i = 0; i < 2; i++) {
		struct loopback lb;
		struct lane_msg m;
		void *p;

		pair_open(&lb, carrier, 0);
		lb.guest->out = (struct lane_out){
			.hdr = {.words = 4, .op = OP, .flags = WIRE_F_PAYLOAD}};
		cr_assert_eq(lb.guest->ops->reserve(lb.guest, &lb.guest->out, &p), 0);
		memset(p, 0, 16);
		*(uint32_t *)p = i ? WIRE_PAYLOAD_MAX + 1 : 0;
		cr_assert_eq(lb.guest->ops->publish(lb.guest, &lb.guest->out), 0);
		cr_assert_eq(lane_recv(lb.worker, &m), -EPROTO);
		loopback_fini(&lb);
	}
}

/* Replies that answer nothing the guest has asked. */
CARRIER_TEST(lane_bad, replies_out_of_turn)
{
	static const struct {
		uint16_t op, flags;
		uint64_t seq;
		uint32_t body;
	} bad[] = {
		{OP + 1, WIRE_F_REPLY, 1, 8},
		{OP, WIRE_F_REPLY, 2, 8},
		{OP, 0, 1, 8},
		{OP, WIRE_F_REPLY | WIRE_F_ASYNC, 1, 8},
		{OP, WIRE_F_REPLY, 1, 0},
		{OP, WIRE_F_OUTPUT, 1, 8},
		{OP, 0x100, 1, 8},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct lane_reply rep;
		struct loopback lb;

		pair_open(&lb, carrier, 0);
		begin(lb.guest, 8, 0, NULL);
		forge(lb.worker, bad[i].op, bad[i].flags, bad[i].seq, bad[i].body);
		cr_assert_eq(lane_call(lb.guest, &rep), -EPROTO, "%u", i);
		cr_assert(lane_dead(lb.guest));
		loopback_fini(&lb);
	}
}

/* On a stream the header alone can lie; in a window test_ring has these. */
Test(lane_bad, stream_sizes_that_lie)
{
	static const uint16_t words[] = {0, 1, RING_RECORD_MAX / 8 + 1, UINT16_MAX};

	for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
		struct wire_hdr h = {.words = words[i], .op = OP};
		struct loopback lb;
		struct lane_msg m;

		pair_open(&lb, WIRE_CARRIER_STREAM, 0);
		cr_assert_eq(write(lb.guest->sock, &h, sizeof(h)), (ssize_t)sizeof(h));
		cr_assert_eq(lane_recv(lb.worker, &m), -EPROTO, "%u", words[i]);
		loopback_fini(&lb);
	}
}

Test(lane_bad, stream_cut_short_at_every_byte)
{
	struct {
		struct wire_hdr h;
		struct wire_payload wp;
		uint64_t body, payload[2];
	} rec = {.h = {.words = 4, .op = OP, .flags = WIRE_F_PAYLOAD}, .wp = {.size = 9}};

	for (size_t n = 0; n <= sizeof(rec); n++) {
		struct loopback lb;
		struct lane_msg m;

		pair_open(&lb, WIRE_CARRIER_STREAM, 0);
		cr_assert_eq(write(lb.guest->sock, &rec, n), (ssize_t)n);
		lane_free(lb.guest);
		lb.guest = NULL;
		cr_assert_eq(lane_recv(lb.worker, &m), n < sizeof(rec) ? -EPIPE : 0);
		loopback_fini(&lb);
	}
}

/* A guest that sends doorbells for nothing only wakes its own worker. */
Test(lane_bad, doorbells_for_nothing)
{
	struct lane_reply rep;
	struct loopback lb;
	char bytes[1000] = {0};
	pthread_t t;

	pair_open(&lb, WIRE_CARRIER_WINDOW, 0);
	t = pair_serve(&lb, echo);
	for (unsigned i = 0; i < 100; i++) {
		cr_assert_eq(write(lb.guest->sock, bytes, sizeof(bytes)),
			     (ssize_t)sizeof(bytes));
		begin(lb.guest, 8, 0, NULL);
		cr_assert_eq(lane_call(lb.guest, &rep), 0);
	}
	pair_close(&lb, t);
}
