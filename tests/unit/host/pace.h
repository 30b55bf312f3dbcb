/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of pace.c for tests of its suite in other files: a weftd with workers, and what their pages
 * say. */
#ifndef WEFT_TESTS_PACE_H
#define WEFT_TESTS_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "broker/broker.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"

#define N  4 /* workers; the last two are of one tenant */
#define MS NSEC_PER_MSEC

extern struct broker b;
extern struct tenant tenants[3];
extern struct worker workers[N];
extern struct worker_page pages[N];
extern uint64_t now;

void cap(unsigned tenant, uint32_t quota, uint32_t period);
void works(unsigned i, bool on);
/* Returns the last thing that a worker was told; look_us 1: nothing. */
struct msg_pace told(unsigned i);
/* Looks for so long; session i has the device for had_us[i] of each ms, as its page tells. */
void run_told(unsigned ms, const uint64_t had_us[N]);

#endif
