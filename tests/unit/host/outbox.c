/* SPDX-License-Identifier: Apache-2.0 */
/* A worker hears all that it is told, however late it reads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"
#include "broker/loop/loop.h"
#include "broker/loop/outbox.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "wire.h"

static struct broker b;
static struct tenant tenant;
static struct worker w;
static int theirs;
static uint32_t seen; /* events of the last round */

static void on_event(struct source *src, uint32_t events)
{
	seen = events;
}

static void setup(void)
{
	int pair[2];

	cr_assert_eq(loop_new(&b.loop), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	theirs = pair[1];
	tenant = (struct tenant){.b = &b};
	w = (struct worker){.b = &b, .tenant = &tenant};
	outbox_init(&w.out, b.loop, &w.ctl);
	w.out.t = &tenant;
	cr_assert_eq(source_add(b.loop, &w.ctl, pair[0], EPOLLIN, on_event), 0);
}

static void teardown(void)
{
	outbox_drop(&w.out);
	source_remove(b.loop, &w.ctl);
	close(theirs);
	loop_free(b.loop);
}

static uint32_t events_now(void)
{
	seen = 0;
	cr_assert_geq(loop_once(b.loop, 0), 0);
	return seen;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Reads what is there; with each message a descriptor comes, or not. */
static void hear(uint32_t *next, bool with_fd)
{
	struct msg m;
	int fd0, fd1;

	while (msg_recv(theirs, &m, &fd0, &fd1) == 0) {
		cr_assert_eq(m.id, (*next)++);
		cr_assert_eq(fd0 >= 0, with_fd);
		closep(&fd0);
	}
}

static void all_arrive(unsigned n, bool with_fd)
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct msg m = {.type = MSG_TENANT_USAGE, .id = i};
		int fd = with_fd ? fd_memfd("test", 4096) : -1;

		cr_assert_eq(outbox_tell(&w.out, &m, fd, -1), 0, "message %u", i);
		closep(&fd);
	}
	cr_assert_not(outbox_is_read(&w.out), "a pair does not take that many");
	cr_assert_eq(events_now(), 0, "not before it has read");
	while (next < n) {
		uint32_t before = next;

		hear(&next, with_fd);
		cr_assert_gt(next, before);
		if (next < n)
			cr_assert(events_now() & EPOLLOUT);
		cr_assert_eq(outbox_write(&w.out), 0);
	}
	cr_assert(outbox_is_read(&w.out));
	cr_assert_eq(events_now(), 0, "nothing is left to write");
	cr_assert_eq(tenant.n_letter_fds, 0);
}

Test(outbox, an_answer_for_every_lane, .init = setup, .fini = teardown)
{
	all_arrive(2 * WIRE_SESSIONS_MAX, false);
}

Test(outbox, descriptors_wait_with_their_messages, .init = setup, .fini = teardown)
{
	int before = dup(theirs), after;

	close(before);
	all_arrive(2 * WIRE_SESSIONS_MAX, true);
	after = dup(theirs);
	close(after);
	cr_assert_eq(before, after, "none is left over");
}

Test(outbox, who_never_reads_is_broken, .init = setup, .fini = teardown)
{
	struct msg m = {.type = MSG_TENANT_USAGE};
	unsigned n = 0;

	while (n < 10000 && outbox_tell(&w.out, &m, -1, -1) == 0)
		n++;
	cr_assert_geq(n, 2 * WIRE_SESSIONS_MAX);
	cr_assert_lt(n, 10 * WIRE_SESSIONS_MAX);
}

/* Other tenants' sessions need descriptors, too. */
Test(outbox, descriptors_of_a_tenant_are_bounded, .init = setup, .fini = teardown)
{
	struct msg m = {.type = MSG_TENANT_USAGE};
	int r = 0;

	tenant.n_letter_fds = 1000;
	for (unsigned n = 0; n < 400 && r == 0; n++)
		r = outbox_tell(&w.out, &m, theirs, -1);
	cr_assert_eq(r, -EMFILE);
	cr_assert_eq(outbox_tell(&w.out, &m, -1, -1), 0, "one without goes");
	cr_assert(is_open(theirs));
	outbox_drop(&w.out);
	cr_assert_eq(tenant.n_letter_fds, 1000);
}

Test(outbox, who_has_gone, .init = setup, .fini = teardown)
{
	struct msg m = {.type = MSG_TENANT_USAGE};

	source_remove(b.loop, &w.ctl);
	cr_assert_eq(outbox_tell(&w.out, &m, -1, -1), -EPIPE);
}
