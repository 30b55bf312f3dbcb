/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between weftd and its workers and listeners, over a SOCK_SEQPACKET pair. All
 * of them are programs of one version, so there is no negotiation.
 *
 * A message is its type, an id, and a struct for that type: the member of the union that
 * has its name (of RECLAIMED and RESTORED: moved), or none at all. No more than that is
 * sent. An answer has a type of its own, and the id of its question. Below, each type is
 * listed with who sends it; its struct says what stands in it, what follows, and which
 * descriptors go along.
 *
 * A worker is less trusted than weftd, and a listener has met guests: msg_recv() refuses
 * whatever is not of its type's form, and the sender is a broken peer then.
 *
 * Freeing device memory needs no message: ipc/credit.h. A worker or listener whose end of
 * the pair closes is gone; one that sees weftd's end close ends at once.
 */
#ifndef WEFT_IPC_MSG_H
#define WEFT_IPC_MSG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define MSG_FD        3 /* where weftd puts a child's end of the pair */
#define MSG_PAGE_FD   4 /* worker: struct worker_page */
#define MSG_LISTEN_FD 4 /* listener: the listening socket */
#define MSG_RUNLIST_FD 5 /* worker with --runlist: struct runlist */

/* Exit statuses of a worker that weftd has words for; others: SANDBOX_EXIT, 0. */
#define EXIT_BROKEN 2 /* its guest broke the protocol */
#define EXIT_HANGS  3 /* what it drew did not end */

enum msg_type {
	/* A worker's life. */
	MSG_READY = 1, /* worker -> weftd */
	/* weftd -> worker that waits for a guest: how much has each process of the
	 * device? HOLDERS_LIST answers. */
	MSG_HOLDERS,
	MSG_HOLDERS_LIST, /* worker -> weftd */
	MSG_ATTACH,       /* weftd -> worker */
	MSG_OPENED,       /* worker -> weftd */
	MSG_LANE,         /* weftd -> worker */
	/* weftd -> worker: is its program still there? ALIVE answers, or ENDING comes. */
	MSG_PROBE,
	MSG_ALIVE,  /* worker -> weftd: it is */
	MSG_ENDING, /* worker -> weftd: its program has gone, and so will it */

	/* weftd, started again -> a worker that it has been left: what have you? What
	 * comes before the first answer was for the weftd before it. All HAS_ and then
	 * RESUMED answer, with the id of this; questions that were not answered follow.
	 * A listener answers with RESUMED, and a HELLO for each that waits.
	 */
	MSG_RESUME,
	MSG_HAS_HOST,  /* worker -> weftd; for each piece of host memory */
	MSG_HAS_SHARE, /* worker -> weftd; for each part of each share that it has made */
	MSG_HAS_OPEN,  /* worker -> weftd; for each share that it has open */
	MSG_RESUMED,   /* worker -> weftd */

	/* Accounts. */
	MSG_CHARGE,        /* worker -> weftd */
	MSG_CHARGED,       /* weftd -> worker */
	MSG_HOST_CHARGE,   /* worker -> weftd */
	MSG_HOST_CHARGED,  /* weftd -> worker */
	MSG_HOST_UNCHARGE, /* worker -> weftd */
	MSG_WMEM_CHARGE,   /* worker -> weftd */
	MSG_WMEM_CHARGED,  /* weftd -> worker */
	MSG_EVICTED_FREED, /* worker -> weftd */
	MSG_MEMORY,        /* worker -> weftd: how much is left? MEMORY_LEFT answers */
	MSG_MEMORY_LEFT,   /* weftd -> worker */
	MSG_TENANT,        /* worker -> weftd: how busy is it? TENANT_USAGE answers */
	MSG_TENANT_USAGE,  /* weftd -> worker */

	/* Moves of memory. */
	MSG_RECLAIM,          /* weftd -> worker */
	MSG_LEFT,             /* worker -> weftd */
	MSG_RECLAIMED,        /* worker -> weftd */
	MSG_RESTORE,          /* weftd -> worker */
	MSG_RESTORED,         /* worker -> weftd */
	MSG_QUIESCED,         /* worker -> weftd */
	MSG_NEED,             /* worker -> weftd */
	MSG_NEED_GRANTED,     /* weftd -> worker */
	MSG_MAKE_RESIDENT,    /* worker -> weftd */
	MSG_RESIDENT_GRANTED, /* weftd -> worker */
	MSG_PREALLOC,         /* weftd -> worker */

