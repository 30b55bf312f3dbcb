/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table behind cuGetProcAddress: one row for every version of every function, sorted
 * by name, then by the CUDA version that introduced it. procs.c is generated.
 */
#ifndef WEFT_PROC_H
#define WEFT_PROC_H

#include <stdbool.h>

struct proc {
	const char *name; /* without suffix: "cuMemAlloc" for cuMemAlloc_v2 */
	int since;        /* CUDA version, 3020 for 3.2 */
	void *plain;      /* NULL: not supported */
	void *per_thread; /* the _ptds or _ptsz variant; NULL if there is none */
};

extern const struct proc proc_table[];
extern const unsigned proc_count;

/*
 * Finds the newest version of a function that a program built for CUDA `version` knows.
 * per_thread asks for the variant whose default stream is the thread's own, where the
 * function has one. Returns 0, -ENOENT (no such function, or not supported), or -ERANGE
 * (every version of it is newer than `version`).
 */
int proc_find(const char *name, int version, bool per_thread, void **ret_fn);

#endif
