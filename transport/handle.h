/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Object handles as guests see them (CUcontext, CUmodule, CUfunction, CUstream, ...).
 *
 * The guest library numbers objects before the worker has made them, so that creating one
 * need not wait. A worker believes nothing of a handle: it indexes a table of the session
 * and compares type and generation. The value looks like a user-space address, is 16-byte
 * aligned, never 0, 1 or 2 (which mean default streams), and lies outside the band of
 * device addresses.
 *
 * Graphs, their nodes and user objects are the guest's alone and never travel: what is
 * captured gets its numbers there as well. A worker knows HANDLE_GRAPH_EXEC, and numbers
 * the nodes of one by their place.
 *
 *	bit 46..41   40..36  35..24       23..4   3..0
 *	    010101   type    generation   index   0
 */
#ifndef WEFT_HANDLE_H
#define WEFT_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

enum handle_type {
	HANDLE_NONE,
	HANDLE_CONTEXT,
	HANDLE_MODULE,
	HANDLE_LIBRARY,
	HANDLE_FUNCTION,
	HANDLE_KERNEL,
	HANDLE_STREAM,
	HANDLE_EVENT,
	HANDLE_LINK,  /* CUlinkState */
	HANDLE_MEM,   /* CUmemGenericAllocationHandle */
	HANDLE_POOL,  /* CUmemoryPool */
	HANDLE_ARRAY,
	HANDLE_TEXTURE, /* CUtexObject */
	HANDLE_SURFACE,
	HANDLE_GRAPH,
	HANDLE_GRAPH_EXEC,
	HANDLE_GRAPH_NODE,
	HANDLE_USER_OBJECT,
	HANDLE_GREEN_CONTEXT,
	HANDLE_NUM_TYPES
};

/* Most objects that a worker has of a session, of all types together. The guest counts,
 * so that the call that would make one more says so. */
#define HANDLE_LIVE_MAX   (1u << 20)

#define HANDLE_TAG        0x15ull
#define HANDLE_INDEX_BITS 20
#define HANDLE_INDEX_MAX  ((1u << HANDLE_INDEX_BITS) - 1)
#define HANDLE_GEN_MASK   0xfffu

static inline uint64_t handle_make(enum handle_type type, uint32_t gen, uint32_t index)
{
	return HANDLE_TAG << 41 | (uint64_t)type << 36 |
	       (uint64_t)(gen & HANDLE_GEN_MASK) << 24 |
	       (uint64_t)(index & HANDLE_INDEX_MAX) << 4;
}

static inline enum handle_type handle_type(uint64_t h)
{
	if (h >> 41 != HANDLE_TAG || (h & 15) || (h >> 36 & 31) >= HANDLE_NUM_TYPES)
		return HANDLE_NONE;
	return (enum handle_type)(h >> 36 & 31);
}

static inline uint32_t handle_gen(uint64_t h)
{
	return (uint32_t)(h >> 24) & HANDLE_GEN_MASK;
}

static inline uint32_t handle_index(uint64_t h)
{
	return (uint32_t)(h >> 4) & HANDLE_INDEX_MAX;
}

#endif
