/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A note beside the sockets of which file a tenant's window is. The window itself is
 * written by its VM, so what it says proves nothing; the next daemon reads here that the
 * file is the one that the VM has mapped, and goes on with its key.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "broker/window.h"

#define NOTE_FORMAT "weft-window 1 dev %llu ino %llu key %u created %u\n"

int window_note_read(const char *path, struct window_note *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	unsigned long long dev, ino;
	unsigned key, created;
	char text[160];
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	/* NOLINTNEXTLINE(cert-err34-c): weftd wrote it, and compares with what is there */
	if (sscanf(text, NOTE_FORMAT, &dev, &ino, &key, &created) != 4 || !key ||
	    !strchr(text, '\n'))
		return -EBADMSG;
	*ret = (struct window_note){
		.dev = dev, .ino = ino, .key = key, .created = created != 0};
	return 0;
}

static int write_text(const char *path, const struct window_note *note)
{
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	char text[160];
	int n;

	if (fd < 0)
		return -errno;
	n = snprintf(text, sizeof(text), NOTE_FORMAT, (unsigned long long)note->dev,
		     (unsigned long long)note->ino, note->key, (unsigned)note->created);
	return fd_write_full(fd, text, (size_t)n);
}

/* All of it or the one before: a daemon may be killed at any point. */
int window_note_write(const char *path, const struct window_note *note)
{
	_cleanup_free_ char *fresh = NULL;
	int r;

	if (asprintf(&fresh, "%s.new", path) < 0) {
		fresh = NULL;
		return -ENOMEM;
	}
	r = write_text(fresh, note);
	if (r == 0 && rename(fresh, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(fresh);
	return r;
}
