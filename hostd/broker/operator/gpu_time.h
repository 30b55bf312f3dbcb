/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU time of sessions, tenants and the device, as workers measure it: how much of the
 * last moments, and microseconds in all. A worker's number is no more than the time that
 * its session has lasted. weftd's thread only.
 */
#ifndef WEFT_BROKER_GPU_TIME_H
#define WEFT_BROKER_GPU_TIME_H

#include <stdint.h>

struct broker;
struct tenant;
struct worker;

/* Per cent of the last second or so with a kernel running, and with memory in use; 0
 * where nobody has measured of late. */
uint32_t gpu_busy(const struct worker *w);
uint32_t gpu_memory_busy(const struct worker *w);
/* Per cent with a kernel of any session of a tenant running, or of all tenants; 100 at most. */
uint32_t gpu_busy_tenant(const struct tenant *t);
uint32_t gpu_busy_device(const struct broker *b);
uint32_t gpu_memory_busy_device(const struct broker *b);

/* Microseconds with a kernel running, of a session so far. */
uint64_t gpu_time(const struct worker *w);
/* Microseconds of all sessions of a tenant, of all that there were; sessions that run side by
 * side count each. */
uint64_t gpu_time_tenant(const struct tenant *t);
uint64_t gpu_time_device(const struct broker *b);
/* Keeps the time of a session that has ended; once. */
void gpu_time_end(const struct worker *w);

#endif
