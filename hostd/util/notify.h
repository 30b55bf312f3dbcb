/* SPDX-License-Identifier: Apache-2.0 */
/* systemd's notifications; see sd_notify(3). */
#ifndef WEFT_UTIL_NOTIFY_H
#define WEFT_UTIL_NOTIFY_H

/* Sends assignments such as "READY=1" to the service manager, if there is one. */
void notify_manager(const char *assignments);
/* Tells it that the configuration is read again; "READY=1" ends that. */
void notify_reloading(void);

#endif
