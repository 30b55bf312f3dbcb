/* SPDX-License-Identifier: Apache-2.0 */
/* A program from the inside: what lowering fills and the executor reads. */
#ifndef WEFT_SIMT_PROGRAM_H
#define WEFT_SIMT_PROGRAM_H

#include "ptx/ptx.h"
#include "simt/exec.h"

struct simt_func {
	struct simt_program *prog;
	struct simt_code *code;
	struct simt_func_attr attr;
	struct simt_param *params;
};

struct simt_program {
	const struct ptx_module *ptx;
	struct simt_var *vars;
	uint64_t *var_addr; /* by index of the module's variables */
	size_t num_vars;
	struct simt_code *codes; /* one per function of the module */
	struct simt_func *kernels;
	size_t num_kernels;
	struct simt_op *ops;
	uint32_t *origin; /* index of the PTX instruction of each op */
	size_t num_ops;
	uint8_t *konst; /* rows of constants */
	size_t konst_bytes;
	bool has_reserved;          /* asks where the reserved shared memory is */
	struct simt_pos *positions; /* tables of lower/matrix.c, in blocks */
	struct simt_block *blocks;  /* everything that lives as long as the program */
};

/* Memory that goes with the program, zeroed; NULL when there is none. */
void *simt_program_alloc(struct simt_program *p, size_t bytes);

/* Fills in the attributes of all kernels, at the end of lowering. */
int simt_program_attrs(struct simt_program *p);

/* Address of function i as PTX sees it. */
static inline uint64_t simt_code_addr(uint32_t index)
{
	return SIMT_CODE_BASE + 16ull * index;
}

/* The function at such an address, or NULL. */
const struct simt_code *simt_code_at(const struct simt_program *p, uint64_t addr);

#endif
