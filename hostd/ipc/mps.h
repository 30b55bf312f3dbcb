/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of weftd to weft-mps (mps/main.c), over the socket MPS_SOCKET in its directory: to have
 * a process's work taken off the device, which is killed then. One in each connection. */
#ifndef WEFT_IPC_MPS_H
#define WEFT_IPC_MPS_H

#include <stdint.h>

#define MPS_SOCKET "weft"

struct mps_request {
	int32_t pid; /* a client's */
};

struct mps_answer {
	int32_t result; /* 0, or -errno: it stays there */
};

#endif
