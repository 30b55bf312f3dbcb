/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/macros.h"
#include "profile/fit.h"
#include "profile/keep.h"
#include "profile/record.h"

static int complain(const char *path, int error)
{
	fprintf(stderr, "weft-run: --profile: %s: %s\n", path, strerror(-error));
	return error;
}

/* Takes the launches, as far as they have more to say. */
static int add(struct kernels *all, struct kernels *own)
{
	for (size_t i = 0; i < own->n; i++) {
		struct kernel *from = own->v[i];
		struct kernel *to = kernels_get(all, &from->code, from->name);

		if (!to)
			return -ENOMEM;
		for (unsigned j = 0; j < from->n; j++) {
			if (kernel_sees(to, &from->launch[j]))
				kernel_keep(to, &from->launch[j]);
		}
		to->seen += from->seen - from->n;
	}
	return 0;
}

static int close_written(FILE *f, const char *path)
{
	bool failed = ferror(f);

	return fclose(f) || failed ? complain(path, -EIO) : 0;
}

static int write_profile(const char *path, const struct kernels *all)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return complain(path, -errno);
	fprintf(f, "weft-extents 1\n");
	for (size_t i = 0; i < all->n; i++) {
		if (all->v[i]->n)
			fit_write(f, all->v[i]);
	}
	return close_written(f, path);
}

/* As long as f is open, nobody else has the file. */
static FILE *open_launches(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	FILE *f = fd >= 0 && flock(fd, LOCK_EX) == 0 ? fdopen(fd, "r+") : NULL;

	if (!f) {
		complain(path, -errno);
		if (fd >= 0)
			close(fd);
	}
	return f;
}

static int merge(FILE *f, const char *path, struct kernels *own, struct kernels *all)
{
	unsigned line;
	int r = record_read(f, all, &line);

	if (r == -EINVAL)
		fprintf(stderr, "weft-run: --profile: %s:%u is no line of launches\n",
			path, line);
	else if (r < 0)
		complain(path, r);
	if (r == 0)
		r = add(all, own);
	rewind(f);
	if (r == 0 && ftruncate(fileno(f), 0) < 0)
		r = complain(path, -errno);
	if (r == 0)
		record_write(f, all);
	return r;
}

int keep_launches(const char *path, struct kernels *own)
{
	_cleanup_free_ char *launches = NULL;
	struct kernels all = {0};
	FILE *f;
	int r;

	if (asprintf(&launches, "%s.launches", path) < 0)
		return -ENOMEM;
	f = open_launches(launches);
	if (!f)
		return -EIO;
	r = merge(f, launches, own, &all);
	if (r == 0)
		r = write_profile(path, &all);
	if (close_written(f, launches) < 0)
		r = -EIO;
	kernels_free(&all);
	return r;
}
