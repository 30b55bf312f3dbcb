/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A front end that says anything: the input is a series of vhost-user messages, each
 * request, number of descriptors and NEED_REPLY flag, size (one byte each), payload.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/fd.h"
#include "server.h"

#define RAM          (1u << 20)
#define MAX_MESSAGES 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct server s;
static int ram = -1;

static int no_connect(void *ctx, uint32_t port)
{
	return -ECONNREFUSED;
}

static void drain(int fd)
{
	char buf[4096];

	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
}

/* Kicks and calls get an eventfd, memory the memfd; the first byte of the payload mixes.
 */
static int some_fd(uint32_t request)
{
	if (request == VU_SET_MEM_TABLE || request == VU_ADD_MEM_REG)
		return dup(ram);
	return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vu *v = &s.dev.vu;
	int p[2];

	if (ram < 0) {
		log_set_level(LOG_LVL_ERROR);
		ram = fd_memfd("fuzz", RAM);
		if (server_init(&s, 42) < 0)
			abort();
		s.dev.connect = no_connect;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, p) < 0 ||
	    server_adopt_front(&s, p[0]) < 0)
		abort();
	for (unsigned i = 0; i < MAX_MESSAGES && size >= 3 && v->fd >= 0; i++) {
		v->hdr.request = data[0];
		v->hdr.flags = VU_VERSION | (data[1] & 0x80 ? VU_F_NEED_REPLY : 0);
		v->hdr.size = data[2] & 1 ? data[2] * 2u : data[2];
		data += 3;
		size -= 3;
		v->n_fds = MIN(data[-2] & 15u, (unsigned)VU_MAX_FDS);
		for (unsigned k = 0; k < v->n_fds; k++)
			v->fds[k] = some_fd(v->hdr.request);
		memset(v->payload, 0, sizeof(v->payload));
		memcpy(v->payload, data, MIN(size, (size_t)v->hdr.size));
		data += MIN(size, (size_t)v->hdr.size);
		size -= MIN(size, (size_t)v->hdr.size);
		v->have = sizeof(v->hdr) + v->hdr.size;
		if (vu_dispatch(v) < 0)
			break;
		if (server_step(&s, 0) < 0)
			abort();
		drain(p[1]);
	}
	/* As the loop would find out: the front end is gone. */
	close(p[1]);
	while (v->fd >= 0) {
		if (server_step(&s, 0) < 0)
			abort();
	}
	return 0;
}
