/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that concern the session itself. */
#ifndef WEFT_GUEST_SESSION_H
#define WEFT_GUEST_SESSION_H

#include "core/process.h"

/*
 * Sends the first command of a session: learns what the host knows, fills *ret_device and
 * sets *ret_n_devices (0 or 1 visible ones).
 */
CUresult session_open(struct guest_thread *t, struct guest_device *ret_device,
		      unsigned *ret_n_devices);

/* Posts the context that the lane's next commands are for: a handle; 0: none. */
CUresult session_set_current(struct guest_thread *t, uint64_t ctx);

#endif
