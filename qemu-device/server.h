/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of weft-vsock: one epoll over the front end's socket, the kicks of the
 * guest, the connections, and the socket on which a successor asks for everything.
 * Single-threaded; sleeps when nothing moves.
 */
#ifndef WEFT_SERVER_H
#define WEFT_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "vsock.h"

/* Ports of open connections, kept where they survive a crash of this process. */
struct server_note {
	uint32_t used;
	uint32_t guest_port, host_port;
	uint32_t padding;
};

struct server {
	struct vsock dev;
	int connector_fd; /* who connects for us; the caller's */
	int epoll_fd;
	int listen_fd;   /* where front ends connect, -1 if none */
	int handover_fd; /* where a successor connects, -1 if none */
	int timer_fd;
	int supervisor_fd; /* who keeps our descriptors over a crash, -1 if nobody */
	unsigned grace_ms;
	int watched_kick[VU_NUM_QUEUES]; /* kick descriptor in epoll, -1 if none */
	bool front_watched, listen_watched;
	bool changed; /* since the last snapshot */
	bool handed_over;
	bool over;                 /* the front end is gone and no other can come */
	struct server_note *notes; /* CONN_MAX of them, or NULL */
};

/*
 * The device has no sockets yet: the caller sets connector_fd, supervisor_fd and notes,
 * then calls server_start(), or handover_receive() and then server_start(). Returns 0 or
 * -errno.
 */
int server_init(struct server *s, uint64_t cid);
void server_fini(struct server *s);

/* Begins to watch what there is. Returns 0 or -errno. */
int server_start(struct server *s);

/*
 * Waits at most timeout_ms (-1: for ever) for events, and handles them. Returns 0, or
 * -errno if the loop itself failed.
 */
int server_step(struct server *s, int timeout_ms);

/*
 * Runs until everything was handed to a successor, or the only front end that may come is
 * gone. Returns 0 or -errno.
 */
int server_run(struct server *s);

/* Serves a connected front end (takes fd), as if it had come in on listen_fd. */
int server_adopt_front(struct server *s, int fd);

#endif
