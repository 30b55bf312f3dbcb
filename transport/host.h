/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's end of the transport: shakes hands on accepted sockets, lays out the
 * session's window and makes lanes. (The guest's side is link.h.)
 *
 * System calls of a worker in here and in lane.h: mmap munmap madvise (host_window_*),
 * fcntl sendmsg sendto recvfrom poll sched_getaffinity clock_gettime
 * (host_hello, host_lane_new), poll recvfrom sendto sendmsg clock_gettime shutdown close
 * (lanes).
 */
#ifndef WEFT_HOST_H
#define WEFT_HOST_H

#include "lane.h"

/*
 * Where a session's lanes live in shared memory, and how to hand it to the guest. Must
 * outlive the session's lanes and must not move while there are any.
 */
struct host_window {
	int fd;       /* to map; sent with the welcome if pass_fd */
	bool pass_fd; /* guest maps the descriptor; else it has mapped the VM's window */
	uint32_t key; /* wire_window_id.key of a VM's window; 0 with pass_fd */
	uint64_t offset;   /* this session's slice of the file, 4096-aligned */
	uint64_t size;     /* bytes of the slice; 0: streams only */
	enum wire_why why; /* if size is 0 */
	void *map;         /* the slice, mapped by host_window_map() */
	/* Private: which lane slots are taken. */
	_Atomic uint64_t slots[WIRE_SESSIONS_MAX / 64];
};

/*
 * Maps the slice and clears what an earlier session may have left in it. Does nothing
 * when size is 0. A descriptor that is passed on must be sealed against shrinking (see
 * fd_memfd()). A lane takes 2.6 to 8.6 MiB of the slice; a smaller slice gives streams.
 * Returns 0, -EPERM (not sealed), -EINVAL (alignment) or -errno. The descriptor stays the
 * caller's and must stay open while lanes are made.
 */
int host_window_map(struct host_window *w);

/* Unmaps the slice. Accepts a window that was never mapped. */
void host_window_fini(struct host_window *w);

/*
 * Reads and checks the hello of a new connection; waits at most timeout_ms.
 * Returns 0, -EPROTO (garbage), -EPROTONOSUPPORT (a version before ours; the guest has
 * been told), -ETIMEDOUT, -ENODATA (closed).
 */
int host_hello(int sock, int timeout_ms, struct wire_hello *ret_hello);

struct host_lane_opts {
	const struct wire_hello *hello;
	const struct wire_welcome *base; /* token, session, band; the rest is filled in */
	struct host_window *window;      /* NULL or size 0: streams only */
	unsigned index;                  /* which lane of the session, for the log */
	unsigned spin_us;                /* polling before parking; 0 parks at once. Times
					  * four where doorbells go through a vsock */
};

/*
 * Chooses the carrier, sends the welcome and makes the lane. Takes over sock on success
 * (and makes it blocking). When the slice is full the lane becomes a stream. Returns 0,
 * -ENOSPC (no room and the guest wants no stream), -ENOMEM, -EPIPE (the guest is gone);
 * but for the last, the guest has been told.
 */
int host_lane_new(int sock, const struct host_lane_opts *opts, struct lane **ret_lane);

/* Answers a hello with an error (a negative errno). The caller closes the socket. */
int host_refuse(int sock, int error);

/* Name of the carrier that a lane got; for the log. */
const char *host_lane_carrier(const struct lane *l);

/* The session's status line in the window, or NULL on streams. */
struct wire_status *host_status(const struct host_window *w);

#endif
