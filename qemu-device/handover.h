/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing a running device to another process: to a successor, with every connection
 * (an upgrade: the guest notices nothing), or to the supervisor, without them (a crash:
 * the guest keeps its device and loses its connections).
 *
 * The state is a series of records over a SOCK_SEQPACKET socket, each with the
 * descriptors it speaks of. Both ends are ours; a successor of another version that does
 * not know a record refuses, and the old process goes on.
 */
#ifndef WEFT_HANDOVER_H
#define WEFT_HANDOVER_H

#include <stdint.h>

struct server;

#define HANDOVER_VERSION 2

enum handover_kind {
	HANDOVER_LISTEN = 1, /* listening sockets */
	HANDOVER_FRONT,      /* connection to the front end, features */
	HANDOVER_REGION,     /* memory of the guest */
	HANDOVER_QUEUE,      /* ring and its descriptors */
	HANDOVER_CONN,       /* connection of the guest */
	HANDOVER_DATA,       /* bytes waiting for the connection before */
	HANDOVER_ORPHAN,     /* answer to no connection */
	HANDOVER_END,
};

#define HANDOVER_MAX_ARGS 16

struct handover_msg {
	uint32_t kind; /* enum handover_kind */
	uint32_t version;
	uint32_t fd_mask; /* which of the record's descriptors are there */
	uint32_t n_data;  /* bytes after this header */
	uint64_t arg[HANDOVER_MAX_ARGS];
};

/* Largest data part of one record. */
#define HANDOVER_MAX_DATA 32768u

/* How long either end waits for the other. */
#define HANDOVER_TIMEOUT_MS 5000

/*
 * Makes the socket on which successors ask (mode 0600). Returns a descriptor or -errno.
 */
int handover_listen(const char *path);

/*
 * Accepts a successor from s->handover_fd, sends everything and waits until it says that
 * it has it. Returns 0: the state is not ours any more, do nothing but exit; or
 * -errno: nothing has changed.
 */
int handover_offer(struct server *s);

/* Sends the state without connections to s->supervisor_fd. Returns 0 or -errno. */
int handover_snapshot(struct server *s);

/* Connects to the process that offers its state at path. Returns a descriptor or -errno.
 */
int handover_ask(const char *path);

/*
 * Takes what comes on that descriptor, which stays the caller's, into s, just
 * initialised, and says so. Returns 0 or -errno (s is then fit for server_fini() only).
 */
int handover_take(struct server *s, int fd);

/*
 * Reads the state from a socket that carries it, into s, just initialised. Rings whose
 * indices are not known (after_crash) go on where the used ring ends. 0 or -errno.
 */
int handover_receive(struct server *s, int fd, int after_crash);

#endif