	/* Shares (ipc/share.h). */
	MSG_IPC_EXPORT,   /* worker -> weftd */
	MSG_IPC_EXPORTED, /* weftd -> worker */
	MSG_IPC_OPEN,     /* worker -> weftd */
	MSG_IPC_OPENED,   /* weftd -> worker */
	MSG_IPC_CLOSE,    /* worker -> weftd */
	MSG_IPC_DROP,     /* worker -> weftd */
	MSG_IPC_DROPPED,  /* weftd -> worker: nobody opens it any more */

	/* Listeners; id is the listener's number of a connection. */
	MSG_HELLO,  /* listener -> weftd */
	MSG_GONE,   /* listener -> weftd: it has been closed meanwhile */
	MSG_REFUSE, /* weftd -> listener */
	MSG_PASS,   /* weftd -> listener; fd: where to send the guest's socket */
	/* weftd -> listener: accept nobody any more, and end when all have been answered. */
	MSG_DRAIN,
	/* listener -> worker, by what PASS and ATTACH or LANE brought; fd: the guest's
	 * socket. */
	MSG_GUEST,
	/* listener -> weftd: a guest has gone whose library is too old for this host; id: the
	 * version of the protocol that it speaks. */
	MSG_STRANGER,

	/* Time and TPCs; since version 2. */
	MSG_COMPUTES, /* worker -> weftd: `computing` in its page has changed */
	MSG_SLICE,    /* weftd -> worker */
	/* worker -> weftd, before READY, if that was asked for; since version 4 weftd -> worker,
	 * before a guest */
	MSG_TPC_MAP,
	MSG_TPCS,     /* weftd -> worker */
	MSG_PACE,     /* weftd -> worker; since version 3 */
	MSG_FILL,     /* weftd -> worker that waits for a guest; since version 3 */
	MSG_LOST,     /* worker that is shared -> weftd: a context has been lost */
	MSG_NUM
};

/* ---- a worker's life ---- */

/*
 * Version of these messages and of the page (ipc/page.h) together. weftd that was
 * replaced has workers of the version before: between MSG_VERSION_OLDEST and MSG_VERSION
 * messages and fields are only added, at the end, and nobody is sent a type that is newer
 * than it is. Who changes what is there raises both.
 */
#define MSG_VERSION        4u
#define MSG_VERSION_OLDEST 1u

/* READY: the device is open. */
struct msg_ready {
	uint64_t memory_bytes; /* of the device */
	uint64_t overhead;     /* of them, what the worker's own context takes */
	uint32_t own_memory;   /* 1: what a worker has of it is its own memory */
	uint32_t version;      /* MSG_VERSION of the worker */
	char device[96];       /* name, NUL-terminated */
};
static_assert(sizeof(struct msg_ready) == 120, "no holes");

/* HOLDERS_LIST answers HOLDERS. fd: a file of as many struct msg_holder. */
struct msg_holders_list {
	uint32_t n;
	uint32_t pad;
};
static_assert(sizeof(struct msg_holders_list) == 8, "no holes");

struct msg_holder {
	uint64_t pid, bytes;
};

/* Processes on one GPU; a driver knows of fewer. */
#define MSG_HOLDERS_MAX 4096u

/* Slice of the VM's window for one session. */
struct msg_window {
	uint64_t offset, size; /* size 0: it has none */
	uint32_t key;          /* not 0: the guest has mapped the window */
	uint32_t why;          /* enum wire_why, if it has no slice */
};

#define MSG_TENANT_NAME 64

/*
 * ATTACH: a guest comes, and the worker is its session's. OPENED follows. fds: where the
 * guest's socket comes from (GUEST); the VM's window, if the guest has mapped it.
 */
struct msg_attach {
	uint64_t session; /* number by which operators know it */
	uint64_t number;  /* likewise programs of its tenant */
	uint64_t
		host_limit; /* bytes of host memory that it may have in a file of its own */
	uint8_t token[16];
	char tenant[MSG_TENANT_NAME]; /* name, NUL-terminated */
	struct wire_hello hello;
	struct msg_window window;
	uint32_t rewrite; /* enum rewrite_mode, device/rewrite/rewrite.h */
	uint32_t pad;
};
static_assert(sizeof(struct msg_attach) == 200, "no holes");

