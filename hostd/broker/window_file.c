/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window's file, which weftd makes or QEMU has made already. Whoever can write it reads
 * and changes all that the VM's programs send, and whatever was in it is overwritten:
 * hence owner and mode are looked at, and files that are something else are refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/window.h"
#include "wire.h"

/* Returns NULL if only the daemon, root and the tenant's own could have made the file and
 * may write it. */
static const char *not_trusted(const struct stat *st, const struct window_owner *who)
{
	if (st->st_uid != 0 && st->st_uid != geteuid() && st->st_uid != who->uid)
		return "belongs to another user: remove it, or name that user as owner";
	if (st->st_mode & 0002)
		return "everybody may write it: remove it, or take that right away";
	if (st->st_mode & 0020 && st->st_gid != who->gid)
		return "another group may write it: remove it, or name it as group";
	if (st->st_nlink != 1)
		return "has a second name (hard link): remove it";
	return NULL;
}

/* Returns true if all there is of the file is zero; holes are not read. */
static bool is_blank(int fd, off_t size)
{
	static const char zero[65536];
	char buf[sizeof(zero)];
	off_t at = 0;

	while (at < size) {
		ssize_t n;

		at = lseek(fd, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO;
		n = pread(fd, buf, sizeof(buf), at);
		if (n < 0 || memcmp(buf, zero, (size_t)n) != 0)
			return false;
		at += n;
		if (!n)
			break;
	}
	return true;
}

static bool is_window(int fd)
{
	struct wire_window_id id;

	return pread(fd, &id, sizeof(id), 0) == sizeof(id) && id.magic == WIRE_MAGIC;
}

static int check(int fd, const struct window_owner *who, const struct window_note *known,
		 const char **ret_why)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		*ret_why = "exists and is no ordinary file: use another path";
	else
		*ret_why = not_trusted(&st, who);
	/* A VM may write what it likes into its window, the head included. */
	if (known && known->ino == st.st_ino && known->dev == st.st_dev)
		return *ret_why ? -EEXIST : 0;
	if (!*ret_why && !is_window(fd) && !is_blank(fd, st.st_size))
		*ret_why = "exists and is no window: nothing is overwritten; remove it, "
			   "or use another path";
	return *ret_why ? -EEXIST : 0;
}

/*
 * Memory is taken when it is first written: one who finds none then is killed, which may
 * be QEMU. So there must be room now, though others may take it before.
 */
static int grow(int fd, const struct stat *st, uint64_t size, const char **ret_why)
{
	uint64_t has = (uint64_t)st->st_blocks * 512;
	struct statvfs fs;

	if (fstatvfs(fd, &fs) < 0)
		return -errno;
	if (size > has && size - has > (uint64_t)fs.f_bavail * fs.f_frsize) {
		*ret_why = "its file system has no room for window.size: make the window "
			   "smaller, or the file system larger (mount -o remount,size=)";
		return -ENOSPC;
	}
	return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

int window_file_open(const char *path, uint64_t size, const struct window_owner *who,
		     const struct window_note *known, bool *ret_created,
		     const char **ret_why)
{
	_cleanup_close_ int fd = -1;
	bool created;
	struct stat st;
	int r = 0;

	*ret_why = NULL;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, 0600);
	created = fd >= 0;
	/* Neither a pipe nor a device is waited for. */
	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		r = -errno;
		if (r == -ELOOP)
			*ret_why = "is a symbolic link: name the file itself";
		return r;
	}
	if (!created)
		r = check(fd, who, known, ret_why);
	if (r == 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r == 0 && (uint64_t)st.st_size < size)
		r = grow(fd, &st, size, ret_why);
	if (r < 0) {
		if (created)
			unlink(path);
		return r;
	}
	*ret_created = created;
	return fd_steal(&fd);
}
