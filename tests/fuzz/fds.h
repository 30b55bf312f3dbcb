/* SPDX-License-Identifier: Apache-2.0 */
/* For targets whose code is handed descriptors: none may be left. */
#ifndef WEFT_FUZZ_FDS_H
#define WEFT_FUZZ_FDS_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/fd.h"

#define FDS_WATCHED 256 /* more than an input opens */

static inline unsigned fds_open(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < FDS_WATCHED; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A descriptor of some kind, or -1. */
static inline int fds_any(unsigned kind, size_t size)
{
	int p[2];

	switch (kind % 8) {
	case 0:
	case 1:
		return fd_memfd("fuzz", size);
	case 2:
		return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	case 3: /* as a file that can be cut short */
		return open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	case 4:
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, p))
			abort();
		close(p[1]);
		return p[0];
	case 5:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case 6:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	default:
		return -1;
	}
}

#endif
