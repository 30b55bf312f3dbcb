/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a device that is handed over: as a successor takes them, or as the
 * supervisor keeps them and plays them to a new server. Input: one byte (bit 0: the
 * supervisor's), then records of
 *
 *	what is attached (2 bytes: three bits for each of three descriptors, see
 *	fds_any()), bytes of data / 16 (1 byte; 0xff: it lies), kind (1 byte), number of
 *	arguments (1 byte), their 8 bytes each
 */
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include "fds.h"
#include "handover.h"
#include "input.h"
#include "server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#include "supervisor.c"

#define RAM      (256u << 10)
#define STEPS    4
#define RECORDS  40
#define SENT_MAX 32768u

/* Sends one; false: the receiver has had enough. */
static bool put_record(int to, struct input *in)
{
	static const char zero[HANDOVER_MAX_DATA + 16];
	struct {
		struct handover_msg m;
		char data[4096];
	} rec = {.m = {.version = HANDOVER_VERSION}};
	unsigned attached = take(in) | take(in) << 8, length = take(in), n_args, n = 0;
	size_t bytes = length == 0xff ? 48 : length * 16u;
	int fds[3] = {-1, -1, -1};
	bool sent;

	rec.m.kind = take(in) % (HANDOVER_END + 2);
	rec.m.n_data = length == 0xff ? UINT32_MAX : (uint32_t)bytes;
	n_args = take(in) % (HANDOVER_MAX_ARGS + 1);
	memcpy(rec.m.arg, in->p, MIN(in->n, n_args * 8ul));
	in->p += MIN(in->n, n_args * 8ul);
	in->n -= MIN(in->n, n_args * 8ul);
	memcpy(rec.data, zero, bytes);
	for (unsigned i = 0; i < 3; i++) {
		int fd = fds_any(attached >> (3 * i), RAM);

		if (fd < 0)
			continue;
		rec.m.fd_mask |= 1u << i;
		fds[n++] = fd;
	}
	sent = fd_send(to, &rec, sizeof(rec.m) + bytes, fds, n) == 0;
	while (n)
		closep(&fds[--n]);
	return sent;
}

/* A successor takes all of it from us, as it was. */
static void hand_on(struct server *s)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	static struct server successor;
	socklen_t len = sizeof(a);

	closep(&s->handover_fd);
	s->handover_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* An address without a name gets one that is free. */
	if (bind(s->handover_fd, (struct sockaddr *)&a, sizeof(sa_family_t)) < 0 ||
	    getsockname(s->handover_fd, (struct sockaddr *)&a, &len) < 0 ||
	    listen(s->handover_fd, 1) < 0 ||
	    connect(fd, (struct sockaddr *)&a, len) < 0 || send(fd, "k", 1, 0) != 1 ||
	    handover_offer(s) < 0 || server_init(&successor, 0) < 0 ||
	    handover_receive(&successor, fd, 0) < 0)
		abort();
	if (successor.dev.conns.n != s->dev.conns.n ||
	    successor.dev.conns.buffered != s->dev.conns.buffered)
		abort();
	server_fini(&successor);
	close(fd);
}

/* Takes over. State that was taken must be fit for serving, or at least for ending. */
static void receive(int from, int after_crash)
{
	static struct server s;

	if (server_init(&s, 42) < 0)
		abort();
	if (handover_receive(&s, from, after_crash) == 0 && server_start(&s) == 0) {
		for (unsigned i = 0; i < STEPS && server_step(&s, 0) == 0; i++)
			;
		/* More would have to be read while it is written. */
		if (s.dev.conns.buffered < SENT_MAX)
			hand_on(&s);
	}
	server_fini(&s);
}

static void keep(int from)
{
	static struct supervisor k;
	int state[2];

	k = (struct supervisor){.sock = from};
	while (keep_record(&k) == 0)
		;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, state) < 0)
		abort();
	(void)replay(&k.now, state[0]);
	close(state[0]);
	receive(state[1], 1);
	close(state[1]);
	snapshot_drop(&k.now);
	snapshot_drop(&k.next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	unsigned before = fds_open();
	bool to_supervisor = take(&in) & 1;
	int s[2];

	log_set_level(LOG_LVL_ERROR);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, s) < 0)
		return 0;
	for (unsigned i = 0; i < RECORDS && in.n && put_record(s[1], &in); i++)
		;
	close(s[1]);
	if (to_supervisor)
		keep(s[0]);
	else
		receive(s[0], 0);
	close(s[0]);
	if (fds_open() != before)
		abort();
	return 0;
}
