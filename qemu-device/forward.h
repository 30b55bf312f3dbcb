/* SPDX-License-Identifier: Apache-2.0 */
/* Table from vsock ports of the host to the Unix sockets that answer them. */
#ifndef WEFT_FORWARD_H
#define WEFT_FORWARD_H

#include <stdint.h>
#include <sys/un.h>

/* Ports one VM may be given; each is one operator's decision. */
#define FORWARD_MAX 32

/* The port on which a guest finds weftd, unless configured otherwise. */
#define FORWARD_DEFAULT_PORT 22887

struct forward {
	unsigned n;
	struct {
		uint32_t port;
		char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	} e[FORWARD_MAX];
};

/*
 * Adds "PORT=PATH", or "PATH" for the default port. Returns 0, -EINVAL, -EEXIST for a
 * port already there, -ENAMETOOLONG, or -ENOSPC.
 */
int forward_add(struct forward *f, const char *arg);

/*
 * Connects to the socket of port without waiting. Returns a non-blocking descriptor,
 * -ENOENT for a port that is not forwarded, or the error of connect.
 */
int forward_connect(const struct forward *f, uint32_t port);

#endif
