/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More memory promised than the device has: random sequences of what sessions, operators
 * and time do, with workers that move what they are asked to, or only some of it, or
 * nothing, or lie; against a model that only adds up what workers have been told.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "broker/broker.h"
#include "session/session.h"

#define MIB       (1ull << 20)
#define CHUNK     (2 * MIB)
#define TENANTS   4
#define WORKERS   6
#define SEQUENCES 10000
#define STEPS     60
#define ASKED_MAX 16

/* A worker as it knows itself. */
struct mate {
	struct worker w;
	struct sess_counters page;
	int sock;
	bool lies, dead;
	uint64_t overhead, has, away, pinned, pool;
	struct {
		uint32_t id;
		uint64_t bytes;
		bool part;
	} asked[ASKED_MAX];     /* charges that are not answered */
	struct ctl_msg out, in; /* type 0: not asked */
	uint32_t need;          /* 0: none is under way */
	uint32_t next_id;
};

static struct broker b;
static struct tenant tenants[TENANTS];
static struct mate mates[WORKERS];
static uint64_t now;
static bool honest; /* everybody moves what is asked for */
static unsigned by_hand_open;
static unsigned in_part; /* charges that were granted partly away */

/* weftd ends a worker that cannot be told, or that breaks the rules. */
void child_kill(struct child *c)
{
	container_of(c, struct mate, w.child)->dead = true;
}

static void open_sockets(void)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		int pair[2];

		cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair),
			     0);
		mates[i].w.ctl.fd = pair[0];
		mates[i].sock = pair[1];
	}
}

static void reset_mate(struct mate *m)
{
	int theirs = m->w.ctl.fd, ours = m->sock;

	memset(m, 0, sizeof(*m));
	m->w = (struct worker){.b = &b, .count = &m->page, .slice = -1};
	m->w.ctl.fd = theirs;
	m->sock = ours;
	list_init(&m->w.link);
}

