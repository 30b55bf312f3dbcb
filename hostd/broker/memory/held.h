/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that worker processes really have, beside what the ledger says. */
#ifndef WEFT_BROKER_HELD_H
#define WEFT_BROKER_HELD_H

#include <stdint.h>

struct broker;
struct worker;

/* Looks in a row, a second apart (held.c). */
#define HELD_TIMES 5

/* Compares what a worker's process has of the device, in bytes, with its grants. */
void held_check(struct worker *w, uint64_t has);
/* Reads from fd (or -1), which stays the caller's, what each of n processes has, at most
 * MSG_HOLDERS_MAX, as a worker says. Returns 0 or -EPROTO: nobody asked. */
int held_said(struct worker *w, unsigned n, int fd);
/* Timer (loop.h): asks a worker once a second while there are sessions. */
uint64_t held_tick(void *broker, uint64_t now_ns);

#endif
