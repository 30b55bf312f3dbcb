/* SPDX-License-Identifier: Apache-2.0 */
/* A weftd of one's own, for the lifetime of a program. */
#ifndef WEFT_TOOLS_PRIVATE_H
#define WEFT_TOOLS_PRIVATE_H

#include <sys/types.h>

struct private_opts {
	const char *device, *tpcs, *memory, *threads, *swap,
		*rewrite; /* as weftd's options; may be NULL */
};

struct private_daemon {
	char dir[64]; /* its run directory, temporary */
	pid_t pid;
	int lifeline; /* weftd ends when this closes */
};

/*
 * Starts one and waits until it is ready. Returns 0 or -errno; a message has been printed
 * by weftd or by this.
 */
int private_start(const struct private_opts *o, struct private_daemon *ret_d);

/* Ends it and removes what it left. */
void private_stop(struct private_daemon *d);

#endif