static void reset(uint64_t device, uint64_t swap)
{
	free(b.numbers);
	memset(&b, 0, sizeof(b));
	memset(tenants, 0, sizeof(tenants));
	list_init(&b.tenants);
	list_init(&b.workers);
	list_init(&b.holds);
	b.device_total = device;
	b.swap = swap;
	b.chunk = CHUNK;
	b.placement = placement_at((unsigned)rand() % 3);
	now = NSEC_PER_SEC;
	for (unsigned i = 0; i < TENANTS; i++) {
		tenants[i].b = &b;
		tenants[i].memory = (struct conf_memory){.high = UINT64_MAX,
							 .max = UINT64_MAX / 2, /* no limit */
							 .swap_max = UINT64_MAX,
							 .weight = 100};
		list_append(&b.tenants, &tenants[i].link);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		reset_mate(&mates[i]);
}

/* ---- a worker's side ---- */

static void show(struct mate *m)
{
	uint64_t movable = m->has - MIN(m->has, m->pinned);

	atomic_store(&m->page.movable_bytes, movable);
	atomic_store(&m->page.pinned_bytes, m->has - movable);
}

static void answered(struct mate *m, const struct ctl_msg *a)
{
	if (m->need && a->id == m->need) {
		cr_assert(m->lies || a->bytes <= m->away);
		if (a->bytes)
			m->in = (struct ctl_msg){
				.type = CTL_RESTORE, .id = a->id, .bytes = a->bytes};
		m->need = 0;
		return;
	}
	for (unsigned i = 0; i < ASKED_MAX; i++) {
		if (m->asked[i].id != a->id)
			continue;
		m->asked[i].id = 0;
		cr_assert(a->result == 0 || a->result == -EDQUOT || a->result == -ENOMEM);
		if (a->result == 0)
			cr_assert_eq(a->bytes + a->total, m->asked[i].bytes);
		cr_assert(!a->total || m->asked[i].part);
		cr_assert(!a->total || a->bytes % CHUNK == 0);
		m->has += a->bytes;
		m->away += a->total;
		in_part += a->total > 0;
		show(m);
		return;
	}
	cr_assert_fail("an answer to no question");
}

static void hear(struct mate *m)
{
	struct ctl_msg msg;
	int fd0, fd1;

	while (ctl_recv(m->sock, &msg, &fd0, &fd1) == 0) {
		switch (msg.type) {
		case CTL_ANSWER:
			answered(m, &msg);
			break;
		case CTL_RECLAIM:
			cr_assert_eq(m->out.type, 0, "two at once");
			cr_assert_leq(b.away, b.swap);
			cr_assert_leq(msg.session, b.swap - b.away);
			m->out = msg;
			break;
		case CTL_RESTORE:
			cr_assert(!m->in.type && !m->out.type && !m->need);
			cr_assert(m->lies || msg.bytes <= m->away);
			m->in = msg;
			break;
		default:
			cr_assert_eq(msg.type, CTL_POOL);
			m->pool = msg.bytes;
		}
	}
}

static void hear_all(void)
{
	for (unsigned i = 0; i < WORKERS; i++)
		hear(&mates[i]);
}

static void start(struct mate *m, struct tenant *t, uint64_t overhead)
{
	reset_mate(m);
	/* A context that finds no room is not made. */
	overhead = MIN(overhead, account_free(&b) + b.keep_ready * b.overhead);
	list_append(&b.workers, &m->w.link);
	m->w.state = WORKER_READY;
	account_ready(&m->w, overhead);
	m->overhead = overhead;
	if (account_attach(&m->w, t) < 0) {
		account_end(&m->w);
		list_remove(&m->w.link);
		m->w.state = WORKER_STARTING;
		m->overhead = 0;
		return;
	}
	m->w.state = WORKER_SESSION;
	m->w.attached_ns = now;
	account_begin(&m->w);
}

static void stop(struct mate *m)
{
	reclaim_end(&m->w);
	account_end(&m->w);
	list_remove(&m->w.link);
	hear(m);
	reset_mate(m);
}

static void ask_for(struct mate *m, uint64_t bytes, bool part)
{
	for (unsigned i = 0; i < ASKED_MAX; i++) {
		if (m->asked[i].id)
			continue;
		if (purse_take(&m->page.purse, bytes)) {
			m->has += bytes;
			show(m);
			return;
		}
		m->asked[i].id = ++m->next_id;
		m->asked[i].bytes = bytes;
		m->asked[i].part = part;
		cr_assert_eq(reclaim_charge(&m->w, m->next_id, bytes, part, now), 0);
		return;
	}
}

static void ask(struct mate *m, uint64_t bytes)
{
	ask_for(m, bytes, false);
}

static void give_up(struct mate *m, uint64_t bytes)
{
	if (rand() % 2 && m->away) {
		bytes = MIN(bytes, m->away);
		m->away -= bytes;
		away_freed(&m->w, bytes);
		return;
	}
	bytes = MIN(bytes, m->has);
	m->has -= bytes;
	purse_put(&m->page.purse, bytes);
	show(m);
}

static void move_out(struct mate *m)
{
	static const int results[] = {0, 0, 0, 0, 0, 0, -EBUSY, -ENOSPC, -ENOMEM, -EIO};
	struct ctl_msg a = {.type = CTL_RECLAIMED, .id = m->out.id};
	uint64_t can = atomic_load(&m->page.movable_bytes), early = 0;

	a.result = honest ? 0 : results[rand() % 10];
	a.bytes = MIN(MIN(m->out.bytes, m->out.session), can);
	if (a.result && rand() % 2)
		a.bytes = a.bytes / 2 / CHUNK * CHUNK;
	else if (a.result)
		a.bytes = 0;
	m->has -= a.bytes;
	m->away += a.bytes;
	if (a.bytes && !honest && rand() % 4 == 0) {
		early = MIN(m->away, CHUNK);
		m->away -= early;
		away_freed(&m->w, early);
	}
	if (m->lies)
		a.bytes = rand() % 2 ? UINT64_MAX : (uint64_t)rand() * CHUNK;
	m->out.type = 0;
	show(m);
	cr_assert_eq(reclaim_left(&m->w, &a, now), 0);
}

static void move_in(struct mate *m)
{
	struct ctl_msg a = {.type = CTL_RESTORED, .id = m->in.id};

	a.bytes = MIN(m->in.bytes, m->away);
	if (!honest && rand() % 4 == 0) {
		a.result = rand() % 2 ? -EBUSY : -ENOMEM;
		a.bytes = a.bytes / 2 / CHUNK * CHUNK;
	}
	m->away -= a.bytes;
	m->has += a.bytes;
	if (m->lies)
		a.bytes = UINT64_MAX;
	m->in.type = 0;
	show(m);
	cr_assert_eq(reclaim_returned(&m->w, &a, now), 0);
}

static void need(struct mate *m)
{
	/* A mover that moves does not ask. */
	if (m->need || m->out.type || m->in.type)
		return;
	m->need = ++m->next_id;
	cr_assert_eq(reclaim_need(&m->w, m->need, m->away, now), 0);
}

/* ---- what must hold ---- */

static bool any_liar(void)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		if (mates[i].lies)
			return true;
	}
	return false;
}

