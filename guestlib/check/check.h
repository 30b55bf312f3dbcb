/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages of weft-guest-check, in the order in which a program meets what they look at.
 * Each prints its rows (check/report.h).
 */
#ifndef WEFT_CHECK_CHECK_H
#define WEFT_CHECK_CHECK_H

#include <stdbool.h>

/* Looks whether the loader finds Weft's libraries. Returns whether libcuda.so.1 is. */
bool check_libraries(void);

/* Looks for the VM's vsock device. Returns whether there is one. */
bool check_vsock(void);

/* Looks for the VM's window. Returns whether there is one that may be opened. */
bool check_window(void);

/*
 * Opens a session with the host at an address ("unix:PATH" or "vsock:CID:PORT") and times
 * calls; a row says over which carrier. Returns whether the host has a GPU for us.
 */
bool check_host(const char *address);

/* Has a library of check_libraries() copy data to the GPU and back. */
void check_gpu(void);

/* Has the host draw, at such an address; a row says how fast, or why it does not. */
void check_graphics(const char *address);

#endif
