/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's listener between guests that say anything, descriptors included, and a weftd
 * that does, too. Input: steps of an operation (1 byte) and a number (1 byte); what a
 * guest writes follows.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "ipc/msg.h"
#include "fds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int listener_main(int argc, char **argv);

static int ctl_ours, listen_fd;

#undef MSG_FD
#undef MSG_LISTEN_FD
#define MSG_FD        ctl_ours
#define MSG_LISTEN_FD listen_fd
#define main          listener_main
#include "listener/main.c"
#undef main

#define GUESTS 8
#define STEPS  200

static struct listener listener;
static struct sockaddr_un addr;
static socklen_t addr_len;
static int guests[GUESTS];
static int ctl_theirs;
static uint32_t last_id; /* that the listener told of */

static void open_listener(void)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = EV_CTL};
	int p[2];

	for (unsigned i = 0; i < CONNS_MAX; i++)
		listener.conn[i] = (struct conn){0};
	listener.n = listener.n_pending = listener.used = 0;
	listener.listening = false;
	listener.epoll = epoll_create1(EPOLL_CLOEXEC);
	listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	addr_len = sizeof(addr);
	/* An address without a name gets one that is free. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, p) < 0 ||
	    bind(listen_fd, (struct sockaddr *)&addr, sizeof(sa_family_t)) < 0 ||
	    getsockname(listen_fd, (struct sockaddr *)&addr, &addr_len) < 0 ||
	    listen(listen_fd, GUESTS) < 0)
		abort();
	ctl_ours = p[0];
	ctl_theirs = p[1];
	if (epoll_ctl(listener.epoll, EPOLL_CTL_ADD, ctl_ours, &ev) < 0 ||
	    listen_for(&listener, true) < 0)
		abort();
	for (unsigned i = 0; i < GUESTS; i++)
		guests[i] = -1;
}

static void close_listener(void)
{
	for (unsigned i = 0; i < listener.used; i++) {
		if (listener.conn[i].state)
			(void)drop(&listener, &listener.conn[i]);
	}
	if (listener.n || listener.n_pending)
		abort();
	for (unsigned i = 0; i < GUESTS; i++)
		closep(&guests[i]);
	close(listener.epoll);
	close(listen_fd);
	close(ctl_ours);
	close(ctl_theirs);
}

static void come(int *guest)
{
	closep(guest);
	*guest = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (connect(*guest, (struct sockaddr *)&addr, addr_len) < 0)
		closep(guest), *guest = -1;
}

/* The bytes that follow, or a hello that is right, some of each with descriptors. */
static size_t say(int guest, unsigned how, const uint8_t *data, size_t size)
{
	struct wire_hello h = {.magic = WIRE_MAGIC, .version = WIRE_VERSION, .pid = how};
	size_t n = MIN(size, (size_t)(how & 63));
	bool right = how & 64;
	int fd = how & 128 ? fds_any(how, 4096) : -1;

	if (guest >= 0)
		(void)fd_send(guest, right ? (const void *)&h : data,
			      right ? sizeof(h) : n, &fd, fd >= 0);
	closep(&fd);
	return right ? 0 : n;
}

static void hear_of(void)
{
	struct msg m;
	int fd0, fd1;

	while (msg_recv(ctl_theirs, &m, &fd0, &fd1) == 0) {
		closep(&fd0);
		closep(&fd1);
		if (m.type == MSG_HELLO)
			last_id = m.id;
	}
}

static void tell(unsigned how)
{
	static const uint8_t types[] = {MSG_PASS,  MSG_PASS,   MSG_REFUSE,
					MSG_GUEST, MSG_RESUME, MSG_DRAIN};
	struct msg m = {.type = types[how & 3], .id = how & 4 ? how : last_id};
	int fd0 = fds_any(how >> 2, 4096), fd1 = how & 128 ? fds_any(how, 4096) : -1;

	if (m.type == MSG_REFUSE)
		m.refuse.error = -(int32_t)(how >> 3);
	(void)msg_send(ctl_theirs, &m, fd0, fd1);
	closep(&fd0);
	closep(&fd1);
}

/* Returns false when the listener would end. */
static bool serve(void)
{
	struct epoll_event ev[16];
	int n = epoll_wait(listener.epoll, ev, ARRAY_SIZE(ev), 0);

	for (int i = 0; i < n; i++) {
		if (handle(&listener, &ev[i]) < 0)
			return false;
	}
	if (listener.n > CONNS_MAX || listener.n_pending > PENDING_MAX ||
	    listener.n_pending > listener.n)
		abort();
	return true;
}

static size_t step(const uint8_t *data, size_t size)
{
	int *guest = &guests[data[1] % GUESTS];
	size_t taken = 2;

	switch (data[0] % 8) {
	case 0:
	case 1:
		come(guest);
		break;
	case 2:
	case 3:
	case 4:
		taken += say(guests[data[0] / 8 % GUESTS], data[1], data + 2, size - 2);
		break;
	case 5:
		closep(guest);
		*guest = -1;
		break;
	case 6:
		tell(data[1]);
		break;
	default: /* time has passed */
		for (unsigned i = 0; i < listener.used; i++)
			listener.conn[i].deadline_ns = 0;
		if (drop_late(&listener) < 0)
			abort();
	}
	return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned before = fds_open();

	log_set_level(LOG_LVL_ERROR);
	open_listener();
	for (unsigned i = 0; i < STEPS && size >= 2; i++) {
		size_t n = step(data, size);

		data += n;
		size -= n;
		if (!serve())
			break;
		hear_of();
	}
	close_listener();
	if (fds_open() != before)
		abort();
	return 0;
}
