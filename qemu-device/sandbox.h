/* SPDX-License-Identifier: Apache-2.0 */
/* What the server may still ask of the kernel once it has begun. */
#ifndef WEFT_SANDBOX_H
#define WEFT_SANDBOX_H

/*
 * Gives up new privileges and all system calls but those the loop needs; one that is not
 * among them ends the process. Returns 0 or -errno. Does nothing in a build with a
 * sanitizer, whose run-time library needs more.
 */
int sandbox_enter(void);

#endif
