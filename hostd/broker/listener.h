/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners: a process for each tenant that accepts its guests and keeps their sockets.
 * */
#ifndef WEFT_BROKER_LISTENER_H
#define WEFT_BROKER_LISTENER_H

#include <stdint.h>

struct broker;
struct msg;
struct tenant;
struct wire_hello;
struct worker;

/* Receiver of what listeners say of guests (b->guests). */
struct listener_guests {
	/* A guest has said hello; id is its listener's number for it. */
	void (*come)(struct tenant *t, const struct wire_hello *hello, uint32_t id);
	/* A guest has gone. */
	void (*gone)(struct tenant *t, uint32_t id);
	/* The listener has gone, and all guests that waited there with it. */
	void (*drop)(struct tenant *t);
};

/* Goes on with the listener that another weftd has left, or starts one. Returns 0 or
 * -errno. */
int listener_open(struct tenant *t);
/* Starts the tenant's listener. Returns 0 or -errno. */
int listener_start(struct tenant *t);
/* Handles one message of the listener. Returns 0 or -EPROTO. */
int listener_said(struct tenant *t, struct msg *m);
/* Has the listener tell a guest why it is refused (-errno), and close its socket. */
void listener_refuse(struct tenant *t, uint32_t id, int error);
/* Ends the listener for good when it has told those that are refused. */
void listener_close(struct tenant *t);
/* Tells a worker of a guest, and the listener to pass its socket there. Returns 0 or
 * -errno: the worker could not be told, and the guest still waits. */
int listener_pass(struct tenant *t, uint32_t id, struct worker *w, const struct msg *m,
		  int window_fd);
/* Timer (loop.h): starts listeners that are due again. */
uint64_t listener_tick(void *broker, uint64_t now_ns);

#endif
