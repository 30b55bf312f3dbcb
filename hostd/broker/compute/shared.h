/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Class shared: tenants whose kernels run side by side, each on its TPCs, as clients of one MPS
 * server. To all others they are one, with the driver's slice. They have one fate, too: after a
 * fault of one the server ends every client, and takes no other before all have gone. So weftd
 * ends their sessions, and then begins anew. weftd's thread only.
 */
#ifndef WEFT_BROKER_SHARED_H
#define WEFT_BROKER_SHARED_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct worker;

/* Whether a tenant is of class shared that may have sessions. */
bool shared_used(const struct broker *b);
/* Whether its sessions can begin: nothing has gone wrong that is not over. */
bool shared_works(const struct broker *b);
/* A session has lost its context. Returns 0, or -EPROTO: it is not shared. */
int shared_lost(struct worker *w);
/* Timer (loop.h): ends sessions after a fault, and workers that wait for tenants that are no
 * more. */
uint64_t shared_tick(void *broker, uint64_t now_ns);

#endif