static void check_sums(void)
{
	uint64_t granted = b.shared, away = 0, returning = 0;

	for (unsigned i = 0; i < TENANTS; i++) {
		uint64_t t_granted = 0, t_away = 0, held = 0;

		for (unsigned k = 0; k < WORKERS; k++) {
			const struct mate *m = &mates[k];

			if (m->w.tenant != &tenants[i])
				continue;
			t_granted += m->w.charged;
			t_away += m->w.away;
			for (unsigned n = 0; n < ASKED_MAX; n++)
				held += m->asked[n].id ? m->asked[n].bytes : 0;
		}
		cr_assert_eq(tenants[i].granted, t_granted);
		cr_assert_eq(tenants[i].away, t_away);
		cr_assert_eq(tenants[i].held, held);
		granted += t_granted;
		away += t_away;
	}
	for (unsigned k = 0; k < WORKERS; k++)
		returning += mates[k].w.move.returning;
	cr_assert_eq(b.granted, granted);
	cr_assert_eq(b.away, away);
	cr_assert_eq(b.returning, returning);
	cr_assert_leq(b.granted, b.device_total, "promised twice");
}

static void check_truth(void)
{
	uint64_t on_device = 0;

	for (unsigned k = 0; k < WORKERS; k++) {
		const struct mate *m = &mates[k];

		on_device += m->overhead + m->has;
		if (m->lies || m->w.state != WORKER_SESSION)
			continue;
		cr_assert_eq(m->w.away, m->away);
		cr_assert_eq(account_worker(&m->w), m->overhead + m->has +
							    m->w.move.returning +
							    m->w.move.surplus);
	}
	if (!any_liar())
		cr_assert_leq(on_device, b.device_total);
}

static void check_left(void)
{
	for (unsigned i = 0; i < TENANTS; i++) {
		uint64_t left, total, seen_left, seen_total;

		account_left(&tenants[i], &left, &total);
		cr_assert_leq(left, total);
		for (unsigned k = 0; k < WORKERS; k++) {
			if (mates[k].w.tenant != &tenants[i] || mates[k].lies ||
			    !purse_look(&mates[k].page.purse, &seen_left, &seen_total))
				continue;
			cr_assert_eq(seen_left, left);
			cr_assert_eq(seen_total, total);
		}
	}
}

static void check(void)
{
	hear_all();
	check_sums();
	check_truth();
	if (rand() % 16 == 0)
		check_left();
}

/* ---- sequences ---- */

static uint64_t some_bytes(void)
{
	uint64_t n = (1 + (uint64_t)rand() % 16) * CHUNK;

	return rand() % 8 ? n : n * 16;
}

static void set_limits(struct tenant *t)
{
	struct conf_memory m = t->memory;

	switch (rand() % 6) {
	case 0:
		m.max = rand() % 2 ? some_bytes() * 8 : UINT64_MAX;
		break;
	case 1:
		m.high = rand() % 2 ? some_bytes() * 4 : UINT64_MAX;
		break;
	case 2:
		m.low = some_bytes();
		break;
	case 3:
		m.min = some_bytes();
		break;
	case 4:
		m.swap_max = rand() % 2 ? some_bytes() * 4 : UINT64_MAX;
		break;
	case 5:
		m.weight = 1 + (unsigned)rand() % 1000;
		break;
	}
	account_set(t, &m);
}

static void moved_by_hand(void *arg, uint64_t bytes)
{
	by_hand_open--;
}

static void session_step(struct mate *m)
{
	switch (rand() % 16) {
	case 0:
		if (rand() % 3 == 0)
			stop(m);
		break;
	case 1:
		need(m);
		break;
	case 2:
		atomic_store(&m->page.last_submit_ns, now);
		break;
	case 3:
		m->pinned = rand() % 2 ? some_bytes() : 0;
		show(m);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		give_up(m, some_bytes());
		break;
	default:
		ask_for(m, some_bytes(), rand() % 2);
	}
}

