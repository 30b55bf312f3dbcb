/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software GPU: what its files share. device_soft_ops (soft.c) is the way in.
 *
 *	soft.c		open, close, contexts, limits
 *	attr.c	what the device says of itself
 *	memory.c	band, allocations, permissions; share.c allocations of others
 *	stream.c	streams, order between operations; event.c events
 *	engine.c	threads of the copy engines and of host functions
 *	copy.c	copies and fills; words.c words of memory
 *	module.c	images, functions, variables; func.c attributes
 *	launch.c	checks a launch, makes a kernel of it
 *	place.c	which block is next, and where
 *	exec.c	runs them, in slices
 *	runlist.c	which process has the device; filler.c has it for nothing
 *	output.c	device printf; heap.c device malloc
 *
 * Locks: device.lock guards contexts, streams, events, engines and the executor. The
 * memory's own lock, the heap's and the output's are leaves below it. No callback of the
 * user's runs under a lock.
 */
#ifndef WEFT_DEVICE_SOFT_H
#define WEFT_DEVICE_SOFT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/lock.h"
#include "device/device.h"
#include "device/soft/exec.h"
#include "device/soft/heap.h"
#include "device/soft/memory.h"
#include "device/soft/output.h"
#include "device/soft/stream.h"

/* Values for fields of struct device_config that are left open, and their bounds. */
#define SOFT_DEFAULT_TPCS        4
#define SOFT_DEFAULT_MEMORY      (2ull << 30)
#define SOFT_GRANULARITY         (2u << 20)
#define SOFT_GRANULARITY_MIN     (128u << 10) /* two pages of the permission table */
#define SOFT_GRANULARITY_MAX     (1u << 30)
#define SOFT_MAX_TPCS            256
#define SOFT_MAX_THREADS         512
#define SOFT_SMS_PER_TPC         2
#define SOFT_TPCS_PER_GPC        4
#define SOFT_SET_MAX             128 /* bits of a struct dev_tpcs */

#define SOFT_SM                  90 /* compute capability 9.0; its resources: */
#define SOFT_MAX_BLOCK_THREADS   1024
#define SOFT_SM_THREADS          2048
#define SOFT_SM_WARPS            (SOFT_SM_THREADS / SIMT_WARP)
#define SOFT_SM_BLOCKS           32
#define SOFT_SM_REGS             65536
#define SOFT_SM_SHARED_BYTES     (228u << 10)
#define SOFT_BLOCK_SHARED_BYTES  (48u << 10)           /* unless the function asks */
#define SOFT_BLOCK_SHARED_OPTIN  SIMT_MAX_SHARED_BYTES /* if it does */
#define SOFT_BLOCK_SHARED_SYSTEM SIMT_RESERVED_SHARED  /* reserved in each block */
#define SOFT_CONST_BYTES         (64u << 10)
#define SOFT_PORTABLE_CLUSTER    8

enum soft_engine_kind {
	SOFT_ENGINE_IN,  /* host to device */
	SOFT_ENGINE_OUT, /* device to host */
	SOFT_ENGINE_DEV, /* device to device and fills */
	SOFT_ENGINE_HOST,
	SOFT_ENGINE_WORDS,
	SOFT_NUM_ENGINES
};

/* A thread that works off a queue. */
struct soft_engine {
	struct device *dev;
	pthread_t thread;
	bool running; /* the thread exists */
	bool stop;
	struct list queue; /* struct soft_op by .engine */
	uint32_t word;     /* changes whenever something was queued */
	bool parked;
	struct soft_op *missed; /* the first in a round that has to be looked at again */
};

struct device {
	struct device_config cfg; /* defaults filled in */
	struct soft_memory mem;
	pthread_mutex_t lock;
	struct list contexts;
	struct list ready; /* operations to be started by soft_run_ready_locked() */
	bool starting;     /* ... which is running */
	struct soft_engine engines[SOFT_NUM_ENGINES];
	struct soft_exec exec;
	struct list host_ops; /* host functions that were called and are not done */
	pthread_t filler;     /* exists while */
	bool fills;
	uint64_t last_token;
	uint64_t last_grid;
	_Atomic size_t taken; /* bytes that copies have taken and not written yet */
};

/* The TPCs that new kernels run on, and how many SMs these have. */
struct dev_tpcs soft_tpcs(struct device *dev);
/* TPCs of a stream's kernels; NULL: the legacy one. */
struct dev_tpcs soft_stream_tpcs(struct dev_ctx *ctx, const struct dev_stream *st);
CUresult soft_stream_keep_to(struct dev_ctx *ctx, struct dev_stream *st,
			     const uint64_t tpcs[2]);
