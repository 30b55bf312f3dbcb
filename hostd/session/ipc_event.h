/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that sessions of a tenant share: two numbers in memory that both workers have
 * mapped, how often the event was recorded and which record is done. A record is a host
 * function in its stream that writes the second; a stream that waits stands at a host
 * function until a thread here has seen it. So no device needs to know.
 */
#ifndef WEFT_SESS_IPC_EVENT_H
#define WEFT_SESS_IPC_EVENT_H

#include <stdint.h>

#include <cuda.h>

struct dev_ctx;
struct dev_stream;
struct ipc_event;
struct ipc_events;
struct session;

/* Events of a session that are shared; each has a page. */
#define IPC_EVENTS_MAX 4096u

/* Returns 0 or -ENOMEM. */
int ipc_events_new(struct session *s, struct ipc_events **ret_e);
/* Streams that wait go on. Any thread. */
void ipc_events_end(struct ipc_events *e);
/* Every event is gone, and the device closed. Accepts NULL. */
void ipc_events_free(struct ipc_events *e);

/* One that may be shared. NULL: no memory, or nobody to share with. */
struct ipc_event *ipc_event_new(struct ipc_events *e);
/* Returns the event's name, 16 bytes, each time the same. Waits for weftd.
 * CUDA_ERROR_INVALID_HANDLE: another session's; OUT_OF_MEMORY: too many have one. */
CUresult ipc_event_export(struct ipc_events *e, struct ipc_event *ev, uint8_t *ret_name);
/* CUDA_ERROR_INVALID_VALUE: there is none of that name; INVALID_CONTEXT: it is ours. */
CUresult ipc_event_open(struct ipc_events *e, const uint8_t *name,
			struct ipc_event **ret_ev);
/* The guest has destroyed it; records under way still count. Accepts NULL. */
void ipc_event_close(struct ipc_events *e, struct ipc_event *ev);

/* Neither waits. */
CUresult ipc_event_record(struct ipc_events *e, struct ipc_event *ev, struct dev_ctx *ctx,
			  struct dev_stream *st);
CUresult ipc_event_wait(struct ipc_events *e, struct ipc_event *ev, struct dev_ctx *ctx,
			struct dev_stream *st);
/* CUDA_SUCCESS or CUDA_ERROR_NOT_READY: the latest record, whoever made it. */
CUresult ipc_event_query(struct ipc_events *e, struct ipc_event *ev);
/* Waits; ctx is where errors are looked for. */
CUresult ipc_event_synchronize(struct ipc_events *e, struct ipc_event *ev,
			       struct dev_ctx *ctx);

#endif
