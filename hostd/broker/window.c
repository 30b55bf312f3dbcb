/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VM's window: a file that QEMU maps as an ivshmem device. Its first page says what it
 * is; then come slices of one size, one per session, for lanes; the upper half is host
 * memory that sessions ask for. A guest process can reach all of its own VM's window, as
 * the manual says; another VM's never.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/tenant.h"
#include "broker/window.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "util/range.h"
#include "wire.h"

#define WINDOW_HEAD 4096u
#define WINDOW_MIN  (16ull << 20)
/* Room for a few lanes of full size; see host.c of the transport. */
#define SLICE_WANTED (64ull << 20)
#define SLICES_MAX   64u
#define SLICES_MIN   4u
/* From here on half of a window is host memory. */
#define WINDOW_HOST_MIN (64ull << 20)
#define HOST_ALIGN      (64ull << 10) /* DEVICE_HOST_GRAIN */

/* key: what it was, or 0 for another one. */
static int write_head(int fd, uint64_t size, uint32_t *key)
{
	struct wire_window_id id = {.magic = WIRE_MAGIC,
				    .version = WIRE_WINDOW_VERSION,
				    .key = *key,
				    .size = size};

	while (!id.key) {
		if (getrandom(&id.key, sizeof(id.key), 0) != sizeof(id.key))
			return -EIO;
	}
	if (pwrite(fd, &id, sizeof(id), 0) != sizeof(id))
		return -EIO;
	*key = id.key;
	return 0;
}

/* Notes that a file is about to be made: by one that is killed then, too, it was made. */
static bool announce(const char *path, const char *note_path)
{
	static const struct window_note any = {.key = 1, .created = true};

	return access(path, F_OK) < 0 && errno == ENOENT &&
	       window_note_write(note_path, &any) == 0;
}

/* A daemon before us was killed when it had made the file, and not noted which it is. */
static bool was_announced(const struct window_note *was, const struct stat *st)
{
	return was->created && !was->ino && st->st_uid == geteuid();
}

/* Goes on with a file that a daemon before us had, and notes it for the one after us. */
static int identify(struct window *w, const char *note_path,
		    const struct window_note *was)
{
	struct window_note n;
	struct stat st;
	int r;

	if (fstat(w->fd, &st) < 0)
		return -errno;
	if (!w->created && was->ino && was->dev == st.st_dev && was->ino == st.st_ino) {
		w->created = was->created;
		w->key = was->key;
	}
	w->created |= was_announced(was, &st);
	r = write_head(w->fd, w->size, &w->key);
	if (r < 0)
		return r;
	n = (struct window_note){
		.dev = st.st_dev, .ino = st.st_ino, .key = w->key, .created = w->created};
	return window_note_write(note_path, &n);
}

/* A window too small for both has lanes alone. */
static void cut(struct window *w)
{
	uint64_t all = w->size < WINDOW_HOST_MIN ? w->size : w->size / 2;
	uint64_t room = all - WINDOW_HEAD;
	uint64_t slice = MIN(SLICE_WANTED, room / SLICES_MIN);

	w->slice_size = ALIGN_DOWN(slice, 4096ull);
	w->n_slices = (unsigned)MIN(room / w->slice_size, (uint64_t)SLICES_MAX);
	w->host_first = ALIGN_UP(WINDOW_HEAD + w->n_slices * w->slice_size, HOST_ALIGN);
}

int window_open(struct window *w, const char *path, uint64_t size, const char *note,
		const struct window_owner *who, const char **ret_why)
{
	struct window_note was;
	bool fresh, announced;
	int r;

	*ret_why = NULL;
	if (size < WINDOW_MIN || size % 4096 || size > INT64_MAX) {
		*ret_why = "window.size must be at least 16M, and a power of two";
		return -EINVAL;
	}
	w->path = strdup(path);
	w->note = strdup(note);
	if (!w->path || !w->note)
		return -ENOMEM;
	if (window_note_read(note, &was) < 0)
		was = (struct window_note){0};
	announced = announce(path, note);
	r = window_file_open(path, size, who, &was, &w->created, ret_why);
	w->fd = r < 0 ? -1 : r;
	w->size = size;
	fresh = r >= 0 && w->created;
	if (r >= 0)
		r = identify(w, note, &was);
	if (r < 0) {
		if (fresh)
			unlink(path);
		if (announced)
			unlink(note);
		window_fini(w);
		return r;
	}
	cut(w);
	return 0;
}

