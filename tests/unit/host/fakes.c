/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "broker/memory/ledger.h"
#include "broker/memory/reclaim.h"
#include "broker/memory/waiters.h"
#include "fakes.h"

struct broker b;
struct tenant tenants[TENANTS];
struct mate fakes[WORKERS];
uint64_t now;
bool honest;
unsigned manual_open;
unsigned in_part;

/* weftd ends a worker that cannot be told, or that breaks the rules. */
void child_kill(struct child *c)
{
	container_of(c, struct mate, w.child)->dead = true;
}

void open_sockets(void)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		int pair[2];

		cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair),
			     0);
		fakes[i].w.ctl.fd = pair[0];
		fakes[i].sock = pair[1];
	}
}

static void reset_mate(struct mate *m)
{
	int theirs = m->w.ctl.fd, ours = m->sock;

	memset(m, 0, sizeof(*m));
	m->w = (struct worker){.b = &b, .count = &m->page, .slice = -1};
	m->w.ctl.fd = theirs;
	m->sock = ours;
	outbox_init(&m->w.out, b.loop, &m->w.ctl);
	list_init(&m->w.link);
}

void reset(uint64_t device, uint64_t swap)
{
	free(b.seen);
	free(b.shares);
	memset(&b, 0, sizeof(b));
	memset(tenants, 0, sizeof(tenants));
	list_init(&b.tenants);
	list_init(&b.workers);
	list_init(&b.waiters);
	b.device_total = device;
	b.swap = swap;
	b.piece = PIECE;
	b.placement = placement_at((unsigned)rand() % 3);
	b.time = &time_fair;
	now = NSEC_PER_SEC;
	for (unsigned i = 0; i < TENANTS; i++) {
		tenants[i].b = &b;
		list_init(&tenants[i].workers);
		waiters_init(&tenants[i]);
		/* max is no limit here, and allows more than the device has. */
		tenants[i].memory = (struct conf_memory){.high = UINT64_MAX,
							 .max = UINT64_MAX / 2,
							 .swap_max = UINT64_MAX,
							 .weight = 100};
		list_append(&b.tenants, &tenants[i].link);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		reset_mate(&fakes[i]);
}

/* ---- a worker's side ---- */

void show(struct mate *m)
{
	uint64_t movable = m->has - MIN(m->has, m->pinned);

	atomic_store(&m->page.movable_bytes, movable);
	atomic_store(&m->page.pinned_bytes, m->has - movable);
}

static void need_granted(struct mate *m, uint32_t id, uint64_t bytes)
{
	cr_assert(m->need && id == m->need);
	cr_assert(m->lies || bytes <= m->evicted);
	m->in_id = bytes ? id : 0;
	m->in_bytes = bytes;
	m->need = 0;
}

static void charged(struct mate *m, uint32_t id, const struct msg_charged *a)
{
	for (unsigned i = 0; i < ASKED_MAX; i++) {
		if (m->asked[i].id != id)
			continue;
		m->asked[i].id = 0;
		cr_assert(a->result == 0 || a->result == -EDQUOT || a->result == -ENOMEM);
		if (a->result == 0)
			cr_assert_eq(a->bytes + a->evicted, m->asked[i].bytes);
		cr_assert(!a->evicted || m->asked[i].part);
		cr_assert(!a->evicted || a->bytes % PIECE == 0);
		m->has += a->bytes;
		m->evicted += a->evicted;
		in_part += a->evicted > 0;
		show(m);
		return;
	}
	cr_assert_fail("an answer to no question");
}

void hear(struct mate *m)
{
	struct msg msg;
	int fd0, fd1;

	while (msg_recv(m->sock, &msg, &fd0, &fd1) == 0) {
		switch (msg.type) {
		case MSG_CHARGED:
			charged(m, msg.id, &msg.charged);
			break;
		case MSG_NEED_GRANTED:
			need_granted(m, msg.id, msg.need_granted.bytes);
			break;
		case MSG_RECLAIM:
			cr_assert_eq(m->out_id, 0, "two at once");
			cr_assert_leq(b.evicted, b.swap);
			cr_assert_leq(msg.reclaim.host_room, b.swap - b.evicted);
			cr_assert_gt(msg.reclaim.host_room, 0, "nowhere to go");
			m->out_id = msg.id;
			m->out = msg.reclaim;
			break;
		case MSG_RESTORE:
			cr_assert(!m->in_id && !m->out_id && !m->need);
			cr_assert(m->lies || msg.restore.bytes <= m->evicted);
			m->in_id = msg.id;
			m->in_bytes = msg.restore.bytes;
			break;
		default:
			cr_assert_eq(msg.type, MSG_PREALLOC);
			m->pool = msg.prealloc.bytes;
		}
	}
}

/* Asks once for all of them: most have been told nothing. */
void hear_all(void)
{
	struct pollfd p[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++)
		p[i] = (struct pollfd){.fd = fakes[i].sock, .events = POLLIN};
	if (!poll(p, WORKERS, 0))
		return;
	for (unsigned i = 0; i < WORKERS; i++) {
		if (p[i].revents)
			hear(&fakes[i]);
	}
}

void start(struct mate *m, struct tenant *t, uint64_t overhead)
{
	reset_mate(m);
	/* A context that finds no room is not made. */
	overhead = MIN(overhead, account_gather(&b) + b.keep_ready * b.overhead);
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

void stop(struct mate *m)
{
	reclaim_end(&m->w);
	account_end(&m->w);
	list_remove(&m->w.link);
	hear(m);
	reset_mate(m);
}

static int charge(struct mate *m, uint64_t bytes, bool part, bool spare)
{
	return spare ? waiters_charge_spare(&m->w, m->next_id, bytes, now)
		     : waiters_charge(&m->w, m->next_id, bytes, part, now);
}

static void ask_as(struct mate *m, uint64_t bytes, bool part, bool spare)
{
	for (unsigned i = 0; i < ASKED_MAX; i++) {
		if (m->asked[i].id)
			continue;
		if (credit_take(&m->page.credit, bytes)) {
			m->has += bytes;
			show(m);
			return;
		}
		m->asked[i].id = ++m->next_id;
		m->asked[i].bytes = bytes;
		m->asked[i].part = part;
		m->asked[i].spare = spare;
		cr_assert_eq(charge(m, bytes, part, spare), 0);
		return;
	}
}

void ask_for(struct mate *m, uint64_t bytes, bool part)
{
	ask_as(m, bytes, part, false);
}

void ask_spare(struct mate *m, uint64_t bytes)
{
	ask_as(m, bytes, true, true);
}

void ask(struct mate *m, uint64_t bytes)
{
	ask_for(m, bytes, false);
}

void give_up(struct mate *m, uint64_t bytes)
{
	if (rand() % 2 && m->evicted) {
		bytes = MIN(bytes, m->evicted);
		m->evicted -= bytes;
		evicted_freed(&m->w, bytes);
		return;
	}
	bytes = MIN(bytes, m->has);
	m->has -= bytes;
	credit_put(&m->page.credit, bytes);
	show(m);
}

/* Some of it, or all, before the rest. */
static void say_left(struct mate *m, uint32_t id, uint64_t *all)
{
	uint64_t some = rand() % 2 ? *all : *all / 2 / PIECE * PIECE;

	cr_assert_eq(reclaim_left(&m->w, id, some, now), 0);
	*all -= some;
}

void move_out(struct mate *m)
{
	static const int results[] = {0, 0, 0, 0, 0, 0, -EBUSY, -ENOSPC, -ENOMEM, -EIO};
	uint64_t can = atomic_load(&m->page.movable_bytes), early = 0;
	uint32_t id = m->out_id;
	struct msg_moved a = {0};

	a.result = m->endless ? -EBUSY : honest ? 0 : results[rand() % 10];
	a.bytes = MIN(MIN(m->out.bytes, m->out.host_room), can);
	if (a.result && !m->endless && rand() % 2)
		a.bytes = a.bytes / 2 / PIECE * PIECE;
	else if (a.result)
		a.bytes = 0;
	m->has -= a.bytes;
	m->evicted += a.bytes;
	if (a.bytes && !honest && rand() % 4 == 0) {
		early = MIN(m->evicted, PIECE);
		m->evicted -= early;
		evicted_freed(&m->w, early);
	}
	if (m->lies)
		a.bytes = rand() % 2 ? UINT64_MAX : (uint64_t)rand() * PIECE;
	a.will_wait = m->at_gate = a.result == -EBUSY && !m->endless && rand() % 2;
	m->out_id = 0;
	show(m);
	if (rand() % 3 == 0)
		say_left(m, id, &a.bytes);
	cr_assert_eq(reclaim_ended(&m->w, id, &a, now), 0);
}

void move_in(struct mate *m)
{
	struct msg_moved a = {.bytes = MIN(m->in_bytes, m->evicted)};
	uint32_t id = m->in_id;

	if (!honest && rand() % 4 == 0) {
		a.result = rand() % 2 ? -EBUSY : -ENOMEM;
		a.bytes = a.bytes / 2 / PIECE * PIECE;
	}
	m->evicted -= a.bytes;
	m->has += a.bytes;
	if (m->lies)
		a.bytes = UINT64_MAX;
	a.will_wait = m->at_gate = a.result == -EBUSY && rand() % 2;
	m->in_id = 0;
	show(m);
	cr_assert_eq(reclaim_returned(&m->w, id, &a, now), 0);
}

void become_idle(struct mate *m, int result)
{
	m->at_gate = false;
	cr_assert_eq(reclaim_quiesced(&m->w, result, now), 0);
}

void need(struct mate *m)
{
	/* A mover that moves does not ask. */
	if (m->need || m->out_id || m->in_id)
		return;
	m->need = ++m->next_id;
	cr_assert_eq(waiters_need(&m->w, m->need, m->evicted, now), 0);
}

/* ---- what must hold ---- */

static bool any_liar(void)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		if (fakes[i].lies)
			return true;
	}
	return false;
}