/* OPENED: the first lane is there; once. */
struct msg_opened {
	char carrier[24]; /* what carries it, NUL-terminated */
};
static_assert(sizeof(struct msg_opened) == 24, "no holes");

/* LANE: one more. fd: where the guest's socket comes from (GUEST). */
struct msg_lane {
	struct wire_hello hello;
};
static_assert(sizeof(struct msg_lane) == 64, "no holes");

/* HAS_HOST: so much of the host's memory was granted, and not given back. */
struct msg_has_host {
	uint64_t bytes;
	uint64_t window_offset; /* as HOST_CHARGED said */
};
static_assert(sizeof(struct msg_has_host) == 16, "no holes");

/* HAS_OPEN: IPC_OPEN has been answered n times, less what was closed. */
struct msg_has_open {
	uint32_t kind; /* enum share_kind */
	uint32_t n;
	uint8_t name[16];
};
static_assert(sizeof(struct msg_has_open) == 24, "no holes");

/*
 * RESUMED: what the worker was granted by messages and has not given back by them, what
 * has moved counted where its last message said. What it took out of its credit (page) is
 * not in here, nor what its context and its lanes take. All bytes modulo 2^64: granted
 * memory may have been put into the credit, and what is about to be evicted may be freed
 * already.
 */
struct msg_resumed {
	uint64_t session; /* as ATTACH said; 0: none yet */
	uint64_t device, wmem, evicted;
	/* Moves that are not ended: RECLAIM's number (0: none) and the host memory that it
	 * may still take; what was granted for evicted memory to come back, and with
	 * which number. */
	uint64_t out_room, returning;
	uint32_t out_id, in_id;
	uint32_t can_move; /* 1: its memory moves when it is told to */
	uint32_t at_gate;  /* 1: QUIESCED follows */
};
static_assert(sizeof(struct msg_resumed) == 64, "no holes");

/* ---- accounts ---- */

/* CHARGE: may the session have that much more device memory? CHARGED answers, perhaps
 * after others have been evicted. */
struct msg_charge {
	uint64_t bytes;
	uint32_t allow_spill; /* 1: part of it may lie in host memory */
	uint32_t spare; /* 1, with allow_spill: what nobody within its share gives */
};
static_assert(sizeof(struct msg_charge) == 16, "no holes");

/* CHARGED answers CHARGE. */
struct msg_charged {
	int32_t result; /* 0, -EDQUOT or -ENOMEM */
	uint32_t pad;
	uint64_t bytes;   /* on the device */
	uint64_t evicted; /* the rest, in host memory from the beginning */
};
static_assert(sizeof(struct msg_charged) == 24, "no holes");

/* HOST_CHARGE: may it have that much more host memory? HOST_CHARGED answers. */
struct msg_host_charge {
	uint64_t bytes;
};
static_assert(sizeof(struct msg_host_charge) == 8, "no holes");

/* HOST_CHARGED answers HOST_CHARGE. */
struct msg_host_charged {
	int32_t result; /* 0, -EDQUOT, or -ENOSPC: the window is full */
	uint32_t pad;
	uint64_t window_offset; /* where in the VM's window it lies, if there is one */
};
static_assert(sizeof(struct msg_host_charged) == 16, "no holes");

/* HOST_UNCHARGE: it has been freed. No answer. */
struct msg_host_uncharge {
	uint64_t bytes;
	uint64_t window_offset;
};
static_assert(sizeof(struct msg_host_uncharge) == 16, "no holes");

/* WMEM_CHARGE: may the worker hold that much more of the host's own memory (ipc/wmem.h)?
 * No more is granted than its credit has. WMEM_CHARGED answers. */
struct msg_wmem_charge {
	uint64_t bytes;
};
static_assert(sizeof(struct msg_wmem_charge) == 8, "no holes");

/* WMEM_CHARGED answers WMEM_CHARGE. */
struct msg_wmem_charged {
	int32_t result; /* 0 or -EDQUOT */
	uint32_t pad;
};
static_assert(sizeof(struct msg_wmem_charged) == 8, "no holes");

/* EVICTED_FREED: memory was freed while it was not on the device. No answer. */
struct msg_evicted_freed {
	uint64_t bytes;
};
static_assert(sizeof(struct msg_evicted_freed) == 8, "no holes");