unsigned soft_sms(struct device *dev);

struct dev_ctx {
	struct device *dev;
	struct list link; /* device.contexts */
	unsigned flags;
	_Atomic int status; /* CUresult; relaxed: what it guards is under the lock */
	char fault[512];    /* set before status, once */
	struct dev_stream legacy;
	struct dev_stream joint; /* records of the whole context */
	struct dev_stream gate;  /* events that the whole context waits for */
	struct list streams, events, modules, owned; /* owned: soft_own() */
	size_t stack_bytes;
	size_t pending_launches, l2_fetch, persisting_l2;
	struct soft_heap heap;
	struct soft_output output;
};

/* The context is lost: its kernels stop, what is queued finishes without being done. */
void soft_ctx_lose_locked(struct dev_ctx *ctx, CUresult code, const char *fault);

CUresult soft_ctx_status(struct dev_ctx *ctx);

/* Starts and ends an engine's thread; 0 or -errno. */
int soft_engine_start(struct soft_engine *e, struct device *dev);
void soft_engine_stop(struct soft_engine *e);
void soft_engine_queue_locked(struct soft_engine *e, struct soft_op *op);

/* Do the work of an operation of kind COPY or HOST, on an engine's thread. */
void soft_copy_run(struct soft_op *op);
void soft_host_run(struct soft_op *op);
/* Goes on with an operation of kind WORDS; false: its turn comes again. */
bool soft_words_run(struct soft_op *op);
/* Whether one of soft_stream_wait_for_kernels() still waits: its word, which is there for as long as
 * the operation is, has not been written. */
bool soft_words_wait(const struct soft_op *op);
/* Finishes the context's host functions that were called and not reported done. */
void soft_host_drop_locked(struct dev_ctx *ctx);
/* The engine for an operation of kind COPY. */
enum soft_engine_kind soft_copy_engine(const struct soft_op *op);

CUresult soft_attribute(struct device *dev, CUdevice_attribute attr, int *ret_value);

/* copy.c */
CUresult soft_write(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		    const void *host_buf, size_t size);
CUresult soft_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
		   CUdeviceptr src, size_t size);
/* Copies of rows, packed on the host's side. */
CUresult soft_write_rows(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			 size_t pitch, const void *host_buf, size_t width, size_t height);
CUresult soft_read_rows(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			CUdeviceptr src, size_t pitch, size_t width, size_t height);
CUresult soft_write_taken(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			  size_t pitch, const void *host_buf, size_t width,
			  size_t height);
CUresult soft_copy(struct dev_ctx *ctx, struct dev_stream *st,
		   const struct dev_copy_2d *c);
CUresult soft_fill(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		   size_t pitch, uint32_t value, unsigned elem_bytes, size_t width,
		   size_t height);

/* filler.c */
CUresult soft_digest(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct digest_key *key, const struct digest_range *r,
		     unsigned n, struct digest *ret);
bool soft_filler(struct dev_ctx *ctx, bool on);

/* words.c */
CUresult soft_stream_wait_for_kernels(struct dev_ctx *ctx, struct dev_stream *st,
				      CUdeviceptr addr, uint32_t value);
CUresult soft_stream_mem_ops(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_mem_op *ops, unsigned n, unsigned flags);

/* One level of an array: rows of elements in device memory. */
struct soft_level {
	uint64_t addr;
	struct array_shape shape;
	size_t pitch, slice; /* bytes from row to row, slice to slice */
};

struct dev_array {
	struct dev_ctx *ctx;
	struct array_shape shape;
	unsigned elem_bytes, n_levels;
	uint64_t base, bytes;
	struct soft_level level[ARRAY_LEVELS_MAX];
};

/* array.c */
CUresult soft_array_bytes(struct dev_ctx *ctx, const struct array_shape *s,
			  uint64_t *ret_bytes);
CUresult soft_array_create(struct dev_ctx *ctx, const struct array_shape *s,
			   struct dev_array **ret_array);
void soft_array_destroy(struct dev_array *a);
CUresult soft_array_write(struct dev_ctx *ctx, struct dev_stream *st,
			  const struct dev_box *dst, const void *host_buf);
CUresult soft_array_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			 const struct dev_box *src);
CUresult soft_array_copy(struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_copy_3d *c);

/* texture.c */
CUresult soft_texture_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex);
CUresult soft_surface_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex);
void soft_texture_destroy(struct dev_texture *tex);

#endif
