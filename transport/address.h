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

/* Connects a stream socket (close-on-exec). Returns the descriptor or -errno. */
int address_connect(const struct address *a);

#endif
