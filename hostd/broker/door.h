/* SPDX-License-Identifier: Apache-2.0 */
/* Doors: a process for each tenant that accepts its guests and keeps their sockets. */
#ifndef WEFT_BROKER_DOOR_H
#define WEFT_BROKER_DOOR_H

#include <stdint.h>

struct broker;
struct msg;
struct tenant;
struct wire_hello;
struct worker;

/* Receiver of what doors say of guests (b->guests). */
struct door_guests {
	/* A guest has said hello; id is its door's number for it. */
	void (*come)(struct tenant *t, const struct wire_hello *hello, uint32_t id);
	/* A guest has gone. */
	void (*gone)(struct tenant *t, uint32_t id);
	/* The door has gone, and all guests that waited there with it. */
	void (*drop)(struct tenant *t);
};

/* Starts the tenant's door. Returns 0 or -errno. */
int door_start(struct tenant *t);
/* Handles one message of the door. Returns 0 or -EPROTO. */
int door_said(struct tenant *t, struct msg *m);
/* Has the door tell a guest why it is refused (-errno), and close its socket. */
void door_refuse(struct tenant *t, uint32_t id, int error);
/* Ends the door for good when it has told those that are refused. */
void door_close(struct tenant *t);
/* Tells a worker of a guest, and the door to pass its socket there. Returns 0 or -errno:
 * the worker could not be told, and the guest still waits. */
int door_pass(struct tenant *t, uint32_t id, struct worker *w, const struct msg *m,
	      int window_fd);
/* Timer (loop.h): starts doors that are due again. */
uint64_t door_tick(void *broker, uint64_t now_ns);

#endif
