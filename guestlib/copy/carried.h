/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory where there is no window: device memory with pages of this process at the same
 * address. Each piece is the program's or the device's, and is carried between them.
 */
#ifndef WEFT_GUEST_CARRIED_H
#define WEFT_GUEST_CARRIED_H

#include "object/managed.h"

/* Allocates h->size bytes, and fills in base, dev, host and carried; the caller enters it into the
 * table. NOT_SUPPORTED: pages cannot be closed here, or there is no band. */
CUresult carried_new(struct guest_thread *t, struct hostmem *h);

#endif
