/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor store: somebody who keeps descriptors by name for the next process of this
 * service. systemd does (sd_notify(3), FDSTORE=1), and so does our own supervisor; both
 * are reached by NOTIFY_SOCKET and give back what they have from descriptor 3 on. One
 * thread.
 */
#ifndef WEFT_UTIL_FDSTORE_H
#define WEFT_UTIL_FDSTORE_H

#include <stdbool.h>

/* Takes over what the store gave this process; from now on the store is used. Once,
 * before any descriptor is opened. Returns 0 or -errno. */
int fdstore_open(void);
/* True after fdstore_open(). */
bool fdstore_is_open(void);
/* Returns a kept descriptor, the caller's and close-on-exec, or -1. The store has it
 * until fdstore_remove(). */
int fdstore_take(const char *name);
/* Has a descriptor kept, under a name of at most FDSTORE_NAME_MAX bytes that nobody has;
 * it stays the caller's. Returns 0, also without a store, or -errno. */
int fdstore_put(const char *name, int fd);
/* Has what is kept under the name closed there. */
void fdstore_remove(const char *name);
/* Removes what was not taken. */
void fdstore_remove_rest(void);

#define FDSTORE_NAME_MAX 255

#endif
