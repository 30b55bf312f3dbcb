/* SPDX-License-Identifier: Apache-2.0 */
/* Common part of the sandbox's files. */
#ifndef WEFT_UTIL_SANDBOX_INT_H
#define WEFT_UTIL_SANDBOX_INT_H

#include <seccomp.h>

#include "util/sandbox.h"

/* A system call that is left to a process. */
struct sandbox_call {
	int nr; /* negative: not on this architecture */
	const char *name;
	const char *when; /* on which condition; NULL: always */
	int error;        /* not 0: it always fails so */
	bool own_pid;     /* argument 0 is this process */
	unsigned n_args;
	struct scmp_arg_cmp args[2];
};

/* Runs fn for each call of a kind; a call may come several times. Returns fn's first
 * error or 0. */
int sandbox_each(enum sandbox_kind kind,
		 int (*fn)(const struct sandbox_call *c, void *arg), void *arg);

/* Leaves this process the calls of a kind and no others, for all of its threads, as step
 * 6 has it. Returns 0 or -errno. */
int sandbox_restrict_calls(enum sandbox_kind kind);

/* Leaves this thread, and those that it starts, the files of a kind. Where the kernel has
 * no Landlock that is logged, and is no error. Returns 0 or -errno. */
int sandbox_restrict_files(enum sandbox_kind kind);

/* Whether a process of that kind may open a path so. */
bool sandbox_may_open(enum sandbox_kind kind, const char *path, bool write);

/*
 * Starts who says what would be stopped, for SANDBOX_LOG, and tells the kernel to ask it.
 * What is not a file is said from sandbox_watch_all() on. Returns a descriptor or -errno.
 */
int sandbox_watch(enum sandbox_kind kind);
int sandbox_watch_all(int watcher);

#endif
