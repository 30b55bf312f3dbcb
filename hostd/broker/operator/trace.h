/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace that an operator records: while a client is there that asked for one, workers of
 * the tenants that it named write down what they do (ipc/trace.h), and a few times a
 * second the client is sent that. One client at a time.
 *
 * Nothing waits for the client: what it has not read yet stays one line, workers write
 * over what was not fetched, and how much that was is told. weftd's thread only.
 */
#ifndef WEFT_BROKER_TRACE_H
#define WEFT_BROKER_TRACE_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct json_object;
struct worker;

/* Begins; names: a list of tenants' names, copied, or NULL: all. Returns 0 or -ENOMEM. */
int trace_begin(struct broker *b, void *client, struct json_object *names, bool memory);
/* The client that traces; NULL: none. */
void *trace_client(const struct broker *b);
/* The answer to who has just begun. */
struct json_object *trace_hello(const struct broker *b);
/* A client that is closed: its trace ends, if it had one. */
void trace_forget(struct broker *b, const void *client);

/* A session that another weftd has begun is not traced any more. */
void trace_session_kept(struct worker *w);
/* A session has its tenant; or has ended, and its page is still there. */
void trace_session_begins(struct worker *w);
void trace_session_ends(struct worker *w);

/* When the client is to be sent the next line; UINT64_MAX: nobody traces. */
uint64_t trace_next_ns(const struct broker *b);
void trace_later(struct broker *b, uint64_t now_ns);
/* A line, the caller's, of all that has happened since the last one; somebody traces. */
struct json_object *trace_line(struct broker *b, uint64_t now_ns);

#endif
