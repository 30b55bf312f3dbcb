/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weftd says to its workers and doors, and they to it: fixed-size messages over a
 * SOCK_SEQPACKET pair, with descriptors where noted. All of them are programs of one
 * version, so there is no negotiation; a message of another size is a broken peer.
 *
 *	worker -> weftd  READY   the device is open: bytes, total (of them, what its
 *				 own context takes), text (device name), session (1:
 *				 what a worker has of it is its own memory)
 *	weftd -> worker  HOLDERS asked of one that waits for a guest: what does each
 *				 process have of the device?
 *	worker -> weftd  HOLDERS bytes (how many); fd: a file of as many struct
 *				 msg_holder
 *	weftd -> worker  ATTACH  session, token, text (tenant), total (host memory
 *				 limit), hello, window, bytes (the number that programs
 *				 see); fds: where the guest's socket comes from, the
 *				 VM's window if the guest has mapped it
 *	weftd -> worker  LANE    hello; fd: where the socket of a further lane comes from
 *	worker -> weftd  OPENED  text (carrier)
 *	worker -> weftd  CHARGE  id, bytes, total (1: part of it may lie in host memory):
 *				 may the session have that much more? The answer's bytes
 *				 are device memory, its total what is away from the
 *				 beginning
 *	worker -> weftd  HOST_CHARGE    id, bytes: host memory; the answer's bytes say
 *				 where in the VM's window, if there is one
 *	worker -> weftd  HOST_UNCHARGE  bytes, total (where in the window); no answer
 *	worker -> weftd  WMEM_CHARGE  id, bytes: of the host's memory, for the worker to
 *				 hold; no more is granted than its credit has
 *	worker -> weftd  MEMORY  id: how much is left?
 *	worker -> weftd  TENANT  id: how busy is it? The answer's fd is a file with a
 *				 struct msg_tenant
 *	worker -> weftd  IPC_EXPORT  id, total (enum share_kind), bytes, result (1: in
 *				 host memory), session (which part of how many,
 *				 msg_parts()); fd. The answer's token is the name under
 *				 which others find it when all parts have come; the
 *				 second part and later ones have it as token
 *	worker -> weftd  IPC_OPEN  id, total (kind), token (name), session (which part);
 *				 the answer has what was exported, total is the number of
 *				 parts. Of several the first is opened first; only that
 *				 one counts
 *	worker -> weftd  IPC_CLOSE token: ends one IPC_OPEN; no answer
 *	worker -> weftd  IPC_DROP  id, token: what was exported is freed, and with it its
 *				 charge. Once that is answered nobody opens it any more
 *	weftd -> worker  ANSWER  id, result, bytes (left), total
 *	weftd -> worker  RECLAIM id, bytes, total (enum placement_where), session, urgent:
 *				 move so much device memory out to host memory, of which
 *				 at most as much as session says may be taken. Never two
 *				 at once
 *	worker -> weftd  LEFT    id (of an urgent RECLAIM), bytes: device memory that is
 *				 free now; the rest of the move goes on
 *	worker -> weftd  RECLAIMED  id, bytes (device memory that is free now, also if
 *				 it failed, besides what LEFT said; what was freed
 *				 instead is in the credit), result: 0, -EBUSY (work did
 *				 not end in time), -ENOSPC (nothing more can move),
 *				 -ENOMEM (no host memory) or -EIO; total: with -EBUSY, 1
 *				 if it waits on and QUIESCED follows
 *	weftd -> worker  RESTORE id, bytes: are granted for what is away, to be brought
 *				 back. Never two at once, nor beside a NEED or a RECLAIM
 *	worker -> weftd  RESTORED  id, bytes (that came back; the rest of the grant is
 *				 given up), result, total
 *	worker -> weftd  QUIESCED  result: 0, its work has ended and a move would begin at
 *				 once, if it came soon; or it has not (-EBUSY)
 *	worker -> weftd  NEED    id, bytes: swapped memory that must return before the
 *				 session goes on. The answer's bytes are granted, 0 to
 *				 all; what is not is mapped where it is. If it is more
 *				 than 0, RESTORED with this id follows. Never two at once
 *	worker -> weftd  MAKE_RESIDENT  id, bytes: of one allocation, to be shared; as
 *				 NEED, but all of it is waited for, and the result is
 *				 -ENOMEM if it cannot be had
 *	worker -> weftd  EVICTED_FREED  bytes: freed while away; no answer
 *	weftd -> worker  PREALLOC  bytes: host memory to keep ready; no answer
 *	weftd -> worker  PROBE   id: is its program still there?
 *	worker -> weftd  PROBE   id: it is; or ENDING
 *	worker -> weftd  ENDING  its program has gone, and so will it; no answer
 *	door -> weftd    HELLO   id, hello: a connection has said this, and the door keeps
 *				 its socket until REFUSE or PASS
 *	door -> weftd    GONE    id: it has been closed meanwhile; no answer
 *	weftd -> door    REFUSE  id, result: to be told to the guest
 *	weftd -> door    PASS    id; fd: where to send the guest's socket
 *	door -> worker   GUEST   fd: the guest's socket; by what PASS and ATTACH or LANE
 *			 brought
 *
 * What is freed needs no message: ipc/credit.h.
 *
 * A worker or door whose end of the pair closes is gone; one that sees weftd's end close
 * ends at once.
 */