void check_sums(void)
{
	uint64_t granted = b.shared, evicted = 0, returning = 0;

	for (unsigned i = 0; i < TENANTS; i++) {
		uint64_t t_granted = 0, t_evicted = 0, held = 0;

		for (unsigned k = 0; k < WORKERS; k++) {
			const struct mate *m = &fakes[k];

			if (m->w.tenant != &tenants[i])
				continue;
			t_granted += m->w.charged;
			t_evicted += m->w.evicted;
			for (unsigned n = 0; n < ASKED_MAX; n++)
				held += m->asked[n].id && !m->asked[n].spare
						? m->asked[n].bytes
						: 0;
		}
		cr_assert_eq(tenants[i].granted, t_granted);
		cr_assert_eq(tenants[i].evicted, t_evicted);
		cr_assert_eq(tenants[i].held, held);
		granted += t_granted;
		evicted += t_evicted;
	}
	for (unsigned k = 0; k < WORKERS; k++)
		returning += fakes[k].w.move.returning;
	cr_assert_eq(b.granted, granted);
	cr_assert_eq(b.evicted, evicted);
	cr_assert_eq(b.returning, returning);
	cr_assert_leq(b.granted, b.device_total, "promised twice");
	cr_assert_leq(b.evicted, b.swap);
}

