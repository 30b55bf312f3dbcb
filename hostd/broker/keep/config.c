/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: memfd_create */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/keep/config.h"
#include "util/fdstore.h"

#define NAME      "config"
#define BYTES_MAX (16u << 20)

void config_keep(const char *text)
{
	_cleanup_close_ int fd = -1;
	size_t n = text ? strlen(text) : 0;
	int r = 0, before;

	if (!fdstore_is_open() || n > BYTES_MAX)
		return;
	fd = memfd_create("weft-config", MFD_CLOEXEC);
	if (fd < 0 || pwrite(fd, text, n, 0) != (ssize_t)n)
		r = -errno;
	if (r == 0) {
		/* Else it is among the rest (fdstore_remove_rest()), with ours by name. */
		before = fdstore_take(NAME);
		if (before >= 0)
			close(before);
		fdstore_remove(NAME);
		r = fdstore_put(NAME, fd);
	}
	if (r < 0)
		log_warning("the configuration is not kept for the next weftd: %s",
			    strerror(-r));
}

char *config_kept(void)
{
	_cleanup_close_ int fd = fdstore_take(NAME);
	_cleanup_free_ char *text = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > BYTES_MAX)
		return NULL;
	text = calloc(1, (size_t)st.st_size + 1);
	if (!text || pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
		return NULL;
	return steal(text);
}