/* MEMORY_LEFT answers MEMORY. */
struct msg_memory_left {
	uint64_t left;  /* bytes that the tenant can still have */
	uint64_t total; /* that it may have at all */
};
static_assert(sizeof(struct msg_memory_left) == 16, "no holes");

/* TENANT_USAGE answers TENANT. fd, unless it failed: a file with a struct msg_tenant. */
struct msg_tenant_usage {
	int32_t result; /* 0, -ENOMEM or -EMFILE */
	uint32_t pad;
};
static_assert(sizeof(struct msg_tenant_usage) == 8, "no holes");

#define MSG_PROCESSES_MAX 256

/* All sessions of the tenant, as monitoring programs ask for them. */
struct msg_tenant {
	/* time with a kernel running, or memory in use, of the last second or so */
	uint32_t busy_percent, memory_percent;
	uint32_t n_processes;
	struct {
		uint32_t pid; /* in the guest */
		uint32_t busy_percent, memory_percent;
		uint32_t draws; /* 1: a session of graphics */
		uint64_t session, memory;
	} processes[MSG_PROCESSES_MAX];
};

/* ---- moves of memory ---- */

/* RECLAIM: move so much device memory out to host memory. LEFT may follow, and RECLAIMED
 * does, both with this id. Never two at once. */
struct msg_reclaim {
	uint64_t bytes;
	uint64_t host_room; /* bytes of host memory that may be taken for it, at most */
	uint16_t swap;      /* 1: out of kernels' reach until it returns; 0: mapped */
	/* 1: the device is to compute nothing for it: somebody in a hurry would wait. Since
	 * version 4. */
	uint16_t only_copies;
	uint32_t urgent; /* 1: somebody waits for it, so LEFT is wanted */
};
static_assert(sizeof(struct msg_reclaim) == 24, "no holes");

/* LEFT: so much device memory is free now, and the rest of an urgent move goes on. */
struct msg_left {
	uint64_t bytes;
};
static_assert(sizeof(struct msg_left) == 8, "no holes");

/* RECLAIMED and RESTORED: a move has ended, with the id of what it was for. */
struct msg_moved {
	/* 0, -EBUSY (work did not end in time), -ENOSPC (nothing more can move), -ENOMEM
	 * (no memory where it was to go) or -EIO */
	int32_t result;
	uint16_t will_wait; /* 1, with -EBUSY: it waits on, and QUIESCED follows */
	uint16_t frozen; /* 1: kernels stood still for it, or do until theirs is back */
	/* RECLAIMED: device memory that is free now, also if it failed, besides what LEFT
	 * said; what was freed instead is in the credit. RESTORED: what came back; the
	 * rest of the grant is given up. */
	uint64_t bytes;
};
static_assert(sizeof(struct msg_moved) == 16, "no holes");

/* RESTORE: so much is granted for what was moved out, to be brought back. RESTORED
 * follows. Never two at once, nor beside a NEED or a RECLAIM. */
struct msg_restore {
	uint64_t bytes;
};
static_assert(sizeof(struct msg_restore) == 8, "no holes");

/* QUIESCED: work that a move waited for has ended, or still has not. */
struct msg_quiesced {
	int32_t result; /* 0: a move would begin at once, if it came soon; or -EBUSY */
	uint32_t pad;
};
static_assert(sizeof(struct msg_quiesced) == 8, "no holes");

/* NEED: swapped memory that must return before the session goes on. NEED_GRANTED answers
 * within a second or so. Never two at once. */
struct msg_need {
	uint64_t bytes;
};
static_assert(sizeof(struct msg_need) == 8, "no holes");

/* NEED_GRANTED answers NEED. If it is more than 0, RESTORED with this id follows; what is
 * not granted is mapped where it is. */
struct msg_need_granted {
	uint64_t bytes; /* 0 to all */
};
static_assert(sizeof(struct msg_need_granted) == 8, "no holes");

/* MAKE_RESIDENT: memory of one allocation must return, which is to be shared.
 * RESIDENT_GRANTED answers. Never two at once. */
struct msg_make_resident {
	uint64_t bytes;
};
static_assert(sizeof(struct msg_make_resident) == 8, "no holes");

/* RESIDENT_GRANTED answers MAKE_RESIDENT. If it is more than 0, RESTORED with this id
 * follows. */
