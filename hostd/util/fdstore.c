/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "util/fdstore.h"
#include "util/notify.h"

#define FIRST_FD 3
#define FDS_MAX  65536

static struct {
	bool open;
	unsigned n;
	struct given {
		char *name; /* NULL: taken, or nobody's */
		int fd;
	} * given;
} store;

/* Descriptors that are meant for this process; 0: none. */
static unsigned count_given(void)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	unsigned long count;

	if (!pid || !n || strtol(pid, NULL, 10) != getpid())
		return 0;
	count = strtoul(n, NULL, 10);
	return count > FDS_MAX ? 0 : (unsigned)count;
}

int fdstore_open(void)
{
	const char *names = getenv("LISTEN_FDNAMES");
	unsigned n = count_given();

	store.given = calloc(n + 1, sizeof(*store.given));
	if (!store.given)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		size_t len = names ? strcspn(names, ":") : 0;

		store.given[i].fd = FIRST_FD + (int)i;
		store.given[i].name = strndup(names ? names : "", len);
		(void)fcntl(store.given[i].fd, F_SETFD, FD_CLOEXEC);
		if (names)
			names = names[len] ? names + len + 1 : NULL;
	}
	store.n = n;
	store.open = true;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return 0;
}

bool fdstore_is_open(void)
{
	return store.open;
}

int fdstore_take(const char *name)
{
	for (unsigned i = 0; i < store.n; i++) {
		struct given *g = &store.given[i];

		if (!g->name || strcmp(g->name, name) != 0)
			continue;
		free(g->name);
		g->name = NULL;
		return fd_steal(&g->fd);
	}
	return -1;
}

int fdstore_put(const char *name, int fd)
{
	char text[FDSTORE_NAME_MAX + 64];

	if (!store.open)
		return 0;
	if (strlen(name) > FDSTORE_NAME_MAX)
		return -ENAMETOOLONG;
	/* A socket whose other end has gone says so to us, and to nobody else. */
	snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name);
	return notify_manager_with(text, fd);
}

void fdstore_remove(const char *name)
{
	char text[FDSTORE_NAME_MAX + 64];

	if (!store.open)
		return;
	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	notify_manager(text);
}

void fdstore_remove_rest(void)
{
	for (unsigned i = 0; i < store.n; i++) {
		if (!store.given[i].name)
			continue;
		fdstore_remove(store.given[i].name);
		free(store.given[i].name);
		store.given[i].name = NULL;
		closep(&store.given[i].fd);
	}
	free(store.given);
	store.given = NULL;
	store.n = 0;
}
