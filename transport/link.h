/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: how a guest process reaches its worker. It finds the host, shakes hands, maps
 * the window if there is one, and opens lanes. (The worker's side is host.h.)
 */
#ifndef WEFT_LINK_H
#define WEFT_LINK_H

#include "lane.h"

struct link;

struct link_opts {
	/*
	 * Where to look; NULL means the places link_connect() tries by itself, in order:
	 * $WEFT_HOST ("unix:PATH" or "vsock:CID:PORT"), /run/weft/weft.sock,
	 * vsock:2:WIRE_VSOCK_PORT.
	 */
	const char *address;
	/* Bit set of carriers that may be used; 0 means all. $WEFT_CARRIER=stream|window
	 * narrows it. */
	uint32_t carriers;
	bool monitor;  /* the session makes no context (WIRE_HELLO_MONITOR) */
	bool graphics; /* the session draws (WIRE_HELLO_GRAPHICS, gl.h) */
	/* For whom, if not for this process: for lists. */
	const char *name;
	uint32_t pid; /* 0: this one's */
	/* Called with text that a kernel printed; in the thread that waits for a reply.
	 */
	void (*output)(const void *text, size_t size);
};

/*
 * Connects, opens lane 0 and reserves the band of device addresses (PROT_NONE). On
 * failure *ret_why (may be NULL) is a malloced sentence that names every address tried
 * and what each said; the caller frees it.
 * Returns 0, -ECONNREFUSED (nobody there), -EPROTONOSUPPORT (no common version), -EPROTO,
 * or the negative errno with which the host refused.
 */
int link_connect(const struct link_opts *opts, struct link **ret_link, char **ret_why);

/* Opens a further lane for the calling thread (lane 0 is given out first). */
int link_lane(struct link *k, struct lane **ret_lane);

const struct wire_welcome *link_welcome(const struct link *k);

/* Source of the tickets of all lanes of the session. */
const struct lane_tickets *link_tickets(const struct link *k);

/*
 * Keeps what the worker knows of commands: size[op] for n operations (lane.h), which are
 * copied. For a session that opens, whose only lane is the caller's. Returns 0 or -ENOMEM.
 */
int link_learn(struct link *k, const uint16_t *size, unsigned n);

/*
 * Why calls of all threads, or of some, go over the socket although a window was wanted:
 * half a sentence, which stays as it is. NULL: they do not. Any thread.
 */
const char *link_slow(const struct link *k);

/* The worker's status line, in the window; a private all-zero one on streams. */
const volatile struct wire_status *link_status(const struct link *k);

/* "unix+window", "vsock" or "vsock+window"; for messages. */
const char *link_carrier_name(const struct link *k);

/*
 * Maps size bytes at offset of the window's file at an address of the band, shared and
 * writable. Returns 0, -EOPNOTSUPP (no window, or no band), -EINVAL or -errno.
 */
int link_map(struct link *k, uint64_t addr, uint64_t offset, uint64_t size);

/* Like link_map() at any address, over whatever is there. private: a copy of its own when
 * written; for a forked child, before link_abandon(). Async-signal-safe. */
int link_map_over(struct link *k, void *at, uint64_t offset, uint64_t size, bool private);

/* Whether the band is reserved: nothing else of the process lies where device memory is. */
bool link_has_band(const struct link *k);

/* Makes a range of the band an empty reservation again. */
void link_unmap(struct link *k, uint64_t addr, uint64_t size);

/*
 * In a forked child: closes descriptors and unmaps the window without a word to the
 * peer. No lane may be used again. Async-signal-safe except for free().
 */
void link_abandon(struct link *k);

/* Closes everything. Lanes must have been freed. Accepts NULL. */
void link_free(struct link *k);

#endif
