/* SPDX-License-Identifier: Apache-2.0 */
/* The window of a session: a part of its VM's, or memory made for it. */
#ifndef WEFT_WORKER_WINDOW_H
#define WEFT_WORKER_WINDOW_H

#include <stdint.h>

#include "host.h"
#include "ipc/msg.h"

/*
 * Opens the window that a guest offers, or none: streams will do, and the reason is logged.
 * fd: the VM's window, which came with a (-1: none). A window that is made has lane_bytes for
 * lanes, and behind them host_bytes that the guest may ask for.
 */
void window_open(struct host_window *win, const struct msg_attach *a, int fd,
		 uint64_t lane_bytes, uint64_t host_bytes);

#endif
