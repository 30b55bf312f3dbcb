/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of a kernel, and what each of them reached. */
#ifndef WEFT_PROFILE_LAUNCH_H
#define WEFT_PROFILE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "ptx/extent/extent.h"
#include "ptx/extent/template.h"

/* Bytes of a piece: what the driver moves at once where a kernel reaches much. */
#define PIECE ((uint64_t)2 << 20)

/* Launches of a kernel that are kept; more say nothing new. */
#define LAUNCHES_MAX 48u

/* Addresses from one to another. */
struct span {
	uint64_t from, to;
};

struct spans {
	struct span *v;
	size_t n, room;
};

/* Adds one. 0 or -ENOMEM. */
int spans_add(struct spans *s, uint64_t from, uint64_t to);
/* Puts them in order, with those that touch as one. */
void spans_join(struct spans *s);
/* The span that holds an address, of those in order; NULL. */
const struct span *spans_find(const struct spans *s, uint64_t address);
void spans_free(struct spans *s);

struct launch {
	struct ptx_grid shape;
	void *params;
	size_t size;
	struct spans memory; /* allocations, in order */
	struct spans reached; /* in order, apart; as exact as the driver's moves */
};

/* How well launches were foretold, in pieces. */
struct compared {
	uint64_t launches, reached;
	uint64_t missed; /* reached, and not foretold */
	uint64_t extra;  /* the other way round */
	uint64_t open;   /* launches of which allocations were foretold */
};

struct kernel {
	struct ptx_code code;
	char *name;
	uint64_t seen; /* launches, those that are not kept as well */
	unsigned n;
	struct launch launch[LAUNCHES_MAX];
	struct compared compared;
};

struct kernels {
	struct kernel **v;
	size_t n;
};

/* Whether files can have a kernel of this name: one word, without a #. */
bool kernels_can_name(const char *name);
/* Finds the kernel of this name in this code, or adds it. NULL: memory is short. As long as k. */
struct kernel *kernels_get(struct kernels *k, const struct ptx_code *code,
			   const char *name);
void kernels_free(struct kernels *k);

/* Counts a launch. Whether it says more than those that are kept: it has other numbers, or it is
 * one of the first that have other addresses. */
bool kernel_sees(struct kernel *k, const struct launch *l);
/* Keeps a launch, and what it holds, of which launch_free() may be called all the same. */
void kernel_keep(struct kernel *k, struct launch *l);

/* Releases what a launch holds, and empties it. */
void launch_free(struct launch *l);

/* A parameter's word, 0 past its end. */
uint64_t launch_word(const struct launch *l, size_t offset, unsigned bytes);

#endif
