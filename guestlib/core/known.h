/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knowledge of a host of another age: it may lack what this library asks for. For both
 * libraries.
 */
#ifndef WEFT_GUEST_KNOWN_H
#define WEFT_GUEST_KNOWN_H

#include "link.h"
#include "ops.h"

/* Fills in what the library says of itself. */
void known_introduce(struct session_open_cmd *cmd, uint64_t features);

/* Keeps the host's version. True if it is of another build: operations is to be asked. */
bool known_differs(const struct session_open_rep *rep);

/*
 * Keeps the answer to operations, a private copy of the body, if something of this library
 * is not known to the host. Returns 0, -EPROTO or -ENOMEM.
 */
int known_keep(struct link *k, const void *body, uint32_t size);

/*
 * Says, the first time in a process, that the program wants what the host does not know, with
 * both versions and who is to be upgraded. ret_what: the same for weftctl info, REFUSAL_TEXT
 * bytes padded with NULs. Any thread.
 */
void known_missing(uint16_t op, char *ret_what);

#endif
