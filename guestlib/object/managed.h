/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory; api/object/managed.c. */
#ifndef WEFT_GUEST_MANAGED_H
#define WEFT_GUEST_MANAGED_H

#include "core/guest.h"

/* Whether dptr is in managed memory; then *ret is what cuMemFree() says of it, which has waited
 * for the device and freed it if it begins there. Any thread, no command begun. */
bool managed_take(struct guest_thread *t, CUdeviceptr dptr, CUresult *ret);

#endif
