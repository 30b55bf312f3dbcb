/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "broker/broker.h"
#include "broker/compute/runlist.h"
#include "ipc/runlist.h"
#include "util/conf.h"
#include "util/fdstore.h"

#define NAME "runlist"

static bool is_whole(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_size == sizeof(struct runlist);
}

int runlist_open(struct broker *b)
{
	int fd;

	if (!strcmp(b->conf->device, "cuda"))
		return 0;
	fd = fdstore_take(NAME);
	if (fd >= 0 && is_whole(fd)) {
		b->runlist_fd = fd;
		return 0;
	}
	if (fd >= 0)
		fdstore_remove(NAME);
	closep(&fd);
	fd = fd_memfd("weft-runlist", sizeof(struct runlist));
	if (fd < 0)
		return fd;
	b->runlist_fd = fd;
	return fdstore_put(NAME, fd);
}

void runlist_close(struct broker *b)
{
	closep(&b->runlist_fd);
	b->runlist_fd = -1;
}
