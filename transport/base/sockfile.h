/* SPDX-License-Identifier: Apache-2.0 */
/* The files of Unix sockets: removing our own and stale ones, never anything else. */
#ifndef WEFT_BASE_SOCKFILE_H
#define WEFT_BASE_SOCKFILE_H

#include <stdbool.h>
#include <sys/types.h>

struct sockaddr_un;

/* Makes *ret the address of a Unix socket at path. -ENAMETOOLONG: no address has room. */
int sockfile_address(const char *path, struct sockaddr_un *ret);

/* Identifies the file of a bound socket; all zero: none. */
struct sockfile {
	dev_t dev;
	ino_t ino;
};

/*
 * Makes way for bind(): removes a socket at path that nobody listens on, or (taken) any
 * socket, since the caller holds the lock of its directory. Returns 0, -EEXIST (a file
 * that is no socket), -EADDRINUSE (somebody listens) or -errno; only 0 has removed it.
 */
int sockfile_clear(const char *path, bool taken);

/* Listens at path, where nobody does; the caller's socket, or -errno. */
int sockfile_listen(const char *path);

/* The one socket on which the service manager listens for this process (sd_listen_fds(3)), or
 * -1. */
int sockfile_given(void);

/* Remembers the socket just bound at path. Returns 0 or -errno. */
int sockfile_note(const char *path, struct sockfile *ret);

/* Removes path if that socket is still what is there. */
void sockfile_remove(const char *path, const struct sockfile *f);

/* Says what an error of these, or of bind(), means. */
const char *sockfile_error(int error);

#endif