void check_truth(void)
{
	uint64_t on_device = 0;

	for (unsigned k = 0; k < WORKERS; k++) {
		const struct mate *m = &fakes[k];

		on_device += m->overhead + m->has;
		if (m->lies || m->w.state != WORKER_SESSION)
			continue;
		cr_assert_eq(m->w.evicted, m->evicted);
		cr_assert_eq(account_worker(&m->w),
			     m->overhead + m->has + m->w.move.returning);
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
			if (fakes[k].w.tenant != &tenants[i] || fakes[k].lies ||
			    !credit_look(&fakes[k].page.credit, &seen_left, &seen_total))
				continue;
			cr_assert_eq(seen_left, left);
			cr_assert_eq(seen_total, total);
		}
	}
}

void check(void)
{
	hear_all();
	check_sums();
	check_truth();
	if (rand() % 16 == 0)
		check_left();
}

void moved_manually(void *arg, uint64_t bytes)
{
	manual_open--;
}

uint64_t move_all(void)
{
	uint64_t next = reclaim_tick(&b, now);

	hear_all();
	for (unsigned i = 0; i < WORKERS; i++) {
		if (fakes[i].out_id)
			move_out(&fakes[i]);
		if (fakes[i].in_id)
			move_in(&fakes[i]);
	}
	return next;
}

void pass(uint64_t ns)
{
	uint64_t end = now + ns;

	for (;;) {
		uint64_t next = move_all();

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

void begin(uint64_t device, uint64_t swap)
{
	open_sockets();
	reset(device, swap);
	b.placement = placement_at(0);
	honest = true;
	for (unsigned i = 0; i < WORKERS; i++)
		start(&fakes[i], &tenants[i % TENANTS], 0);
}

void ask_in_pieces(struct mate *m, uint64_t bytes)
{
	for (; bytes; bytes -= MIN(bytes, 16 * MIB)) {
		ask(m, MIN(bytes, 16 * MIB));
		pass(NSEC_PER_MSEC);
	}
}