struct msg_resident_granted {
	int32_t result; /* 0, or -ENOMEM: all of it was waited for, and cannot be had */
	uint32_t pad;
	uint64_t bytes; /* as much of it as is not on the device by now */
};
static_assert(sizeof(struct msg_resident_granted) == 16, "no holes");

/* PREALLOC: so much host memory is to be kept ready for moves. No answer. */
struct msg_prealloc {
	uint64_t bytes;
};
static_assert(sizeof(struct msg_prealloc) == 8, "no holes");

/* ---- time ---- */

/* Most of msg_slice.gather_us: somebody waits for it. */
#define MSG_GATHER_MAX_US 10000u

/* SLICE: so long it has the device at a stretch. No answer. */
struct msg_slice {
	uint32_t us; /* 0: as at first */
	/* A launch waits so long at most for those behind it (session/gate.h); 0: it does not.
	 * Since version 4. */
	uint32_t gather_us;
};
static_assert(sizeof(struct msg_slice) == 8, "no holes");

/* PACE: how fast it may go on; in place of the one before. No answer. */
struct msg_pace {
	uint64_t
		held_until_ns; /* submits nothing before then, clock_now_ns(); 0: it may */
	uint32_t look_us; /* how often it looks whether work is pending; 0: as at first */
	uint16_t bound;   /* 1: little is to be queued on the device (session/gate.h) */
	/* 1: what the device computes for it is taken off until then. Since version 4. */
	uint16_t preempt;
};
static_assert(sizeof(struct msg_pace) == 16, "no holes");

/* FILL: it is to want the device all the time, and do nothing with it. No answer. */
struct msg_fill {
	uint32_t on; /* 0: no longer */
	uint32_t pad;
};
static_assert(sizeof(struct msg_fill) == 8, "no holes");

/* ---- TPCs ---- */

#define MSG_TPCS_MAX 128u

/* TPC_MAP: of each TPC, in the order of its SMs, its GPC and its bit in TPCS. */
struct msg_tpc_map {
	uint32_t n; /* 0: kernels cannot be kept to some */
	uint32_t pad;
	uint8_t gpc[MSG_TPCS_MAX], bit[MSG_TPCS_MAX];
};
static_assert(sizeof(struct msg_tpc_map) == 264, "no holes");

/* TPCS: kernels run on these, from the next launch on. No answer. */
struct msg_tpcs {
	uint64_t bits[MSG_TPCS_MAX / 64];
	uint32_t n;        /* how many; 0: all */
	uint32_t n_in_gpc; /* of one GPC, at most */
};
static_assert(sizeof(struct msg_tpcs) == 24, "no holes");

/* ---- shares ---- */

/* IPC_EXPORT: one part of a share, in order. IPC_EXPORTED answers. fd: what others get;
 * without one nobody can open it. */
struct msg_ipc_export {
	uint32_t kind; /* enum share_kind */
	uint32_t part, n_parts;
	uint32_t evicted; /* 1: it lies in host memory */
	uint64_t bytes;   /* charged, of this part */
	uint8_t name[16]; /* part 0: zero; else what IPC_EXPORTED of part 0 said */
};
static_assert(sizeof(struct msg_ipc_export) == 40, "no holes");

/* IPC_EXPORTED answers IPC_EXPORT. */
struct msg_ipc_exported {
	int32_t result;
	uint32_t pad;
	uint8_t name[16]; /* under which others find it when all parts have come */
};
static_assert(sizeof(struct msg_ipc_exported) == 24, "no holes");

/* HAS_SHARE is an IPC_EXPORT under the name that it has, as it was. */

/* IPC_OPEN: a part of what another session has exported. Of several the first is opened
 * first; only that one counts. IPC_OPENED answers. */
struct msg_ipc_open {
	uint32_t kind; /* enum share_kind */
	uint32_t part;
	uint8_t name[16];
};
static_assert(sizeof(struct msg_ipc_open) == 24, "no holes");

/* IPC_OPENED answers IPC_OPEN. fd: what was exported, if that had one. */
struct msg_ipc_opened {
	int32_t result;
	uint32_t n_parts;
	uint64_t bytes; /* of this part */
};
static_assert(sizeof(struct msg_ipc_opened) == 16, "no holes");

