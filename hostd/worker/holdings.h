/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holdings: what weftd has granted to this worker, as the messages of both say, kept in
 * the order of the messages. A weftd that was started again asks for all of it (RESUME in
 * ipc/msg.h). The caller has a lock.
 */
#ifndef WEFT_WORKER_HOLDINGS_H
#define WEFT_WORKER_HOLDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "ipc/msg.h"

struct holdings {
	struct msg_resumed sums; /* but for what is the session's */
	struct list host, shares, opens;
	bool lost; /* there was no memory to note something: nothing can be told */
};

void holdings_init(struct holdings *h);
void holdings_fini(struct holdings *h);
/* Notes a move that weftd wants. Other messages are fine, too. */
void holdings_told(struct holdings *h, const struct msg *m);
/* Notes what a message to weftd gives back or moves. Others are fine, too. */
void holdings_said(struct holdings *h, const struct msg *m);
/* Notes weftd's answer to a question of which sent_fd (or -1, the caller's) was part. */
void holdings_answered(struct holdings *h, const struct msg *asked, int sent_fd,
		       const struct msg *answer);
/* Sends all HAS_ and RESUMED. Returns 0 or -errno; -ENOMEM: something was lost. */
int holdings_tell(const struct holdings *h, int sock, uint32_t id, uint64_t session,
		  bool can_move);

#endif
