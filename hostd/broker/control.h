/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: who may ask, and who waits for which answer. */
#ifndef WEFT_BROKER_CONTROL_H
#define WEFT_BROKER_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct json_object;

/*
 * Listens at path. fn answers one request; the caller of fn owns the answer, and NULL
 * says that control_answer() will come. Returns 0 or -errno.
 */
int control_open(struct broker *b, const char *path,
		 struct json_object *(*fn)(struct broker *b, struct json_object *request,
					   void *client));
void control_fini(struct broker *b);
/* True of who may change something, false of who may only look. */
bool control_may_change(const void *client);
/* Says who asks: "uid 0, pid 17". Good until the next call. */
const char *control_who(const void *client);
/*
 * Sends a client, after the answer under way, all events after that number, and each that
 * comes (events.h); of one tenant or (NULL) all. It is sent nothing else from now on.
 */
void control_follow(void *client, uint64_t after, const char *tenant);
/* Sends a client that traces, after the answer under way, nothing but that; its requests are
 * not answered any more. */
void control_stream(void *client);
/* Timer (loop.h): sends what was traced (operator/trace.h). */
uint64_t control_trace_tick(void *broker, uint64_t now_ns);
/* Timer (loop.h): sends events that have come to those who follow. */
uint64_t control_tick(void *broker, uint64_t now_ns);
/* Takes over the answer. */
void control_answer(void *client, struct json_object *answer);

#endif
