/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VM's window: a file that QEMU maps as an ivshmem device. Its first page says what it
 * is; the rest is cut into slices of one size, one per session. A guest process can reach
 * every slice of its own VM's window, as the manual says; another VM's never.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"

#define WINDOW_HEAD 4096u
#define WINDOW_MIN  (16ull << 20)
/* Room for a few lanes of full size; see host.c of the transport. */
#define SLICE_WANTED (64ull << 20)
#define SLICES_MAX   64u
#define SLICES_MIN   4u

static int write_head(int fd, uint64_t size, uint32_t *ret_key)
{
	struct wire_window_id id = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .size = size};

	do {
		if (getrandom(&id.key, sizeof(id.key), 0) != sizeof(id.key))
			return -EIO;
	} while (!id.key);
	if (pwrite(fd, &id, sizeof(id), 0) != sizeof(id))
		return -EIO;
	*ret_key = id.key;
	return 0;
}

static int open_file(struct window *w, const char *path, uint64_t size)
{
	struct stat st;

	w->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, 0600);
	w->created = w->fd >= 0;
	if (w->fd < 0 && errno == EEXIST)
		w->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (w->fd < 0 || fstat(w->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size < size && ftruncate(w->fd, (off_t)size) < 0)
		return -errno;
	return 0;
}

static void cut(struct window *w)
{
	uint64_t room = w->size - WINDOW_HEAD;
	uint64_t slice = MIN(SLICE_WANTED, room / SLICES_MIN);

	w->slice_size = ALIGN_DOWN(slice, 4096ull);
	w->n_slices = (unsigned)MIN(room / w->slice_size, (uint64_t)SLICES_MAX);
}

int window_open(struct window *w, const char *path, uint64_t size)
{
	int r;

	if (size < WINDOW_MIN || size % 4096 || size > INT64_MAX)
		return -EINVAL;
	w->path = strdup(path);
	if (!w->path)
		return -ENOMEM;
	r = open_file(w, path, size);
	if (r == 0)
		r = write_head(w->fd, size, &w->key);
	if (r < 0) {
		window_fini(w);
		return r;
	}
	w->size = size;
	cut(w);
	return 0;
}

int window_take(struct window *w, struct ctl_window *ret_slice)
{
	for (unsigned i = 0; w->fd >= 0 && i < w->n_slices; i++) {
		if (w->taken >> i & 1)
			continue;
		w->taken |= 1ull << i;
		*ret_slice = (struct ctl_window){
			.offset = WINDOW_HEAD + i * w->slice_size,
			.size = w->slice_size,
			.key = w->key,
		};
		return (int)i;
	}
	return -ENOSPC;
}

void window_give_back(struct window *w, int slice)
{
	if (slice >= 0)
		w->taken &= ~(1ull << slice);
}

void window_fini(struct window *w)
{
	if (w->fd >= 0)
		close(w->fd);
	if (w->created)
		unlink(w->path);
	free(w->path);
	*w = (struct window){.fd = -1};
}
