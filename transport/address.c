/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <linux/vm_sockets.h>

#include "address.h"
#include "base/fd.h"
#include "wire.h"

/* Parses a decimal number that ends at the given character. */
static int parse_u32(const char **p, char end, uint32_t *ret)
{
	unsigned long long v;
	char *stop;

	if (**p < '0' || **p > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(*p, &stop, 10);
	if (errno || *stop != end || v > UINT32_MAX)
		return -EINVAL;
	*p = stop + (end ? 1 : 0);
	*ret = (uint32_t)v;
	return 0;
}

static int parse_vsock(const char *text, struct address *a)
{
	struct sockaddr_vm *vm = (struct sockaddr_vm *)&a->sa;

	vm->svm_family = AF_VSOCK;
	a->len = sizeof(*vm);
	if (parse_u32(&text, ':', &vm->svm_cid) < 0)
		return -EINVAL;
	return parse_u32(&text, '\0', &vm->svm_port);
}

static int parse_unix(const char *path, struct address *a)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&a->sa;
	size_t len = strlen(path);

	if (!len || len >= sizeof(un->sun_path))
		return -EINVAL;
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path, len + 1);
	a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	return 0;
}

int address_parse(const char *text, struct address *ret_address)
{
	struct address a = {0};
	int r = -EINVAL;

	if (strncmp(text, "unix:", 5) == 0)
		r = parse_unix(text + 5, &a);
	else if (strncmp(text, "vsock:", 6) == 0)
		r = parse_vsock(text + 6, &a);
	if (r == 0)
		*ret_address = a;
	return r;
}

/* Receives an answer of weft-guest-connect. */
static int receive_socket(int connector)
{
	_cleanup_close_ int fd = -1;
	int32_t status;
	ssize_t n = fd_recv(connector, &status, sizeof(status), &fd, 1);

	if (n != sizeof(status) || status < 0 || (!status && fd < 0))
		return -EPROTO;
	return status ? -status : fd_steal(&fd);
}

/* error: why we may not connect ourselves. */
static int ask_connector(const struct address *a, int error)
{
	const struct sockaddr_vm *vm = (const struct sockaddr_vm *)&a->sa;
	_cleanup_close_ int fd = -1;
	struct address at;

	/* Leads to weftd and nowhere else. */
	if (vm->svm_cid != VMADDR_CID_HOST || vm->svm_port != WIRE_VSOCK_PORT)
		return error;
	if (address_parse("unix:" ADDRESS_CONNECTOR, &at) < 0)
		return error;
	fd = address_connect(&at);
	return fd < 0 ? error : receive_socket(fd);
}

int address_connect(const struct address *a)
{
	for (;;) {
		_cleanup_close_ int fd =
			socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0 && (errno == EPERM || errno == EACCES) && address_is_vsock(a))
			return ask_connector(a, -errno);
		if (fd < 0)
			return -errno;
		if (connect(fd, (const struct sockaddr *)&a->sa, a->len) == 0)
			return fd_steal(&fd);
		/* After a signal neither family says what state the socket is in: a new
		 * one. */
		if (errno != EINTR)
			return -errno;
	}
}
