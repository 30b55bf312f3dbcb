/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/macros.h"
#include "ipc/msg.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static const char *const names[] = {
	[MSG_READY] = "READY",
	[MSG_ATTACH] = "ATTACH",
	[MSG_LANE] = "LANE",
	[MSG_OPENED] = "OPENED",
	[MSG_CHARGE] = "CHARGE",
	[MSG_HOST_CHARGE] = "HOST_CHARGE",
	[MSG_HOST_UNCHARGE] = "HOST_UNCHARGE",
	[MSG_MEMORY] = "MEMORY",
	[MSG_TENANT] = "TENANT",
	[MSG_IPC_EXPORT] = "IPC_EXPORT",
	[MSG_IPC_OPEN] = "IPC_OPEN",
	[MSG_IPC_CLOSE] = "IPC_CLOSE",
	[MSG_IPC_DROP] = "IPC_DROP",
	[MSG_ANSWER] = "ANSWER",
	[MSG_HELLO] = "HELLO",
	[MSG_RECLAIM] = "RECLAIM",
	[MSG_RECLAIMED] = "RECLAIMED",
	[MSG_RESTORE] = "RESTORE",
	[MSG_RESTORED] = "RESTORED",
	[MSG_NEED] = "NEED",
	[MSG_EVICTED_FREED] = "EVICTED_FREED",
	[MSG_QUIESCED] = "QUIESCED",
	[MSG_PREALLOC] = "PREALLOC",
	[MSG_MAKE_RESIDENT] = "MAKE_RESIDENT",
	[MSG_ENDING] = "ENDING",
	[MSG_LEFT] = "LEFT",
	[MSG_PROBE] = "PROBE",
	[MSG_GONE] = "GONE",
	[MSG_REFUSE] = "REFUSE",
	[MSG_PASS] = "PASS",
	[MSG_GUEST] = "GUEST",
	[MSG_WMEM_CHARGE] = "WMEM_CHARGE",
	[MSG_HOLDERS] = "HOLDERS",
};
static_assert(ARRAY_SIZE(names) == MSG_NUM, "a name for each");

const char *msg_name(uint32_t type)
{
	return type < ARRAY_SIZE(names) && names[type] ? names[type] : "?";
}

int msg_send(int sock, const struct msg *m, int fd0, int fd1)
{
	int fds[2] = {fd0, fd1};

	return fd_send(sock, m, sizeof(*m), fds, fd0 < 0 ? 0 : fd1 < 0 ? 1 : 2);
}

int msg_recv_with(int sock, struct msg *ret_m, int *ret_fd0, int *ret_fd1,
		  void (*drop)(int fd))
{
	int fds[2] = {-1, -1};
	ssize_t n = fd_recv_with(sock, ret_m, sizeof(*ret_m), fds, ARRAY_SIZE(fds), drop);

	if (n == 0)
		return -ENODATA;
	if (n < 0)
		return (int)n;
	if (n != sizeof(*ret_m)) {
		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
			if (fds[i] >= 0)
				drop(fds[i]);
		}
		return -EPROTO;
	}
	ret_m->text[sizeof(ret_m->text) - 1] = '\0';
	*ret_fd0 = fds[0];
	*ret_fd1 = fds[1];
	return 0;
}

int msg_recv(int sock, struct msg *ret_m, int *ret_fd0, int *ret_fd1)
{
	return msg_recv_with(sock, ret_m, ret_fd0, ret_fd1, fd_drop);
}

void msg_refuse_fds(int sock)
{
	int off = 0;

	/* A kernel that does not know it takes them, as ever. */
	(void)setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}