/* IPC_CLOSE ends one IPC_OPEN of a part 0. No answer. */
struct msg_ipc_close {
	uint8_t name[16];
};
static_assert(sizeof(struct msg_ipc_close) == 16, "no holes");

/* IPC_DROP: what was exported is freed, and with it its charge. IPC_DROPPED answers. */
struct msg_ipc_drop {
	uint8_t name[16];
};
static_assert(sizeof(struct msg_ipc_drop) == 16, "no holes");

/* ---- listeners ---- */

/* HELLO: a connection has said this. The listener keeps its socket until REFUSE or PASS.
 * */
struct msg_hello {
	struct wire_hello hello; /* name is NUL-terminated */
};
static_assert(sizeof(struct msg_hello) == 64, "no holes");

/* REFUSE: the guest is to be told why not. */
struct msg_refuse {
	int32_t error; /* -errno */
	uint32_t pad;
};
static_assert(sizeof(struct msg_refuse) == 8, "no holes");

struct msg {
	uint32_t type; /* enum msg_type */
	uint32_t id;   /* pairs an answer with its question; 0 where nothing is said */
	union {
		struct msg_ready ready;
		struct msg_holders_list holders_list;
		struct msg_attach attach;
		struct msg_opened opened;
		struct msg_lane lane;
		struct msg_has_host has_host;
		struct msg_has_open has_open;
		struct msg_resumed resumed;
		struct msg_charge charge;
		struct msg_charged charged;
		struct msg_host_charge host_charge;
		struct msg_host_charged host_charged;
		struct msg_host_uncharge host_uncharge;
		struct msg_wmem_charge wmem_charge;
		struct msg_wmem_charged wmem_charged;
		struct msg_evicted_freed evicted_freed;
		struct msg_memory_left memory_left;
		struct msg_tenant_usage tenant_usage;
		struct msg_reclaim reclaim;
		struct msg_left left;
		struct msg_moved moved; /* RECLAIMED, RESTORED */
		struct msg_restore restore;
		struct msg_quiesced quiesced;
		struct msg_need need;
		struct msg_need_granted need_granted;
		struct msg_make_resident make_resident;
		struct msg_resident_granted resident_granted;
		struct msg_prealloc prealloc;
		struct msg_slice slice;
		struct msg_pace pace;
		struct msg_fill fill;
		struct msg_tpc_map tpc_map;
		struct msg_tpcs tpcs;
		struct msg_ipc_export ipc_export; /* IPC_EXPORT, HAS_SHARE */
		struct msg_ipc_exported ipc_exported;
		struct msg_ipc_open ipc_open;
		struct msg_ipc_opened ipc_opened;
		struct msg_ipc_close ipc_close;
		struct msg_ipc_drop ipc_drop;
		struct msg_hello hello;
		struct msg_refuse refuse;
	};
};
static_assert(sizeof(struct msg) == 272, "no holes");

/* Name of a message for the log, without MSG_; "?" for no message. A string constant. */
const char *msg_name(uint32_t type);
/* Bytes of a message of that type, type and id included; 0 for no message. */
size_t msg_size(uint32_t type);
/* Type of the answer to a question; 0: the type has none. */
uint32_t msg_answer(uint32_t type);
/* True of a message of a known type whose struct is in order: flags are 0 or 1, texts
 * end, padding is 0, results are 0 or -errno. What its numbers say is another matter. */
bool msg_is_valid(const struct msg *m);

/* Sends one message with up to two descriptors (-1: none). Returns 0, -EINVAL (no such
 * type) or -errno. */
int msg_send(int sock, const struct msg *m, int fd0, int fd1);

/* Takes no more descriptors from this socket, nor from those accepted from it (Linux 6.16
 * and later). */
void msg_refuse_fds(int sock);

/*
 * Receives one message, which is valid and has no more descriptors than its type; those
 * not sent are -1, the caller owns the others. Bytes of *ret_m beyond its type's are 0.
 * Returns 0, -ENODATA (closed), -EPROTO (a broken peer), -EAGAIN or -errno.
 */
int msg_recv(int sock, struct msg *ret_m, int *ret_fd0, int *ret_fd1);
/* As msg_recv(), but gives descriptors that nobody gets to drop. */
int msg_recv_with(int sock, struct msg *ret_m, int *ret_fd0, int *ret_fd1,
		  void (*drop)(int fd));

#endif
