/* SPDX-License-Identifier: Apache-2.0 */
/* Children: workers and listeners as processes. */
#ifndef WEFT_BROKER_CHILD_H
#define WEFT_BROKER_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/child/output.h"
#include "broker/loop/loop.h"

struct broker;

struct child {
	pid_t pid; /* 0: none */
	struct source exit;
	struct output out;
	uint32_t uid; /* 0: the same as others */
	char ids[24]; /* "UID:GID" */
	bool adopted; /* another weftd started it: nobody here gets its status */
	/* Called by child_kill() in the place of child_kill_now(), which it leads to; or
	 * NULL. */
	void (*kill)(struct child *c);
};

/*
 * Starts a program that lies beside weftd (or in libexec), with fds[i] as descriptor
 * 3 + i, a user, a session and an output of its own. exit_fn runs when it has ended; then
 * call child_reap(). Returns 0 or -errno.
 */
int child_spawn(struct broker *b, struct child *c, char *const argv[], const int *fds,
		unsigned n_fds, void (*exit_fn)(struct source *, uint32_t));
/* Takes over a child of another weftd: a pidfd and the end of its output (or -1). exit_fn
 * as above; program is a constant. Returns 0 or -errno; both descriptors are taken. */
int child_adopt(struct broker *b, struct child *c, const char *program, pid_t pid,
		uint32_t uid, int pidfd, int output,
		void (*exit_fn)(struct source *, uint32_t));
/* Collects an ended child, and ends what it left behind. Returns the wait status as of
 * waitpid(), 0 for one that was adopted. */
int child_reap(struct broker *b, struct child *c);
void child_kill(struct child *c);
void child_kill_now(struct child *c);

#endif
