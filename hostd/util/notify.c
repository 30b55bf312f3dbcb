/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sockfile.h"
#include "util/notify.h"

int notify_manager_with(const char *assignments, int kept)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa;
	_cleanup_close_ int fd = -1;

	if (!path || !*path)
		return -EDESTADDRREQ;
	if (sockfile_address(path, &sa) < 0)
		return -EINVAL;
	if (*path == '@')
		*sa.sun_path = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
					  strlen(path))) < 0)
		return -errno;
	return fd_send(fd, assignments, strlen(assignments), &kept, kept >= 0);
}

void notify_manager(const char *assignments)
{
	(void)notify_manager_with(assignments, -1);
}

void notify_reloading(void)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		 clock_now_ns() / 1000);
	notify_manager(text);
}

/* A whole number, and nothing else; 0 where there is none. */
static uint64_t number(const char *text)
{
	unsigned long long v;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return 0;
	errno = 0;
	v = strtoull(text, &end, 10);
	return errno || *end ? 0 : v;
}

uint64_t notify_watchdog_ns(void)
{
	const char *pid = getenv("WATCHDOG_PID");
	uint64_t us = number(getenv("WATCHDOG_USEC"));

	/* Not ours if it names another process. */
	if (pid && number(pid) != (uint64_t)getpid())
		return 0;
	return us > UINT64_MAX / NSEC_PER_USEC ? 0 : us * NSEC_PER_USEC;
}
