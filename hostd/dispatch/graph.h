/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs of a session. */
#ifndef WEFT_DISPATCH_GRAPH_H
#define WEFT_DISPATCH_GRAPH_H

#include <pthread.h>

#include "graph/exec.h"
#include "session/command.h"

struct sess_exec {
	struct sess_obj obj;
	pthread_mutex_t lock; /* waiting commands run beside posted ones */
	struct exec *x;
	struct session *s;
	struct sess_shell *shell; /* a reference, or NULL */
	uint32_t body;            /* that nodes are described for */
	unsigned kernels;
};

/* Owner of the handles of conditional nodes. */
struct sess_shell {
	struct sess_obj obj;
	pthread_mutex_t lock;
	struct dev_shell *dev;
};

/* The exec of a command, locked; NULL: there is none. */
struct sess_exec *sess_exec_lock(struct sess_lane *sl, uint64_t h);
void sess_exec_unlock(struct sess_exec *e);

#endif
