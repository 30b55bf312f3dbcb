/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors: whole reads and writes, passing over Unix sockets, memfds. */
#ifndef WEFT_BASE_FD_H
#define WEFT_BASE_FD_H

#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/macros.h"

/* Most descriptors that one fd_send() message may carry, and that the kernel lets one. */
#define FD_PASS_MAX 8
#define FD_COME_MAX 253

static inline void closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define _cleanup_close_ _cleanup_(closep)

/* Moves a descriptor out of a scope-cleaned variable. */
static inline int fd_steal(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

/* Reads exactly len bytes. Returns 0, -ENODATA at end of file, or -errno. Restarts EINTR. */
int fd_read_full(int fd, void *buf, size_t len);

/* Writes exactly len bytes; never raises SIGPIPE on a socket. Returns 0 or -errno. */
int fd_write_full(int fd, const void *buf, size_t len);

/*
 * Sends one message with n_fds descriptors over a Unix socket; the descriptors stay the
 * caller's. len must be at least 1. Returns 0 or -errno.
 */
int fd_send(int sock, const void *buf, size_t len, const int *fds, unsigned n_fds);

/*
 * Receives one message and up to max_fds descriptors (close-on-exec; the caller owns
 * them on success, unused places are -1; surplus ones are closed, and all of a message
 * without a byte). Returns the number of bytes, 0 at end of file, or -errno.
 */
ssize_t fd_recv(int sock, void *buf, size_t len, int *fds, unsigned max_fds);

/* As fd_recv(), but gives descriptors to drop instead of closing them, which may take as
 * long as their maker likes. */
ssize_t fd_recv_with(int sock, void *buf, size_t len, int *fds, unsigned max_fds,
		     void (*drop)(int fd));

/* Closes a descriptor: a drop for fd_recv_with(). */
void fd_drop(int fd);

/*
 * Makes a sealed (no grow, no shrink) shared memory file of size bytes, close-on-exec.
 * Returns the descriptor or -errno.
 */
int fd_memfd(const char *name, size_t size);

/* Sets or clears O_NONBLOCK. Returns 0 or -errno. */
int fd_set_nonblock(int fd, int on);

#endif
