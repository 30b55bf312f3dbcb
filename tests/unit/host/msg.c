/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "ipc/msg.h"

static int sock[2];

static void setup(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sock), 0);
}

TestSuite(msg, .init = setup);

Test(msg, each_has_a_name_of_its_own)
{
	for (uint32_t i = 1; i < MSG_NUM; i++) {
		cr_assert_str_neq(msg_name(i), "?", "message %u", i);
		for (uint32_t j = 1; j < i; j++)
			cr_assert_str_neq(msg_name(i), msg_name(j));
	}
}

Test(msg, any_number_can_be_named)
{
	static const uint32_t none[] = {0, MSG_NUM, UINT32_MAX};

	for (unsigned i = 0; i < ARRAY_SIZE(none); i++) {
		cr_assert_str_eq(msg_name(none[i]), "?");
		cr_assert_eq(msg_size(none[i]), 0);
		cr_assert_eq(msg_answer(none[i]), 0);
	}
}

/* No two questions have an answer of one type, and no answer is a question. */
Test(msg, an_answer_tells_its_question)
{
	for (uint32_t i = 1; i < MSG_NUM; i++) {
		uint32_t a = msg_answer(i);

		cr_assert_lt(a, MSG_NUM);
		cr_assert_eq(msg_answer(a), 0, "%s", msg_name(a));
		for (uint32_t j = 1; a && j < i; j++)
			cr_assert_neq(msg_answer(j), a, "%s", msg_name(a));
	}
	cr_assert_eq(msg_answer(MSG_CHARGE), MSG_CHARGED);
	cr_assert_eq(msg_answer(MSG_EVICTED_FREED), 0);
}

/* Returns what the receiver says to `size` bytes of m with a descriptor, or -1. */
static int received(const struct msg *m, size_t size, int fd)
{
	int fd0 = -1, fd1 = -1, r;
	struct msg got;

	cr_assert_eq(fd_send(sock[0], m, size, &fd, fd >= 0), 0);
	r = msg_recv(sock[1], &got, &fd0, &fd1);
	closep(&fd0);
	closep(&fd1);
	return r;
}

Test(msg, only_what_belongs_to_its_type_is_sent)
{
	for (uint32_t i = 1; i < MSG_NUM; i++) {
		struct msg m = {.type = i, .id = 7}, got;
		char raw[sizeof(m) + 1];
		int fd0, fd1;

		memset((char *)&m + msg_size(i), 0xaa, sizeof(m) - msg_size(i));
		cr_assert_eq(msg_send(sock[0], &m, -1, -1), 0);
		cr_assert_eq(recv(sock[1], raw, sizeof(raw), 0), (ssize_t)msg_size(i));
		cr_assert_eq(msg_send(sock[0], &m, -1, -1), 0);
		memset(&got, 0xbb, sizeof(got));
		cr_assert_eq(msg_recv(sock[1], &got, &fd0, &fd1), 0, "%s", msg_name(i));
		memset((char *)&m + msg_size(i), 0, sizeof(m) - msg_size(i));
		cr_assert_eq(memcmp(&m, &got, sizeof(m)), 0, "%s", msg_name(i));
	}
}

Test(msg, another_size_is_refused)
{
	static const char zeros[2 * sizeof(struct msg)];

	for (uint32_t i = 1; i < MSG_NUM; i++) {
		char m[sizeof(zeros)] = "";

		memcpy(m, &i, sizeof(i));
		for (size_t n = 1; n < sizeof(m); n++)
			cr_assert_eq(received((struct msg *)m, n, -1),
				     n == msg_size(i) ? 0 : -EPROTO, "%s, %zu",
				     msg_name(i), n);
	}
}

Test(msg, no_type_is_refused)
{
	static const uint32_t none[] = {0, MSG_NUM, UINT32_MAX};

	for (unsigned i = 0; i < ARRAY_SIZE(none); i++) {
		const struct msg m = {.type = none[i]};

		cr_assert_eq(received(&m, sizeof(m), -1), -EPROTO);
		cr_assert_eq(received(&m, 8, -1), -EPROTO);
		cr_assert_eq(msg_send(sock[0], &m, -1, -1), -EINVAL);
	}
}

/* No text that does not end, no flag that is neither 0 nor 1, no padding that says
 * something, no result that is none. */
Test(msg, what_is_malformed_is_refused)
{
	struct msg bad[] = {
		{.type = MSG_READY, .ready.own_memory = 2},
		{.type = MSG_RESUMED, .resumed.at_gate = 2},
		{.type = MSG_READY},
		{.type = MSG_OPENED},
		{.type = MSG_ATTACH},
		{.type = MSG_HELLO},
		{.type = MSG_HOLDERS_LIST, .holders_list.n = MSG_HOLDERS_MAX + 1},
		{.type = MSG_CHARGE, .charge.allow_spill = 2},
		{.type = MSG_CHARGE, .charge = {.spare = 2, .allow_spill = 1}},
		{.type = MSG_CHARGE, .charge.spare = 1},
		{.type = MSG_CHARGED, .charged.result = 1},
		{.type = MSG_RECLAIM, .reclaim.swap = 2},
		{.type = MSG_RECLAIM, .reclaim.only_copies = 2},
		{.type = MSG_RECLAIM, .reclaim.urgent = 2},
		{.type = MSG_RECLAIMED, .moved.result = 1},
		{.type = MSG_RECLAIMED, .moved.result = -5000},
		{.type = MSG_RESTORED, .moved.will_wait = 2},
		{.type = MSG_RESTORED, .moved.will_wait = 1},
		{.type = MSG_RECLAIMED, .moved.frozen = 2},
		{.type = MSG_QUIESCED, .quiesced.result = 1},
		{.type = MSG_IPC_EXPORT, .ipc_export.evicted = 2},
		{.type = MSG_REFUSE, .refuse.error = INT32_MIN},
	};

	memset(bad[2].ready.device, 'x', sizeof(bad[2].ready.device));
	memset(bad[3].opened.carrier, 'x', sizeof(bad[3].opened.carrier));
	memset(bad[4].attach.tenant, 'x', sizeof(bad[4].attach.tenant));
	memset(bad[5].hello.hello.name, 'x', sizeof(bad[5].hello.hello.name));
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		cr_assert_not(msg_is_valid(&bad[i]), "%u", i);
		cr_assert_eq(received(&bad[i], msg_size(bad[i].type), -1), -EPROTO, "%u",
			     i);
	}
}

Test(msg, a_move_that_waits_on_is_busy)
{
	const struct msg m = {.type = MSG_RECLAIMED,
			      .moved = {.result = -EBUSY, .will_wait = 1}};

	cr_assert(msg_is_valid(&m));
}

/* And none of them stays open. */
Test(msg, descriptors_that_do_not_belong_there_are_refused)
{
	int fd = fd_memfd("test", 4096), before = dup(fd), after;
	const struct msg charge = {.type = MSG_CHARGE}, pass = {.type = MSG_PASS};

	close(before);
	cr_assert_eq(received(&pass, msg_size(MSG_PASS), fd), 0);
	cr_assert_eq(received(&charge, msg_size(MSG_CHARGE), fd), -EPROTO);
	after = dup(fd);
	cr_assert_eq(before, after);
}