static void step(void)
{
	struct mate *m = &mates[rand() % WORKERS];
	struct tenant *t = &tenants[rand() % TENANTS];

	if (rand() % 16 == 0) {
		set_limits(t);
	} else if (rand() % 32 == 0) {
		by_hand_open++;
		cr_assert_eq(reclaim_by_hand(t, some_bytes(), now, moved_by_hand, NULL),
			     0);
	} else if (m->w.state == WORKER_SESSION) {
		session_step(m);
	} else {
		start(m, t, rand() % 2 * 16 * MIB);
		m->lies = m->w.state == WORKER_SESSION && rand() % 64 == 0;
	}
	hear_all();
	for (unsigned i = 0; i < WORKERS; i++) {
		if (mates[i].out.type && rand() % 2)
			move_out(&mates[i]);
		if (mates[i].in.type && rand() % 2)
			move_in(&mates[i]);
	}
	now += (uint64_t)rand() % 20 * NSEC_PER_MSEC;
	reclaim_tick(&b, now);
	ready_tick(&b, now);
}

/* Everybody is answered, whatever workers do; those that move answer sooner or later. */
static void settle(void)
{
	uint64_t end = now + 40 * NSEC_PER_SEC;

	while (now < end) {
		uint64_t next = reclaim_tick(&b, now);

		hear_all();
		for (unsigned i = 0; i < WORKERS; i++) {
			if (mates[i].out.type)
				move_out(&mates[i]);
			if (mates[i].in.type)
				move_in(&mates[i]);
		}
		cr_assert_gt(next, now);
		now = MIN(next, now + 500 * NSEC_PER_MSEC);
	}
	reclaim_tick(&b, now);
	check();
	cr_assert(list_empty(&b.holds));
	cr_assert_eq(by_hand_open, 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		cr_assert_eq(mates[i].need, 0);
		for (unsigned n = 0; n < ASKED_MAX; n++)
			cr_assert_eq(mates[i].asked[n].id, 0);
	}
}

static void stop_all(void)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		if (mates[i].w.state == WORKER_SESSION)
			stop(&mates[i]);
	}
	check_sums();
	cr_assert_eq(b.granted, 0);
	cr_assert_eq(b.away, 0);
}

Test(reclaim, random_against_model)
{
	uint64_t moved = 0;

	srand(5);
	open_sockets();
	for (unsigned n = 0; n < SEQUENCES; n++) {
		reset((1 + (uint64_t)rand() % 8) * 128 * MIB,
		      rand() % 8 ? (uint64_t)(rand() % 16) * 128 * MIB : 0);
		for (unsigned k = 0; k < STEPS; k++) {
			step();
			check();
		}
		for (unsigned i = 0; i < TENANTS; i++)
			moved += tenants[i].events.reclaim;
		if (n % 64 == 0 && b.swap)
			settle();
		reclaim_drop_tenant(&tenants[0]);
		reclaim_drop_tenant(&tenants[1]);
		reclaim_drop_tenant(&tenants[2]);
		reclaim_drop_tenant(&tenants[3]);
		stop_all();
		cr_assert(list_empty(&b.holds));
	}
	cr_assert_gt(moved, SEQUENCES, "hardly anything moved");
	cr_assert_gt(in_part, SEQUENCES / 10, "hardly anything was granted in part");
}

/* ---- one case each ---- */

/* Lets so much time pass; who is asked to move does it at once. */
static void pass(uint64_t ns)
{
	uint64_t end = now + ns;

	for (;;) {
		uint64_t next = reclaim_tick(&b, now);

		hear_all();
		for (unsigned i = 0; i < WORKERS; i++) {
			if (mates[i].out.type)
				move_out(&mates[i]);
			if (mates[i].in.type)
				move_in(&mates[i]);
		}
		if (b.reclaim_due)
			continue;
		check_sums();
		check_truth();
		if (next > end)
			break;
		now = next;
	}
	now = end;
}

static void begin(uint64_t device, uint64_t swap)
{
	open_sockets();
	reset(device, swap);
	b.placement = placement_at(0);
	honest = true;
	for (unsigned i = 0; i < WORKERS; i++)
		start(&mates[i], &tenants[i % TENANTS], 0);
}