bool window_has_host(const struct window *w)
{
	return w->fd >= 0 && w->host_first < w->size;
}

int window_take(struct window *w, struct msg_window *ret_slice)
{
	for (unsigned i = 0; w->fd >= 0 && i < w->n_slices; i++) {
		if (w->taken >> i & 1)
			continue;
		w->taken |= 1ull << i;
		*ret_slice = (struct msg_window){
			.offset = WINDOW_HEAD + i * w->slice_size,
			.size = w->slice_size,
			.key = w->key,
		};
		return (int)i;
	}
	return -ENOSPC;
}

int window_offered(struct tenant *t, const struct wire_hello *hello,
		   struct msg_window *ret_slice)
{
	struct window *w = &t->window;
	int slice;

	*ret_slice = (struct msg_window){.why = WIRE_WHY_NONE};
	if (w->fd < 0 || !(hello->offers & WIRE_OFFER_KEY))
		return -ENOSPC;
	if (hello->window_key != w->key) {
		ret_slice->why = WIRE_WHY_OTHER;
		if (log_limit_ok(&w->log_limit, 1))
			log_warning("tenant %s: its window is another one's: restart the "
				    "VM",
				    t->name);
		return -ENOSPC;
	}
	slice = window_take(w, ret_slice);
	if (slice >= 0)
		return slice;
	*ret_slice = (struct msg_window){
		.offset = WINDOW_HEAD, .key = w->key, .why = WIRE_WHY_FULL};
	if (log_limit_ok(&w->log_limit, 1))
		log_warning("tenant %s: %u sessions have all of its window: calls of "
			    "others are slower; see window.size",
			    t->name, w->n_slices);
	return slice;
}

void window_take_again(struct window *w, int slice)
{
	if (slice >= 0 && (unsigned)slice < w->n_slices)
		w->taken |= 1ull << slice;
}

void window_give_back(struct window *w, int slice)
{
	if (slice >= 0)
		w->taken &= ~(1ull << slice);
}

int window_host_take(struct window *w, uint64_t bytes, const void *owner,
		     uint64_t *ret_offset)
{
	uint64_t offset;
	int r;

	if (!window_has_host(w) || bytes % HOST_ALIGN)
		return -ENOSPC;
	r = range_gap(&w->host, w->host_first, w->size, bytes, HOST_ALIGN, &offset);
	if (r == 0)
		r = range_insert(&w->host, offset, bytes, (void *)owner);
	if (r == 0)
		*ret_offset = offset;
	return r;
}

uint64_t window_host_give_back(struct window *w, uint64_t offset, const void *owner)
{
	struct range *g = range_at(&w->host, offset);
	uint64_t size;

	if (!g || g->start != offset || g->data != owner)
		return 0;
	size = g->size;
	range_remove(&w->host, g);
	return size;
}

void window_host_drop(struct window *w, const void *owner)
{
	struct range *r, *next;

	for (r = range_above(&w->host, 0); r; r = next) {
		next = range_next(&w->host, r);
		if (r->data == owner)
			range_remove(&w->host, r);
	}
}

void window_remove(struct window *w)
{
	if (w->fd < 0)
		return;
	if (w->created)
		unlink(w->path);
	unlink(w->note);
}

void window_fini(struct window *w)
{
	range_fini(&w->host);
	if (w->fd >= 0)
		close(w->fd);
	free(w->path);
	free(w->note);
	*w = (struct window){.fd = -1};
}
