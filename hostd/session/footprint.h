/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the device takes by itself for a session, and its charge: code above all,
 * which the driver may load only when a function is first asked for or launched, and
 * whatever else it takes without being asked (stacks and heaps that grow, what it keeps
 * beside arrays).
 *
 * There is one number for a session: what the process has of the device beside
 * allocations (device_ops.footprint) less what is charged apart, before it is made:
 * contexts, their limits, arrays. So it does not matter what others do to the device's
 * memory meanwhile, nor when and in what steps the driver takes it. Where the device
 * cannot say, the modules' own estimates are added up instead.
 *
 * Any thread.
 */
#ifndef WEFT_SESS_FOOTPRINT_H
#define WEFT_SESS_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct footprint;
struct session;

int footprint_new(struct session *s, struct footprint **ret_f);

/* Uncharges what is charged. Accepts NULL. */
void footprint_free(struct footprint *f);

/*
 * A module was loaded that takes about that much: charges at once what the device has
 * taken, or soon if it is nothing. CUDA_ERROR_OUT_OF_MEMORY: unload it. May wait, as
 * space_charge().
 */
CUresult footprint_loaded(struct session *s, uint64_t bytes);
/* A module that takes about `bytes` was unloaded. As footprint_shrunk(). */
void footprint_unloaded(struct session *s, uint64_t bytes);

/* The device may have given something back: uncharges it. Never waits for weftd. */
void footprint_shrunk(struct session *s);

/* The device may have taken something: charges it soon, on a thread of its own. What the
 * tenant has no room for stays owed, and is asked for again, once a second. Never waits.
 */
void footprint_changed(struct session *s);

/* Called from time to time while work runs, which may make the device take something that
 * nobody has asked for: a kernel's first launch loads it. As footprint_changed() every
 * time; but while that finds nothing, ever less often, to each FOOTPRINT_TICKS_MAX-th
 * time. From the worker's main thread. Returns whether it asks now. */
bool footprint_tick(struct session *s);
#define FOOTPRINT_TICKS_MAX 8u

#endif