/* So much in pieces that a program may ask for. */
static void ask_in_pieces(struct mate *m, uint64_t bytes)
{
	for (; bytes; bytes -= MIN(bytes, 16 * MIB)) {
		ask(m, MIN(bytes, 16 * MIB));
		pass(NSEC_PER_MSEC);
	}
}

/* One tenant has everything, then others come: all have their share within a chunk. */
Test(reclaim, shares)
{
	begin(1024 * MIB, 4096 * MIB);
	ask_in_pieces(&mates[0], 1024 * MIB);
	cr_assert_eq(mates[0].has, 1024 * MIB);
	ask_in_pieces(&mates[1], 1024 * MIB);
	cr_assert_eq(mates[0].has, 512 * MIB);
	cr_assert_eq(mates[0].away, 512 * MIB);
	cr_assert_eq(mates[1].has, 512 * MIB);
	cr_assert_eq(mates[1].away, 512 * MIB, "it gave way itself");
	tenants[2].memory.weight = 200;
	ask_in_pieces(&mates[2], 1024 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[2].has, 512 * MIB);
	cr_assert(mates[0].has >= 256 * MIB - CHUNK && mates[0].has <= 256 * MIB + CHUNK);
	cr_assert(mates[1].has >= 256 * MIB - CHUNK && mates[1].has <= 256 * MIB + CHUNK);
	cr_assert_eq(tenants[0].events.oom + tenants[1].events.oom, 0);
}

/* What is freed comes back to who has memory away, within 50 ms and without a message. */
Test(reclaim, comes_back)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&mates[0], 256 * MIB);
	ask_in_pieces(&mates[1], 128 * MIB);
	cr_assert_eq(mates[0].away, 128 * MIB);
	mates[1].has -= 100 * MIB;
	purse_put(&mates[1].page.purse, 100 * MIB);
	show(&mates[1]);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(mates[0].away, 28 * MIB);
	stop(&mates[1]);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(mates[0].away, 0);
	cr_assert_eq(reclaim_tick(&b, now), UINT64_MAX, "nothing is to be looked at");
}

/* A tenant whose kernels keep its memory busy: who wants more than its share waits, up to
 * a bounded time; who has less than that does not. */
Test(reclaim, busy)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&mates[0], 240 * MIB);
	mates[0].w.move.busy_ns = UINT64_MAX;
	ask(&mates[1], 200 * MIB);
	ask_for(&mates[3], 200 * MIB, true);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[1].has + mates[3].has, 0);
	ask(&mates[2], 16 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[2].has + mates[2].away, 16 * MIB, "it passed");
	pass(27 * NSEC_PER_SEC);
	cr_assert_neq(mates[1].asked[0].id, 0);
	pass(2 * NSEC_PER_SEC);
	cr_assert_eq(mates[1].asked[0].id, 0);
	cr_assert_eq(mates[1].has, 0);
	cr_assert_eq(tenants[1].events.oom, 1);
	cr_assert_eq(mates[3].has + mates[3].away, 200 * MIB);
	cr_assert_eq(tenants[3].events.oom, 0);
	stop(&mates[3]);
	mates[0].w.move.busy_ns = 0;
	ask(&mates[1], 100 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(mates[1].has, 100 * MIB);
}

/* What is free is no reason to refuse what would take more than that. */
Test(reclaim, more_than_is_free)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&mates[0], 96 * MIB);
	mates[0].w.move.busy_ns = UINT64_MAX;
	ask(&mates[1], 200 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_neq(mates[1].asked[0].id, 0, "it waits");
	mates[0].w.move.busy_ns = 0;
	pass(20 * NSEC_PER_MSEC);
	cr_assert_eq(mates[1].has, 200 * MIB);
}

/* The victim dies, or does not answer: others are asked. */
Test(reclaim, victim_ends)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&mates[0], 128 * MIB);
	ask_in_pieces(&mates[1], 128 * MIB);
	ask(&mates[2], 64 * MIB);
	reclaim_tick(&b, now);
	hear_all();
	cr_assert(mates[0].out.type || mates[1].out.type);
	stop(&mates[mates[0].out.type ? 0 : 1]);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(mates[2].has, 64 * MIB);
	/* one that keeps silent */
	ask_in_pieces(&mates[2], 64 * MIB);
	ask(&mates[3], 64 * MIB);
	reclaim_tick(&b, now);
	hear_all();
	for (unsigned i = 0; i < 3; i++) {
		if (!mates[i].out.type)
			continue;
		mates[i].out.type = 0;
		pass(11 * NSEC_PER_SEC);
		cr_assert_eq(mates[3].has, 64 * MIB);
		return;
	}
	cr_assert_fail("nobody was asked");
}

