/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_GUEST_REFUSE_H
#define WEFT_GUEST_REFUSE_H

#include "refusal.h"

#define REFUSE_RESULT 801 /* CUDA_ERROR_NOT_SUPPORTED; none.c does without cuda.h */

/*
 * For whatever a program asks for that Weft does not have, where a real driver would have
 * it: counts it for the operator (weftctl info). what is "cuFunction", or "cuFunction:
 * the feature". Any thread, in any state, with no command begun; may send a message and
 * wait, which ends the life of the lane's last reply.
 */
void guest_refuse_note(enum refusal kind, const char *what);

/* The same; returns CUDA_ERROR_NOT_SUPPORTED. */
static inline int guest_refuse(enum refusal kind, const char *what)
{
	guest_refuse_note(kind, what);
	return REFUSE_RESULT;
}

/* The same for an attribute, by its number: "cuFunction: attribute 17". */
void guest_refuse_attribute(const char *function, int attribute);

/* Tells the host what was counted before cuInit(). */
void guest_refuse_flush(void);

#endif
