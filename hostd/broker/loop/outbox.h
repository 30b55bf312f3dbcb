/* SPDX-License-Identifier: Apache-2.0 */
/* An outbox: messages to a worker or a listener that has not read those before yet. */
#ifndef WEFT_BROKER_OUTBOX_H
#define WEFT_BROKER_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct loop;
struct msg;
struct source;
struct tenant;

/* Letters to a worker or a listener, in order; the first waits for room in its socket. */
struct outbox {
	struct loop *loop;
	struct source *src;
	struct tenant *t; /* whose it is; NULL: nobody's yet */
	struct list letters;
	unsigned n;
	uint64_t read_ns; /* when one left last, or the first came */
};

void outbox_init(struct outbox *o, struct loop *loop, struct source *src);
void outbox_drop(struct outbox *o);
/*
 * Sends m, now or when there is room after what came before; descriptors (-1: none)
 * stay the caller's. Returns 0, -EMFILE (too many descriptors wait) or -errno: it has
 * gone or is broken.
 */
int outbox_tell(struct outbox *o, const struct msg *m, int fd0, int fd1);
/* Returns true if all was read, as far as is known: for what can be left out. */
bool outbox_is_read(const struct outbox *o);
/* Sends on; the socket can take more. Returns 0 or -errno: the reader has gone. */
int outbox_write(struct outbox *o);

#endif