/* Host memory runs out: the allocation fails and nothing else happens. */
Test(reclaim, no_host_memory)
{
	begin(256 * MIB, 64 * MIB);
	ask_in_pieces(&mates[0], 256 * MIB);
	ask(&mates[1], 128 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[1].has, 0);
	cr_assert_eq(tenants[1].events.oom, 1);
	ask(&mates[1], 64 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[1].has, 64 * MIB);
	cr_assert_eq(b.away, 64 * MIB);
	/* of a tenant's own */
	stop(&mates[1]);
	pass(NSEC_PER_SEC);
	cr_assert_eq(b.away, 0);
	tenants[0].memory.swap_max = 32 * MIB;
	start(&mates[1], &tenants[1], 0);
	ask(&mates[1], 64 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[1].has, 0);
	ask(&mates[1], 32 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[1].has, 32 * MIB);
}

/* One allocation of more than the device has: what there is, the rest in host memory,
 * from where it comes back. */
Test(reclaim, more_than_there_is)
{
	begin(256 * MIB, 1024 * MIB);
	ask_for(&mates[0], 512 * MIB, true);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[0].has, 256 * MIB);
	cr_assert_eq(mates[0].away, 256 * MIB);
	ask_for(&mates[1], 300 * MIB, true);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[1].has + mates[1].away, 300 * MIB);
	cr_assert_eq(mates[0].has, 128 * MIB);
	cr_assert_eq(mates[1].has, 128 * MIB);
	cr_assert_eq(tenants[0].events.oom + tenants[1].events.oom, 0);
	ask(&mates[2], 300 * MIB);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[2].has, 0);
	cr_assert_eq(tenants[2].events.oom, 1);
}

/* memory.high: in the background, without anybody waiting; min stays whatever happens. */
Test(reclaim, high_and_min)
{
	struct conf_memory m;

	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&mates[0], 128 * MIB);
	m = tenants[0].memory;
	m.high = 64 * MIB;
	account_set(&tenants[0], &m);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[0].has, 64 * MIB);
	cr_assert_gt(tenants[0].events.high, 0);
	m.high = UINT64_MAX;
	m.min = 128 * MIB;
	account_set(&tenants[0], &m);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[0].has, 128 * MIB);
	ask_in_pieces(&mates[1], 256 * MIB);
	cr_assert_eq(mates[0].has, 128 * MIB);
	cr_assert_eq(mates[1].has, 128 * MIB);
}

/* By hand: what moved stays out until the session works. */
Test(reclaim, by_hand)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&mates[0], 128 * MIB);
	by_hand_open = 1;
	cr_assert_eq(reclaim_by_hand(&tenants[0], 100 * MIB, now, moved_by_hand, NULL),
		     0);
	pass(NSEC_PER_SEC);
	cr_assert_eq(by_hand_open, 0);
	cr_assert_eq(mates[0].away, 100 * MIB);
	now++;
	atomic_store(&mates[0].page.last_submit_ns, now);
	pass(50 * NSEC_PER_MSEC);
	cr_assert_eq(mates[0].away, 0);
}

/* A session that needs what is swapped gets what there is, others giving way for it. */
Test(reclaim, needs)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&mates[0], 200 * MIB);
	by_hand_open = 1;
	cr_assert_eq(reclaim_by_hand(&tenants[0], 200 * MIB, now, moved_by_hand, NULL),
		     0);
	pass(NSEC_PER_SEC);
	ask_in_pieces(&mates[1], 256 * MIB);
	cr_assert_eq(mates[1].has, 256 * MIB);
	need(&mates[0]);
	pass(NSEC_PER_SEC);
	cr_assert_eq(mates[0].need, 0);
	cr_assert_eq(mates[0].has, 128 * MIB);
	cr_assert_eq(mates[1].has, 128 * MIB);
}

/* What was to come back is freed, and other memory is away from the beginning: the grant
 * stands until the worker has said what came back. */
