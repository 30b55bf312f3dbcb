/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: one guest process as its worker sees it, from its making to its end.
 * command.h is what handlers see of it.
 *
 * How a command passes through: the lane's thread receives it (lane.h), waits for its
 * ticket (tickets.h), looks up its row and calls the generated trampoline, which decodes
 * and calls handle_<name>(). The trampoline ends with sess_done(), a raw handler answers
 * by itself with sess_reply_begin()/sess_reply_end(). Then every pinned object is
 * released.
 *
 * Threads: one per lane. Commands without a reply run one at a time, in ticket order, but
 * for those that are apart (tickets.h); waiting commands run beside them and beside each
 * other. So anything that belongs to the session rather than the lane is locked or
 * atomic, and an object may be destroyed by one lane while another uses it: it is freed
 * when the last pin is gone.
 *
 * A command without a reply never waits for a stream: it would hold every later ticket.
 *
 * Return values. 0: the command was handled; a CUDA error is data in its reply.
 * Negative: the protocol was broken or the lane is dead; the session ends.
 */
#ifndef WEFT_SESS_SESSION_H
#define WEFT_SESS_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

struct accounts;
struct device;
struct device_config;
struct device_info;
struct dev_tpc_map;
struct device_ops;
struct gate;
struct hostmem_file;
struct lane;
struct managed;
struct pools;
struct session;
struct space;
struct touch;
struct trace_area;
struct worker_page;

#define SESS_LANES_MAX WIRE_SESSIONS_MAX

/* Owner of the session; known when the guest comes. */
struct sess_identity {
	const char *tenant;
	uint64_t number;
	const uint8_t *token; /* 16 bytes */
};

/*
 * Opens a device and makes the primary context: all that takes long, before the guest is
 * there. cfg's output is replaced. Returns 0 or -errno.
 */
int sess_new(const struct device_ops *ops, const struct device_config *cfg,
	     const struct accounts *broker, struct session **ret_s);

/* Says whose session it is; before the first lane. */
void sess_identify(struct session *s, const struct sess_identity *id);

/*
 * The session only monitors: it gives up its context, in a thread of its own, for a
 * driver takes its time over that. Before the first lane. Returns 0 or -errno.
 */
int sess_monitor(struct session *s);

/* No lane may be running. Destroys every object and closes the device. Accepts NULL. */
void sess_free(struct session *s);

/*
 * Adds a lane and starts its thread, which takes over l. Returns 0, -ENOSPC or -errno;
 * on failure l stays the caller's.
 */
int sess_lane_start(struct session *s, struct lane *l, unsigned index);

/* A free lane number, reserved until sess_lane_start() or sess_lane_unreserve(). */
int sess_lane_reserve(struct session *s);
void sess_lane_unreserve(struct session *s, unsigned index);

/* Waits until no thread of a lane is left; after sess_end(), or once the guest is gone.
 */
void sess_join(struct session *s);

/* Ends the session for every lane; first reason wins. Any thread. */
void sess_end(struct session *s, int reason);

/* Waits until no lane runs a command and the device has done all of them; after
 * sess_end(), also from sess_hooks.end(). A kernel may never end. */
void sess_drain(struct session *s);

/* ---- what a worker has of a session (parts.c) ---- */

/* Parts of a session; they live as long as it does. */
struct sess_parts {
	const struct device_ops *ops;
	struct device *dev;
	const struct device_info *info;
	struct space *space;
	struct pools *pools;
	struct managed *managed;
	struct touch *touch;
	struct gate *gate;
	struct worker_page *page; /* the one that was set last, or the session's own */
};

void sess_parts(struct session *s, struct sess_parts *ret);

/* Functions that a session calls, on whatever thread it is; NULL: none. */
struct sess_hooks {
	void (*ending)(void *arg); /* before anything is ended */
	void (*end)(void *arg);    /* once, by the thread that ends it */
	void (*active)(void *arg); /* a launch while sess_active() is false */
	/* Once: a context was lost, with that CUDA error. */
	void (*lost)(void *arg, uint32_t error);
	void *arg;
};

/* Sets what the session calls; before its first lane. */
void sess_set_hooks(struct session *s, const struct sess_hooks *h);
/* Takes a text by which the operator says where kernels reach memory (ptx/extent/template.h), before
 * the first is loaded. A mistake is logged, and then nothing of it counts; path: whose it is. */
void sess_set_extents(struct session *s, const char *text, size_t size, const char *path);
/* Has the session count in a page that it shares with weftd; before its first lane. */
void sess_set_page(struct session *s, struct worker_page *page);
/* Has it write there while page->tracing is set (ipc/trace.h); before its first lane. */
void sess_set_trace(struct session *s, struct trace_area *area);
/* Host memory that is shared with the guest lies in f from now on; before the first lane.
 * Returns 0 or -errno. */
int sess_set_hostmem(struct session *s, const struct hostmem_file *f);
/* Sets the guest's status line, or NULL; before the first lane. */
void sess_set_status(struct session *s, volatile struct wire_status *status);

/* For messages; 0 before sess_identify(). */
uint64_t sess_number(const struct session *s);
/* Why it has ended: 0 (all lanes closed) or -errno. */
int sess_end_reason(const struct session *s);

/* True while somebody measures how busy it is; false again: sess_set_inactive(). */
bool sess_active(const struct session *s);
void sess_set_inactive(struct session *s);

/* Has it queue little work on the device (gate.h), and say of all work that it is active. Any
 * thread. */
void sess_bound(struct session *s, bool on);

/* True if is(arg, index) is, of any lane that is there; called under a lock. */
bool sess_any_lane(struct session *s, bool (*is)(void *arg, unsigned index), void *arg);

/* Measures what the first context has taken, for weftd to charge, in bytes; once, before
 * the guest comes. */
uint64_t sess_overhead(struct session *s);

/* Finds where the device's TPCs are (device.h); before that. Returns false if kernels cannot
 * be kept to some. */
bool sess_find_tpcs(struct session *s, struct dev_tpc_map *ret_map);
/* Has it want the device and do nothing with it, or no longer (device.h); before the guest
 * comes. Returns false if that cannot be. */
bool sess_fill(struct session *s, bool on);

#endif
