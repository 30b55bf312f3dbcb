/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "carrier.h"
#include "loopback.h"

#define LOOPBACK_LANE_SIZE (8u << 20)

int loopback_init(struct loopback *lb, const struct loopback_opts *opts)
{
	struct lane_init in = {.spin_us = opts->spin_us,
			       .tickets = opts->tickets ? opts->tickets : &lb->tickets,
			       .output = opts->output,
			       .carrier_name = "loopback"};
	int sock[2], r;

	*lb = (struct loopback){0};
	atomic_init(&lb->tickets.next, 1);
	if (opts->carrier == WIRE_CARRIER_WINDOW) {
		lb->map_size = opts->lane_size ? opts->lane_size : LOOPBACK_LANE_SIZE;
		lb->map = mmap(NULL, lb->map_size, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (lb->map == MAP_FAILED) {
			lb->map = NULL;
			return -errno;
		}
		in.ring = lb->map;
		in.ring_size = lb->map_size;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) < 0) {
		r = -errno;
		loopback_fini(lb);
		return r;
	}
	in.guest = true;
	in.sock = sock[0];
	r = lane_new(&in, &lb->guest);
	if (r < 0) {
		close(sock[0]);
		close(sock[1]);
		loopback_fini(lb);
		return r;
	}
	in.guest = false;
	in.sock = sock[1];
	r = lane_new(&in, &lb->worker);
	if (r < 0) {
		close(sock[1]);
		loopback_fini(lb);
	}
	return r;
}

void loopback_fini(struct loopback *lb)
{
	lane_free(lb->guest);
	lane_free(lb->worker);
	if (lb->map)
		munmap(lb->map, lb->map_size);
	*lb = (struct loopback){0};
}
