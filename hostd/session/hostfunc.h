/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions (cuLaunchHostFunc, cuStreamAddCallback): a stream gets to one, the guest
 * runs it, the stream goes on. The guest's helper thread fetches them one at a time and
 * says with each fetch that the one before has run.
 */
#ifndef WEFT_SESS_HOSTFUNC_H
#define WEFT_SESS_HOSTFUNC_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct dev_ctx;
struct dev_stream;
struct hostfuncs;
struct session;

/* Most host functions queued in a session's streams. */
#define HOSTFUNCS_MAX 65536u

int hostfuncs_new(struct session *s, struct hostfuncs **ret_h);

/* Queues the guest's function `id` in a stream. If that fails the guest is given it all
 * the same, with the error: a stream callback runs then, too. */
CUresult hostfuncs_launch(struct hostfuncs *h, struct dev_ctx *ctx, struct dev_stream *st,
			  uint64_t id);

/* There is no such stream: the guest is given the function with the error. */
CUresult hostfuncs_refuse(struct hostfuncs *h, uint64_t id, CUresult why);

/* The context is about to be destroyed: its functions know how it was from then on. */
void hostfuncs_ctx_gone(struct hostfuncs *h, struct dev_ctx *ctx);

/* A launch of a graph has got to the guest's function `id`. Any thread; never waits. */
void hostfuncs_stands(struct hostfuncs *h, struct dev_ctx *ctx, uint64_t id,
		      uint64_t token);

/*
 * Waits until a stream stands at a function and gives its id, and how the context is.
 * Only one thread may wait at a time: -EBUSY. -EPIPE after hostfuncs_end().
 */
int hostfuncs_wait(struct hostfuncs *h, uint64_t *ret_id, CUresult *ret_status);

/* The function that hostfuncs_wait() gave has run; lets its stream go on. Returns 0 or
 * -EPROTO: no such function was given out. */
int hostfuncs_done(struct hostfuncs *h, uint64_t id);

/* Lets every stream go on, now and from now on, and ends waiting. Accepts NULL. */
void hostfuncs_end(struct hostfuncs *h);

/* The device is closed. Accepts NULL. */
void hostfuncs_free(struct hostfuncs *h);

#endif
