/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_GUEST_EVENT_H
#define WEFT_GUEST_EVENT_H

#include "guest.h"

/* What an event was created with; of none: 0. */
unsigned event_flags(CUevent event);

/* What the table of handles keeps of a new event. */
void *event_shadow(unsigned flags);

/* False: waiting for it is waiting for nothing. */
bool event_was_recorded(CUevent event);

#endif
