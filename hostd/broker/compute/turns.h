/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: who may go now, as the policy of time says, and who is next. What is decided comes
 * about when those that went before have ended what they had. weftd's thread only.
 */
#ifndef WEFT_BROKER_TURNS_H
#define WEFT_BROKER_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct broker;

/* After a look (pace.c): has those go whose turn it is, and nobody else. */
void turns_take(struct broker *b, uint64_t now_ns);
/* Nobody computes: all may go, and nobody is in line. */
void turns_end(struct broker *b, uint64_t now_ns);
/* How long who is next waits for work of those that do not go any more. */
uint64_t turns_drain_ns(const struct broker *b);
/* Whether the policy is to be asked once a millisecond, and sessions queue little. */
bool turns_are_on(const struct broker *b);

#endif