#ifndef WEFT_IPC_MSG_H
#define WEFT_IPC_MSG_H

#include <stdint.h>

#include "wire.h"

#define MSG_FD        3 /* where weftd puts a child's end of the pair */
#define MSG_PAGE_FD   4 /* worker: struct worker_page */
#define MSG_LISTEN_FD 4 /* door: the listening socket */

enum msg_type {
	MSG_READY = 1,
	MSG_ATTACH,
	MSG_LANE,
	MSG_OPENED,
	MSG_CHARGE,
	MSG_HOST_CHARGE,
	MSG_HOST_UNCHARGE,
	MSG_MEMORY,
	MSG_TENANT,
	MSG_IPC_EXPORT,
	MSG_IPC_OPEN,
	MSG_IPC_CLOSE,
	MSG_IPC_DROP,
	MSG_ANSWER,
	MSG_HELLO,
	MSG_RECLAIM,
	MSG_RECLAIMED,
	MSG_RESTORE,
	MSG_RESTORED,
	MSG_NEED,
	MSG_EVICTED_FREED,
	MSG_QUIESCED,
	MSG_PREALLOC,
	MSG_MAKE_RESIDENT,
	MSG_ENDING,
	MSG_LEFT,
	MSG_PROBE,
	MSG_GONE,
	MSG_REFUSE,
	MSG_PASS,
	MSG_GUEST,
	MSG_WMEM_CHARGE,
	MSG_HOLDERS,
	MSG_NUM
};

/* Name of a message for the log, without MSG_; "?" for no message. A string constant. */
const char *msg_name(uint32_t type);

struct msg_window {
	uint64_t offset, size; /* this session's slice; size 0: it has none */
	uint32_t key;
	uint32_t why; /* enum wire_why, if it has none */
};

struct msg {
	uint32_t type; /* enum msg_type */
	uint32_t id;   /* pairs an answer with its question */
	int32_t result;
	uint32_t urgent; /* somebody waits for it */
	uint64_t session, bytes, total;
	uint8_t token[16];
	char text[96]; /* NUL-terminated */
	struct wire_hello hello;
	struct msg_window window;
};
static_assert(sizeof(struct msg) == 240, "no holes");

struct msg_holder {
	uint64_t pid, bytes;
};

/* Processes on one GPU; a driver knows of fewer. */
#define MSG_HOLDERS_MAX   4096u

#define MSG_PROCESSES_MAX 256

/* All sessions of the tenant, as monitoring programs ask for them; TENANT's file. */
struct msg_tenant {
	/* time with a kernel running, or memory in use, of the last second or so */
	uint32_t busy_percent, memory_percent;
	uint32_t n_processes;
	struct {
		uint32_t pid; /* in the guest */
		uint32_t busy_percent, memory_percent, pad;
		uint64_t session, memory;
	} processes[MSG_PROCESSES_MAX];
};

/* Which part of how many, in a number. */
static inline uint64_t msg_parts(uint32_t part, uint32_t n_parts)
{
	return (uint64_t)n_parts << 32 | part;
}

/* Sends one message with up to two descriptors (-1: none). Returns 0 or -errno. */
int msg_send(int sock, const struct msg *m, int fd0, int fd1);

/* Takes no more descriptors from this socket, nor from those accepted from it (Linux 6.16
 * and later). */
void msg_refuse_fds(int sock);

/*
 * Receives one message; descriptors not sent are -1, the caller owns the others. text is
 * terminated. Returns 0, -ENODATA (closed), -EPROTO (wrong size), -EAGAIN or -errno.
 */
int msg_recv(int sock, struct msg *ret_m, int *ret_fd0, int *ret_fd1);
/* As msg_recv(), but gives descriptors that nobody gets to drop. */
int msg_recv_with(int sock, struct msg *ret_m, int *ret_fd0, int *ret_fd1,
		  void (*drop)(int fd));

#endif
