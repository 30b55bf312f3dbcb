/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "broker/watchdog.h"
#include "util/notify.h"

static struct {
	bool known;
	uint64_t every_ns; /* 0: nobody watches */
	uint64_t due_ns;
} watchdog;

uint64_t watchdog_tick(void *arg, uint64_t now_ns)
{
	if (!watchdog.known) {
		watchdog.known = true;
		watchdog.every_ns = notify_watchdog_ns() / 2;
	}
	if (!watchdog.every_ns)
		return UINT64_MAX;
	if (now_ns >= watchdog.due_ns) {
		notify_manager("WATCHDOG=1");
		watchdog.due_ns = now_ns + watchdog.every_ns;
	}
	return watchdog.due_ns;
}
