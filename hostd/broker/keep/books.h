/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Books that outlive weftd: what the next one must know and no worker is to be believed
 * about, in memory whose descriptor is in the store (util/fdstore.h). It is written where
 * it changes, before a worker hears of it; a process that is killed at any point leaves
 * at most a number that is too high. How much a worker really has it says itself, up to
 * that; see resume.c.
 *
 * Another version of weftd reads it: fields are only added, at the end of a record, and 0
 * means what it meant before there was the field. Who cannot do that raises BOOKS_VERSION
 * and ends all sessions.
 */
#ifndef WEFT_BROKER_BOOKS_H
#define WEFT_BROKER_BOOKS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/conf.h"
#include "wire.h"

struct broker;
struct tenant;
struct worker;

#define BOOKS_VERSION     1u
#define BOOKS_WORKERS_MAX 4096u
#define BOOKS_TENANTS_MAX 1024u
#define BOOKS_SHARES_MAX  32768u
/* Room for one record of each, that a later version may use more of. */
#define BOOKS_RECORD 512u

/* Kinds of refusals that there is room for. */
#define BOOKS_REFUSALS_MAX 16u

struct book_head {
	uint32_t magic, version;
	uint64_t times; /* how often a weftd has begun to write here */
	uint64_t next_key, next_session;
	uint64_t memory_bytes, overhead; /* of the device, as READY says; 0: not known */
	uint32_t own_memory;
	/* Records from there on were never used, and take no memory. */
	uint32_t n_workers, n_tenants, n_shares;
	char device[96];
	char device_key[16]; /* device of weftd.conf */
	uint64_t last_event, gpu_us;
	uint32_t draining, pad;
};
static_assert(sizeof(struct book_head) <= 4096, "has a page");

/* A worker that has a session. */
struct book_worker {
	uint64_t key; /* the names of its descriptors have it; 0: nobody */
	int32_t pid;
	uint32_t uid;     /* 0: the same as others */
	uint32_t version; /* of its messages */
	int32_t slice;
	uint32_t in_window, n_lanes;
	uint64_t session, session_of_tenant, attached_ns, n_passed;
	uint64_t overhead, peak, granted_peak;
	/* Never less than it has, all together: */
	uint64_t charged, evicted;
	uint64_t wmem;
	uint32_t was_evicted, kind; /* enum worker_kind */
	uint8_t token[16];
	char tenant[CONF_NAME_MAX + 1];
	char carrier[24];
	struct wire_hello hello;
};
static_assert(sizeof(struct book_worker) <= BOOKS_RECORD, "has its place");

struct book_tenant {
	char name[CONF_NAME_MAX + 1]; /* "": nobody's */
	uint64_t next_session, peak;
	uint64_t events[6]; /* as struct tenant has them, before frozen */
	/* Listener: 0, or a process of that program (a file), with messages of that
	 * version. */
	int32_t listener_pid;
	uint32_t listener_uid, listener_version, pad;
	uint64_t listener_ino, listener_time_ns;
	/* Use by sessions that have ended: */
	uint64_t gpu_us, n_sessions, calls, posts, launches;
	uint64_t to_device, from_device, moved_out, moved_in;
	uint64_t refused_others, refused[BOOKS_REFUSALS_MAX];
	uint32_t draining, pad2;
	uint64_t frozen;
};
static_assert(sizeof(struct book_tenant) <= BOOKS_RECORD, "has its place");

/* A share that is complete. */
struct book_share {
	uint32_t used, kind, n_parts, pad;
	uint64_t maker;         /* key of a worker */
	uint64_t here, evicted; /* bytes, the maker's */
	uint32_t let_go, pad2;  /* 1: these are the tenant's: */
	uint64_t held, held_evicted;
	uint8_t name[16];
	char tenant[CONF_NAME_MAX + 1];
};
static_assert(sizeof(struct book_share) <= BOOKS_RECORD, "has its place");

/* Opens the books that the store has, or new ones; without a store there are none, and
 * what follows does nothing. Those of a version that is not ours are dropped, which the
 * log says. Returns 0 or -errno. */
int books_open(void);
void books_close(void);
/* NULL: there are none. */
struct book_head *books_head(void);

/* Record number i, or NULL: none from there on was ever used. */
struct book_worker *books_worker(unsigned i);
struct book_share *books_share(unsigned i);

/* Enters a worker that is about to serve a session, and has its descriptors kept. One for
 * which there is no room is not left to the next weftd. */
void books_begin(struct worker *w);
/* Forgets a worker, and what is kept for it. */
void books_end(struct worker *w);
void book_worker_drop(struct book_worker *k);
/* Returns a descriptor kept for a worker ("ctl", "page", "pid", "out"), or -1. */
int book_worker_fd(const struct book_worker *k, const char *what);

/* Returns an empty record for a share, or NULL. */
struct book_share *books_share_new(void);
void book_share_drop(struct book_share *k);
/* The file of an event, for the next weftd; of the one before, or -1. */
void book_event_keep(const struct book_share *k, int fd);
int book_event_fd(const struct book_share *k);

/* Reads what is noted of a tenant, and takes a record for it. */
void books_tenant_begin(struct tenant *t);
void books_tenant_end(struct tenant *t);
/* Notes what a tenant's sessions that have ended had used, and what the device's had. */
void books_count(const struct tenant *t);
/* Has a tenant's listener kept, which was just started. */
void books_listener_begin(struct tenant *t);
void books_listener_end(struct tenant *t);
/* Returns true if the tenant's listener is the same program as would be started now. */
bool books_listener_is_new(const struct tenant *t);
/* Returns a descriptor kept for a tenant's listener ("ctl", "pid", "out"), or -1. */
int book_listener_fd(const struct tenant *t, const char *what);
/* Timer (loop.h): notes what tenants have counted. */
uint64_t books_tick(void *broker, uint64_t now_ns);

#endif
