/* SPDX-License-Identifier: Apache-2.0 */
/* Where a host listens, as text: "unix:PATH" or "vsock:CID:PORT". */
#ifndef WEFT_ADDRESS_H
#define WEFT_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

struct address {
	struct sockaddr_storage sa;
	socklen_t len;
};

/* Returns 0 or -EINVAL (neither form, a path too long, numbers out of range). */
int address_parse(const char *text, struct address *ret_address);

static inline bool address_is_vsock(const struct address *a)
{
	return a->sa.ss_family == AF_VSOCK;
}

/* The socket of weft-guest-connect, which connects for those who may not. */
#define ADDRESS_CONNECTOR "/run/weft-guest/vsock"

/*
 * Connects a stream socket (close-on-exec). Where a filter refuses vsock sockets (that of
 * a container does), weft-guest-connect is asked for one that is connected to weftd.
 * Returns the descriptor or -errno.
 */
int address_connect(const struct address *a);

#endif
