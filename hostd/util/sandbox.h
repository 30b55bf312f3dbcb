/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights that a process gives up before it looks at a guest's first byte. In order:
 *
 *	1. a session and process group of its own, no descriptors but its own (early)
 *	2. files, by Landlock: before any thread is there, since it holds for the caller's
 *	   thread and those that it starts (files)
 *	3. resource limits, no core dumps and no looking into memory with a guest's data
 *	4. no_new_privs
 *	5. another user, no groups, no capabilities (if started as root); or, who has to
 *	   act for others, all capabilities but a few
 *	6. a list of system calls and of what they may be asked; a call that is not on it
 *	   is named and ends the process, one asked for something else fails with EPERM.
 *	   weftd's children have its filter as well, so that one lists what nobody needs
 *
 * 3 to 6 (enter) come after the device is open, which may need more.
 * hostd/doc/syscalls.md is the list, and a test keeps it true.
 */
#ifndef WEFT_UTIL_SANDBOX_H
#define WEFT_UTIL_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* A set of capabilities with CAP_... in it. */
#define SANDBOX_CAP(cap) (1ull << (cap))

#define SANDBOX_EXIT     159 /* status of a process that made a forbidden system call */

enum sandbox_kind {
	SANDBOX_WORKER_SOFT, /* threads and memory */
	SANDBOX_WORKER_CUDA, /* also what the driver library does with its device files */
	SANDBOX_GL_SOFT,     /* also compiles shaders */
	SANDBOX_GL_CUDA,     /* likewise, and what OpenGL's driver does with its files */
	SANDBOX_LISTENER,    /* sockets only */
	SANDBOX_VSOCK,       /* a VM's device: sockets, memory of the guest */
	SANDBOX_VSOCK_SUPERVISOR, /* likewise, and starts such a process again */
	SANDBOX_VSOCK_CONNECTOR,  /* connects to Unix sockets, is told to which */
	SANDBOX_EXPORTER,         /* asks weftd, answers Prometheus */
	SANDBOX_BROKER,           /* weftd, and workers before they enter their own */
	SANDBOX_NUM,
};

enum sandbox_mode {
	SANDBOX_ON,
	/* Nothing is stopped, all that would be is said: to find out what a driver needs.
	 */
	SANDBOX_LOG,
	SANDBOX_OFF, /* for debuggers */
};

struct sandbox {
	enum sandbox_kind kind;
	enum sandbox_mode mode;
	/* NAME, or UID:GID. NULL: "weft" if there is such a user, else "nobody". */
	const char *user;
	/* Nobody else runs as that user: threads are bounded, too. */
	bool own_user;
	/* Not 0: root stays root, with these capabilities alone; SANDBOX_CAP(). */
	uint64_t capabilities;
	/* Open files; 0: as it is. */
	unsigned files;
	/* Closed to files before the device's are there, too: for tests. */
	bool at_once;
	/* For sandbox_enter(), from sandbox_files(): who says what would be stopped, and
	 * a file of the device's that was not there, so that none is kept away. */
	int watcher; /* 0: nobody */
	uid_t uid;   /* 0: no other, since we are not root */
	gid_t gid;
	const char *absent;
};

/* Finds the user and group of `user`: NAME, UID:GID or NULL as above. Returns 0, -ENOENT,
 * or -EPERM for root. */
int sandbox_ids(const char *user, uid_t *ret_uid, gid_t *ret_gid);

/* A file that a process of that kind needs and nobody has made yet, or NULL. */
const char *sandbox_absent(enum sandbox_kind kind);

/* "on", "log", "off". Returns 0 or -EINVAL. */
int sandbox_mode_parse(const char *text, enum sandbox_mode *ret_mode);

/* Step 1. Descriptors from first_fd on are closed. Returns 0 or -errno. */
int sandbox_early(int first_fd);

/*
 * Step 2; the process must have one thread. Where the kernel has no Landlock that is
 * logged, and is no error. Returns 0 or -errno.
 */
int sandbox_files(struct sandbox *s);

/*
 * Steps 3 to 6, for all threads of the process. Returns 0 or -errno; then the process
 * must not go on.
 */
int sandbox_enter(const struct sandbox *s);

/* Only a step of 3 to 6, for a process that does more between them. 0 or -errno. */
int sandbox_limits(const struct sandbox *s);
int sandbox_user(const struct sandbox *s);
int sandbox_calls(const struct sandbox *s);

/* Whether this is a build that can have no sandbox. */
bool sandbox_sanitized(void);

/* "worker-soft", ... */
const char *sandbox_name(enum sandbox_kind kind);

/* Prints the list of step 6, a call a line: its name, and a condition if there is one. */
void sandbox_print(enum sandbox_kind kind, FILE *f);

#endif
