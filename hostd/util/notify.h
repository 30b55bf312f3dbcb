/* SPDX-License-Identifier: Apache-2.0 */
/* systemd's notifications; see sd_notify(3). */
#ifndef WEFT_UTIL_NOTIFY_H
#define WEFT_UTIL_NOTIFY_H

#include <stdint.h>

/* Sends assignments such as "READY=1" to the service manager, if there is one. */
void notify_manager(const char *assignments);
/* Sends them with a descriptor that is to be kept (-1: none) and stays the caller's.
 * Returns 0 or -errno. */
int notify_manager_with(const char *assignments, int kept);
/* Tells it that the configuration is read again; "READY=1" ends that. */
void notify_reloading(void);
/* Nanoseconds within which the manager wants to hear "WATCHDOG=1", again and again; 0: it
 * does not watch this process. */
uint64_t notify_watchdog_ns(void);

#endif
