/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records over a socket. Input: one byte that chooses the side, then what the peer sends
 * before it leaves: commands to a worker, or replies to a guest that has made a call.
 */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carrier.h"
#include "loopback.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile char sum;

static void touch(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum += ((const char *)p)[i];
}

static void output(const void *text, size_t size)
{
	touch(text, size);
}

/* Sends all of it from the raw socket of a lane's peer. */
static void feed(int sock, const uint8_t *data, size_t size)
{
	if (send(sock, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && size)
		return;
	shutdown(sock, SHUT_WR);
}

static void as_worker(struct loopback *lb)
{
	struct lane_msg m;

	while (lane_recv(lb->worker, &m) == 0) {
		touch(m.body, m.body_size);
		touch(m.payload, m.payload_size);
		if (m.hdr.flags & WIRE_F_ASYNC)
			continue;
		if (lane_reply_begin(lb->worker, 0, 8, 0, NULL))
			lane_reply(lb->worker);
	}
}

static void as_guest(struct loopback *lb)
{
	struct lane_reply rep;
	int r;

	for (unsigned i = 0; i < 100; i++) {
		if (!lane_begin(lb->guest, 0, 0, 0, NULL))
			return;
		for (r = lane_call(lb->guest, &rep); r == 0;
		     r = lane_next(lb->guest, &rep)) {
			touch(rep.body, rep.body_size);
			touch(rep.payload, rep.payload_size);
			if (!rep.more)
				break;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct loopback_opts o = {.carrier = WIRE_CARRIER_STREAM, .output = output};
	struct loopback lb;

	/* A socket takes no more at once. */
	if (!size || size > 150000 || loopback_init(&lb, &o) < 0)
		return 0;
	if (data[0] & 1) {
		feed(lb.worker->sock, data + 1, size - 1);
		as_guest(&lb);
	} else {
		feed(lb.guest->sock, data + 1, size - 1);
		as_worker(&lb);
	}
	loopback_fini(&lb);
	return 0;
}
