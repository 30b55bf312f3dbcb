/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file "lock" of a run directory. Whoever removes such a directory has its lock, so a
 * lock counts only if its file still has that name.
 */
#ifndef WEFT_UTIL_LOCKFILE_H
#define WEFT_UTIL_LOCKFILE_H

#include <stdbool.h>
#include <sys/stat.h>

static inline bool lockfile_is_at(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

#endif
