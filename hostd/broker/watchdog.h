/* SPDX-License-Identifier: Apache-2.0 */
/* The service manager's watchdog: told that the loop goes round. */
#ifndef WEFT_BROKER_WATCHDOG_H
#define WEFT_BROKER_WATCHDOG_H

#include <stdint.h>

/* Timer of the loop; arg is not used. Tells the manager twice in the time that it gives;
 * one that does not watch costs nothing. */
uint64_t watchdog_tick(void *arg, uint64_t now_ns);

#endif
