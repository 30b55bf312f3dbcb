/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that connects to Unix sockets for the server of a VM's device. Its table of
 * forwards is the one that the operator gave; all that it can be asked is a port. So the
 * server, which reads what a guest wrote, cannot connect to anything by itself.
 */
#ifndef WEFT_CONNECTOR_H
#define WEFT_CONNECTOR_H

#include <stdint.h>

#include "forward.h"
#include "util/sandbox.h"

/*
 * Starts it: a child that keeps its user, so that it may open what the operator may, and
 * no other privilege. It ends with the caller's process. Returns the socket on which to
 * ask it, or -errno.
 */
int connector_start(const struct forward *f, enum sandbox_mode mode);

/*
 * Answers on a socket until its other end is closed. A part of connector_start(), for
 * tests.
 */
void connector_run(const struct forward *f, int sock);

/*
 * Has it connect to the socket of a port; one caller at a time. Returns a non-blocking
 * descriptor, -ENOENT for a port that is not forwarded, the error of connect, or
 * -ECONNREFUSED if the connector is gone.
 */
int connector_ask(int sock, uint32_t port);

#endif
