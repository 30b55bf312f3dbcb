/* SPDX-License-Identifier: Apache-2.0 */
/* Looking and saying, for doctor's checks. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "tools/ctl/doctor.h"

void doctor_say(const struct doctor *d, enum finding what, const char *check,
		const char *type, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->say(d->arg, what, check, text, type);
}

static int open_below(const struct doctor *d, const char *path)
{
	_cleanup_free_ char *full = NULL;

	if (asprintf(&full, "%s%s", d->root, path) < 0)
		return -ENOMEM;
	return open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

int doctor_read(const struct doctor *d, const char *path, char *buf, size_t room)
{
	_cleanup_close_ int fd = open_below(d, path);
	ssize_t n;

	if (fd < 0)
		return -ENOENT;
	n = read(fd, buf, room - 1);
	if (n < 0)
		return -errno;
	if (n && buf[n - 1] == '\n')
		n--;
	buf[n] = '\0';
	return (int)n;
}

bool doctor_exists(const struct doctor *d, const char *path)
{
	_cleanup_free_ char *full = NULL;

	return asprintf(&full, "%s%s", d->root, path) > 0 && access(full, F_OK) == 0;
}
