/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: memory that a VM has mapped, with a slice for each of its sessions and a part
 * for host memory. window_file.c opens the file, window_note.c tells the next daemon.
 */
#ifndef WEFT_BROKER_WINDOW_H
#define WEFT_BROKER_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "util/range.h"

struct msg_window;
struct tenant;
struct wire_hello;

struct window {
	int fd; /* -1: none */
	char *path, *note;
	bool created; /* by weftd, this one or one before it */
	uint32_t key;
	uint64_t size, slice_size;
	unsigned n_slices;
	uint64_t taken;        /* bit set */
	uint64_t host_first;   /* from here to the end: host memory */
	struct range_set host; /* given out; data: the worker */
	struct log_limit log_limit;
};

/* Note that a daemon leaves for the next one; window_note.c. */
struct window_note {
	uint64_t dev, ino; /* of the file */
	uint32_t key;
	bool created;
};

/* Returns 0, -ENOENT, -EBADMSG or -errno. */
int window_note_read(const char *path, struct window_note *ret);
int window_note_write(const char *path, const struct window_note *note);

/* Owner that an existing window may have beside root and the daemon's user, and the group
 * that may be able to write it. */
struct window_owner {
	uid_t uid;
	gid_t gid;
};

/*
 * Opens a window's file or makes it, at least size bytes long; window_file.c. One that is
 * there is taken only if it is a window, empty, or the one that a note (may be NULL)
 * tells of, and nobody else could have made or may write it. Returns a descriptor or
 * -errno, and why in a sentence where there is one.
 */
int window_file_open(const char *path, uint64_t size, const struct window_owner *who,
		     const struct window_note *known, bool *ret_created,
		     const char **ret_why);
/* Opens a window, as window_file_open() does, and writes its head; with the key that it
 * had, if the note at that path says that it is the same file. Returns 0 or -errno. */
int window_open(struct window *w, const char *path, uint64_t size, const char *note,
		const struct window_owner *who, const char **ret_why);
/* Returns true if a part of the window is for host memory. */
bool window_has_host(const struct window *w);
/* Takes a free slice. Returns its number or -ENOSPC. */
int window_take(struct window *w, struct msg_window *ret_slice);
/*
 * Offers a guest part of its tenant's window: a slice if it has mapped that window and
 * one is free, else no slice and why. If it has mapped the window the key is set, slice
 * or not: host memory can be shared. Returns the slice's number or -ENOSPC.
 */
int window_offered(struct tenant *t, const struct wire_hello *hello,
		   struct msg_window *ret_slice);
/* Takes a slice that a session of another weftd has; -1: it has none. */
void window_take_again(struct window *w, int slice);
void window_give_back(struct window *w, int slice);
/* Takes a place for host memory of an owner. Returns 0, -ENOSPC or -ENOMEM. */
int window_host_take(struct window *w, uint64_t bytes, const void *owner,
		     uint64_t *ret_offset);
/* Ends the owner's place that begins there. Returns its size, 0 if there is none. */
uint64_t window_host_give_back(struct window *w, uint64_t offset, const void *owner);
/* Ends all places of an owner. */
void window_host_drop(struct window *w, const void *owner);
/* Removes the note, and the file if it was made here: no VM is to have it any more. */
void window_remove(struct window *w);
/* Closes the window. Its file stays: a VM has it mapped and finds it again in the next
 * daemon. */
void window_fini(struct window *w);

#endif
