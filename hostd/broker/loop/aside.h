/* SPDX-License-Identifier: Apache-2.0 */
/* Work beside the loop, which does not wait for it. For the loop's thread only. */
#ifndef WEFT_BROKER_ASIDE_H
#define WEFT_BROKER_ASIDE_H

#include <sys/types.h>

struct loop;
struct source;

/* Starts what does it; once, before all others. Returns 0 or -errno. */
int aside_open(void);

/* Closes a descriptor (-1: none) that somebody else made. */
void aside_close(int fd);

/* Stops watching a socket on which children may have sent descriptors, and closes it. Its
 * other end is told at once. */
void aside_remove(struct loop *l, struct source *src);

/* Writes a process's number to a file (cgroup.procs), which is taken over. */
void aside_write_pid(int fd, pid_t pid);

static inline void asidep(int *fd)
{
	aside_close(*fd);
}

#define _cleanup_aside_ _cleanup_(asidep)

#endif
