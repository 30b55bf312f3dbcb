/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: a process that starts weftd, keeps descriptors for it as systemd's store
 * does (util/fdstore.h), and starts it again when it died. Used where no service manager
 * does both. It understands nothing of what it keeps; when it ends, so does all.
 */
#ifndef WEFT_BROKER_SUPERVISOR_H
#define WEFT_BROKER_SUPERVISOR_H

#include <stdbool.h>

/* True in a process that a supervisor has started; *ret_again: not as the first one. */
bool supervisor_is_above(bool *ret_again);
/* Runs weftd with this command line until it ends by itself, is to end (SIGTERM, SIGINT)
 * or dies too often; calls on_ready() when it is ready first. SIGHUP is passed on.
 * Returns the exit status for this process. */
int supervisor_run(char **argv, void (*on_ready)(void));

#endif
