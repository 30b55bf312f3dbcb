/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: the process that was started. It forks the one that serves the device,
 * holds copies of the descriptors the device stands on, and when the server dies of a
 * signal, forks another one that goes on with them. It reads no guest memory and
 * understands nothing of what it keeps.
 */
#ifndef WEFT_SUPERVISOR_H
#define WEFT_SUPERVISOR_H

struct supervisor_ops {
	/*
	 * Runs in the server's process: serves until the end and returns its exit status.
	 * keep_fd takes snapshots; state_fd brings the last one after a crash, and is -1
	 * the first time.
	 */
	int (*serve)(void *ctx, int keep_fd, int state_fd);
	void *ctx;
	/* Descriptors of the first server, which the others get as a state: closed here
	 * once it is there. */
	int *first;
	unsigned n_first;
};

/*
 * Runs servers until one exits by itself, SIGTERM or SIGINT comes, or they die too often.
 * Returns the exit status for this process.
 */
int supervisor_run(const struct supervisor_ops *ops);

#endif
