/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_GUEST_REFUSE_H
#define WEFT_GUEST_REFUSE_H

#include "refusal.h"

#define REFUSE_RESULT 801 /* CUDA_ERROR_NOT_SUPPORTED; none.c does without cuda.h */

/*
 * Counts, for the operator (weftctl info), a request for something that Weft does not
 * have and a real driver would have. what is "cuFunction", or "cuFunction: the feature".
 * Any thread, in any state, with no command begun; may send a message and wait, which
 * ends the life of the lane's last reply.
 */
void guest_refuse_note(enum refusal kind, const char *what);

/* As guest_refuse_note(); returns CUDA_ERROR_NOT_SUPPORTED. */
static inline int guest_refuse(enum refusal kind, const char *what)
{
	guest_refuse_note(kind, what);
	return REFUSE_RESULT;
}

/* As guest_refuse_note(), for an attribute by its number: "cuFunction: attribute 17". */
void guest_refuse_attribute(const char *function, int attribute);

/* Tells the host of refusals that were counted before cuInit(). */
void guest_refuse_flush(void);

#endif
