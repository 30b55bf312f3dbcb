/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares: memory and events that a session lets others of its tenant map, through weftd
 * and by name. Messages IPC_* carry them (msg.h).
 */
#ifndef WEFT_IPC_SHARE_H
#define WEFT_IPC_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum share_kind {
	SHARE_MEMORY, /* fd */
	SHARE_EVENT,  /* fd: struct share_event */
	SHARE_KINDS
};

/* The file of a shared event; weftd writes done for a session that has ended. */
struct share_event {
	_Atomic uint64_t done, recorded; /* numbers of records */
};

/* One part of a share: memory may be in several, which are exported, and opened, in
 * order. */
struct share_part {
	unsigned kind; /* enum share_kind */
	int fd;        /* -1: none */
	unsigned part, n_parts;
	uint64_t bytes; /* charged, of this part */
	bool evicted;   /* export: it lies in host memory */
};

#endif