Test(reclaim, freed_on_its_way_back)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&mates[0], 200 * MIB);
	by_hand_open = 1;
	cr_assert_eq(reclaim_by_hand(&tenants[0], 16 * MIB, now, moved_by_hand, NULL), 0);
	pass(NSEC_PER_SEC);
	need(&mates[0]);
	reclaim_tick(&b, now);
	hear(&mates[0]);
	cr_assert_eq(mates[0].in.bytes, 16 * MIB);
	mates[0].away -= 16 * MIB;
	away_freed(&mates[0].w, 16 * MIB);
	mates[0].pinned = UINT64_MAX;
	show(&mates[0]);
	ask_for(&mates[0], 100 * MIB, true);
	for (unsigned i = 0; i < 40 && mates[0].asked[0].id; i++) {
		now += 5 * NSEC_PER_MSEC;
		reclaim_tick(&b, now);
		hear(&mates[0]);
	}
	cr_assert_geq(mates[0].away, 16 * MIB);
	move_in(&mates[0]);
	check_sums();
	check_truth();
}

/* Contexts of workers to come: others give way for them. */
Test(reclaim, contexts)
{
	uint64_t missing;

	begin(256 * MIB, 1024 * MIB);
	stop(&mates[5]);
	b.keep_ready = 1;
	b.overhead = 16 * MIB;
	ask_in_pieces(&mates[0], 256 * MIB);
	cr_assert_eq(mates[0].has, 240 * MIB, "one is set aside");
	start(&mates[5], &tenants[1], 16 * MIB);
	account_set_aside(&b, &missing);
	cr_assert_eq(missing, 16 * MIB);
	pass(NSEC_PER_MSEC);
	cr_assert_eq(mates[0].has, 224 * MIB);
	account_set_aside(&b, &missing);
	cr_assert_eq(missing, 0);
}

/* Host memory is kept ready while the device is nearly full, by who has what to move. */
Test(reclaim, pressure)
{
	begin(256 * MIB, 1024 * MIB);
	ask_in_pieces(&mates[0], 192 * MIB);
	ready_tick(&b, now);
	hear_all();
	cr_assert_eq(mates[0].pool, 0);
	ask_in_pieces(&mates[0], 48 * MIB);
	now += NSEC_PER_SEC;
	ready_tick(&b, now);
	hear_all();
	cr_assert(mates[0].pool > 16 * MIB && mates[0].pool <= 128 * MIB);
	cr_assert_eq(mates[1].pool, 0);
	cr_assert_eq(ready_tick(&b, now), UINT64_MAX);
	stop(&mates[1]);
	mates[0].has -= 200 * MIB;
	purse_put(&mates[0].page.purse, 200 * MIB);
	show(&mates[0]);
	now += NSEC_PER_SEC;
	ready_tick(&b, now);
	hear_all();
	cr_assert_eq(mates[0].pool, 0);
}

/* What weftd says is free can be had, and no chunk more. */
Test(reclaim, free_is_exact)
{
	unsigned more = 0;

	srand(7);
	open_sockets();
	for (unsigned n = 0; n < 400; n++) {
		struct mate *m = &mates[(unsigned)rand() % WORKERS];
		uint64_t left, total, had;

		reset((1 + (uint64_t)rand() % 4) * 128 * MIB,
		      (1 + (uint64_t)rand() % 8) * 64 * MIB);
		honest = true;
		for (unsigned i = 0; i < WORKERS; i++)
			start(&mates[i], &tenants[i % TENANTS], 0);
		for (unsigned k = 0; k < 30; k++) {
			struct mate *o = &mates[(unsigned)rand() % WORKERS];

			if (rand() % 8 == 0)
				set_limits(&tenants[rand() % TENANTS]);
			else if (rand() % 3)
				ask(o, some_bytes());
			else
				give_up(o, some_bytes());
			pass(NSEC_PER_SEC);
		}
		account_left(m->w.tenant, &left, &total);
		had = m->has + m->away;
		if (left && n % 2) {
			ask(m, left);
			pass(NSEC_PER_SEC);
			cr_assert_eq(m->has + m->away, had + left);
		} else if (m->w.tenant->memory.max != UINT64_MAX) {
			ask(m, left + CHUNK);
			pass(NSEC_PER_SEC);
			more += m->has + m->away != had;
		}
		for (unsigned i = 0; i < WORKERS; i++)
			stop(&mates[i]);
	}
	cr_assert_eq(more, 0);
}
