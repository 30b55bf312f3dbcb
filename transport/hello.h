/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake's two messages, as pure functions: checks of what the other side sent.
 * The layout of both is the same in every version of the protocol, so that any two
 * versions can tell each other why they part.
 */
#ifndef WEFT_HELLO_H
#define WEFT_HELLO_H

#include "wire.h"

#define HELLO_WINDOWS (WIRE_OFFER_KEY | WIRE_OFFER_DESCRIPTOR)
#define HELLO_OFFERS  (WIRE_OFFER_STREAM | HELLO_WINDOWS)

/*
 * Checks a hello (a private copy) and makes its name printable. Returns 0, -EPROTO
 * (garbage), -EPROTONOSUPPORT (a version that is none of ours).
 */
int hello_check(struct wire_hello *h);

/*
 * Checks a welcome (a private copy). Returns 0, -EPROTO, -EPROTONOSUPPORT (the host does
 * not speak this version; its own is in the welcome), or the negative errno with which
 * the host refused. offers: those of the hello.
 */
int welcome_check(const struct wire_welcome *w, uint32_t offers);

#endif
