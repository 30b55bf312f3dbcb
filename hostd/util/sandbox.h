/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker and a door give up before they look at a guest's first byte. In order:
 *
 *	1. a session and process group of its own, no descriptors but its own (early)
 *	2. resource limits, no core dumps with a guest's data in them
 *	3. no_new_privs
 *	4. another user, no groups, no capabilities (if started as root)
 *	5. a list of system calls; any other one is named and ends the process
 *
 * 2 to 5 come after the device is open, which may need more.
 */
#ifndef WEFT_UTIL_SANDBOX_H
#define WEFT_UTIL_SANDBOX_H

#include <stdbool.h>

#define SANDBOX_EXIT 159 /* status of a process that made a forbidden system call */

enum sandbox_kind {
	SANDBOX_WORKER_SOFT, /* threads and memory */
	SANDBOX_WORKER_CUDA, /* also what the driver library does with its device files */
	SANDBOX_DOOR,        /* sockets only */
};

/* Step 1. Descriptors from first_fd on are closed. Returns 0 or -errno. */
int sandbox_early(int first_fd);

/*
 * Steps 2 to 5, for all threads of the process. user may be NULL: "weft" if there is such
 * a user, else "nobody". Returns 0 or -errno; then the process must not go on.
 */
int sandbox_enter(enum sandbox_kind kind, const char *user);

#endif
