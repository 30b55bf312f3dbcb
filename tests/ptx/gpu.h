/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small device for tests of the executor: one band of memory, PTX text in, kernels run
 * to their end on the calling thread (or on several).
 */
#ifndef WEFT_TEST_GPU_H
#define WEFT_TEST_GPU_H

#include "simt/simt.h"

struct gpu {
	struct simt_memory mem;
	uint8_t *perm;
	uint64_t next; /* allocation only goes up */
	struct ptx_module *module;
	struct simt_program *prog;
	struct simt_cta *cta, *again;
	struct simt_fault fault; /* of the last launch */
	struct simt_stats stats;
	char log[4096];
	/* defaults of launches */
	const struct simt_calls *calls;
	void *user;
	uint32_t shared_bytes; /* dynamic */
	uint32_t stack_bytes;
	bool as_is;     /* kernels have no persistent form */
	uint64_t slice; /* budget of each simt_cta_run() */
	uint64_t stops; /* at yield points and between blocks */
	uint64_t waits; /* of those of gpu_launch(), how many came to nothing */
};

/* Reserves the band. */
int gpu_init(struct gpu *g);
void gpu_fini(struct gpu *g);

/* Parses and lowers; replaces what was loaded. 0, or -errno with g->log set. */
int gpu_load(struct gpu *g, const char *ptx);

/* Loads a file of $PTX_DIR as gpu_load() does. */
int gpu_load_file(struct gpu *g, const char *name);

/* Device memory, zeroed, 64 KiB aligned, readable and writable. */
void *gpu_alloc(struct gpu *g, size_t bytes);

/* Forgets all allocations (not the program's variables' place: load again). */
void gpu_reset(struct gpu *g);

/* Runs a grid; all blocks are resident at once when together is set. */
enum simt_status gpu_launch(struct gpu *g, const char *kernel, uint32_t grid,
			    uint32_t block, const void *params);
enum simt_status gpu_launch_together(struct gpu *g, const char *kernel, uint32_t grid,
				     uint32_t block, const void *params);

/* Runs a grid as gpu_launch() does, on num CPU threads. */
enum simt_status gpu_launch_threads(struct gpu *g, const char *kernel, uint32_t grid,
				    uint32_t block, const void *params, unsigned num);

/* Address of a variable of the program. */
void *gpu_var(struct gpu *g, const char *name);

#endif
