/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled code, kept for the next process: in the process's memory, and on the guest's
 * disk where the driver keeps its own (CUDA_CACHE_PATH, else ~/.nv/ComputeCache), in a
 * folder "weft" of one file an entry. CUDA_CACHE_DISABLE=1 switches both off,
 * CUDA_CACHE_MAXSIZE bounds the files in bytes; the oldest go first.
 *
 * Nothing of it is on the host: a guest can only ever give itself wrong code, as it can
 * by loading wrong code.
 *
 * Any number of processes may use one folder. A file is written beside its place and
 * renamed; one that does not hold what its header says is removed and counts as absent. A
 * disk that is full or cannot be written leaves the entries in memory.
 *
 * Any thread, in any state of the library; a forked child too.
 */
#ifndef WEFT_GUEST_CODE_CACHE_H
#define WEFT_GUEST_CODE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Hash (XXH3, 128 bits) of everything that determines a compiler's output. */
struct code_key {
	uint64_t word[2];
};

/* A part of a compiler's input, or of its options. */
struct code_part {
	const void *data;
	size_t size; /* bytes */
};

/* The key of n parts; where one part ends and the next begins counts. */
struct code_key code_key_of(const struct code_part *parts, unsigned n);

/* False where CUDA_CACHE_DISABLE says so. The environment is read once. */
bool code_cache_enabled(void);

/*
 * Finds an entry. Returns 0 with a malloced copy that the caller frees, -ENOENT where
 * there is none (or it was damaged), or -ENOMEM.
 */
int code_cache_get(const struct code_key *key, void **ret_data, size_t *ret_size);

/* Keeps a copy of data. Failures are not reported: the entry is absent then. */
void code_cache_put(const struct code_key *key, const void *data, size_t size);

/* Removes an entry that turned out to be of no use. */
void code_cache_drop(const struct code_key *key);

#endif
