/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread: guest_enter() (core/guest.h) makes its state, which ends with it. */
#ifndef WEFT_GUEST_ENTER_H
#define WEFT_GUEST_ENTER_H

#include "core/thread.h"

/* The calling thread's state, without a lane. NULL only when out of memory. */
struct guest_thread *thread_get(void);

/* In a forked child: forgets the calling thread's state. */
void thread_abandon(void);

/* Makes t, with its lane, the state of the calling thread, which had none; owns t on
 * success. OUT_OF_MEMORY. */
CUresult thread_become(struct guest_thread *t);

/* Frees a state that is no thread's any more: drops its contexts and parks its lane.
 * NULL: does nothing. */
void thread_free(struct guest_thread *t);

#endif
