/* SPDX-License-Identifier: Apache-2.0 */
/* CUjit_option arrays: the options of a compilation, and the places where its results
 * go. */
#ifndef WEFT_GUEST_JIT_H
#define WEFT_GUEST_JIT_H

#include "core/guest.h"

/* Bits of jit_flags in module_load and link_create. */
#define JIT_DEBUG     1u
#define JIT_LINE_INFO 2u
#define JIT_VERBOSE   4u

struct jit_log {
	char *buf;
	uint32_t room;
	void **ret_size; /* the option whose value becomes the bytes written; or NULL */
};

#define JIT_OTHERS_MAX 24

struct wire_jit_option;

struct jit_options {
	uint32_t max_registers;
	int32_t optimization_level; /* -1: not given */
	uint32_t flags;
	struct jit_log info, error;
	void **ret_wall_time; /* or NULL */
	unsigned n_others;    /* as they travel: option and value */
	uint32_t others[JIT_OTHERS_MAX][2];
};

/* Reads n options with their values. Results are stored later, in *values or where they
 * point to: both outlive *ret_jit. INVALID_VALUE for an unknown option or a bad value. */
CUresult jit_parse(unsigned n, CUjit_option *options, void **values,
		   struct jit_options *ret_jit);

/* Writes jit->n_others options to w, as they travel. */
void jit_put_others(struct wire_jit_option *w, const struct jit_options *jit);

/* Stores a message (size bytes with its NUL, or none) where the program wants it. */
void jit_store_log(struct jit_log *log, const char *text, uint32_t size);

/* Stores the time of a compilation where the program wants it, if it does. */
void jit_store_wall_time(struct jit_options *jit, float ms);

#endif
