/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sockfile.h"
#include "util/notify.h"

void notify_manager(const char *assignments)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa;
	_cleanup_close_ int fd = -1;

	if (!path || !*path || sockfile_address(path, &sa) < 0)
		return;
	if (*path == '@')
		*sa.sun_path = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, assignments, strlen(assignments), MSG_NOSIGNAL,
			     (struct sockaddr *)&sa,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
					 strlen(path)));
}

void notify_reloading(void)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		 clock_now_ns() / 1000);
	notify_manager(text);
}
