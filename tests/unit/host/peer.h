/* SPDX-License-Identifier: Apache-2.0 */
/* Workers with a session, as weftd has them; the other ends of their pairs are the test's. */
#ifndef WEFT_TESTS_UNIT_HOST_PEER_H
#define WEFT_TESTS_UNIT_HOST_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/msg.h"

struct broker;
struct tenant;
struct worker;
struct worker_page;

/* Fills in *w, of a tenant that is, with a page (or NULL). Returns the other end. */
int peer_open(struct worker *w, struct tenant *t, struct worker_page *page);
void peer_close(struct worker *w, int end);

/* Reads all messages, which are of that type. Returns whether there were any; *ret_m: the
 * last one. */
bool peer_hears(int end, uint32_t type, struct msg *ret_m);

#endif
