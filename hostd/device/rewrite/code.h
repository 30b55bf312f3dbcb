/* SPDX-License-Identifier: Apache-2.0 */
/* Modules whose kernels have a second form, and these kernels. */
#ifndef WEFT_DEVICE_REWRITE_CODE_H
#define WEFT_DEVICE_REWRITE_CODE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "device/device.h"
#include "device/rewrite/cost.h"
#include "device/rewrite/rewrite.h"
#include "device/rewrite/table.h"
#include "ptx/rewrite/persist.h"

/* A kernel that is left alone, or has a loop without a yield point. */
struct reason {
	char *name;
	const char *why; /* a constant */
};

/* A module that was loaded with copies. */
struct code {
	struct list link; /* codes.all */
	const struct dev_ctx *ctx;
	const struct dev_module *mod;
	char *text;          /* that a library was loaded from; NULL: a module's */
	CUdeviceptr control; /* 0: not looked up yet, or not to be had */
	/* Owners of the counters: launches in a stream do not overlap. A stream that has
	 * ended leaves its own behind, for its last kernel may still run. */
	_Atomic(const void *) streams[PTX_PERSIST_SLOTS];
	/* Counters of launches that can be stopped (run.h): those that were used, and those that
	 * are put in order, until cleaned; codes.run_lock. */
	uint16_t dirty[PTX_PERSIST_SLOTS], cleaning[PTX_PERSIST_SLOTS];
	unsigned n_dirty, n_cleaning, next_slot;
	struct dev_event *cleaned; /* NULL: not made yet */
	struct reason *reasons;    /* name NULL: that was the last one */
	/* Functions that are the program's, in the module's order; NULL: nobody has asked. */
	unsigned *functions, n_functions;
};

/* A kernel that has a copy. */
struct kernel {
	struct dev_func *copy;
	struct code *code;
	size_t params_size;
	bool rows; /* the copy is for blocks whose warps have a row each */
	uint64_t thread_bytes;     /* kept of a thread at yield points; 0: it has none */
	_Atomic uint64_t block_ps; /* picoseconds that a block takes; 0: nobody knows */
	_Atomic uint64_t fits; /* blocks on an SM, with what they were counted for */
	_Atomic uint64_t blocks; /* of grids that were launched, in either form */
	/* On an SM, of a grid that fits at once; 0: that was none, when one was last launched. */
	_Atomic unsigned fixed;
	uint64_t blocks_seen; /* by who looked for the busiest last; codes.lock */
	/* Launches that are timed, of codes.mode REWRITE_AUTO. */
	_Atomic unsigned verdict; /* enum cost_verdict */
	_Atomic bool timed;       /* there are no more */
	_Atomic bool beside; /* by such beside others' kernels: until there are others */
	struct trial {            /* codes.trial_lock */
		struct cost cost;
		struct dev_event *from, *to; /* NULL: not made yet */
		bool runs;
		unsigned form;
		uint64_t blocks;
	} trial;
};

/* Resources of an SM; 0: nobody says. */
struct device_sm {
	int threads, registers, shared, blocks;
	int reserved_shared; /* for each block beside its own */
};

/* A stream, in codes.streams. */
struct known_stream {
	struct dev_ctx *ctx;
	bool blocking; /* in order with the legacy one */
};

/* As device_ops.forms() tells of it, and the kernel as long as its module is there. */
struct form {
	struct device_form is;
	const struct kernel *kernel;
};

struct codes {
	const struct device_ops *under;
	enum rewrite_mode mode;
	bool yields; /* copies have yield points */
	unsigned n_sms, sm;
	struct device_sm sm_has;
	pthread_mutex_t lock; /* of whoever loads, unloads and looks up */
	pthread_mutex_t trial_lock; /* inside it; nobody waits for it who launches */
	/* As device_ops.limit() has it; NULL: 0. */
	const _Atomic uint64_t *limit;
	struct list all;
	struct table modules, kernels; /* dev_module: code; dev_func: kernel */
	struct table links;            /* dev_link without an input yet: itself */
	struct table
		left; /* dev_func without a copy, of a module that has some: its code */
	struct table contexts, streams; /* dev_ctx: itself; dev_stream: known_stream */
	struct form forms[DEV_FORMS_MAX];
	unsigned n_forms;
	_Atomic uint64_t kernels_seen, copies, launches; /* struct device_rewrites */
	_Atomic uint64_t others; /* launches of what has no copy, while some have */
	uint64_t others_seen;    /* at the last look (busiest.c) */

	pthread_mutex_t run_lock; /* of all below: run.h, stop.c; not with another lock */
	struct list runs, spare_runs, areas;
	unsigned n_runs;            /* in runs, and about to be */
	struct table words_streams; /* dev_ctx: dev_stream in which words are written */
	bool blind;    /* a stream or context is not in the tables; codes.lock */
	bool held;     /* hold(), and nobody has said to go on since */
	bool minds, has_minder, closing;
	pthread_t minder;
};

/* A process has one device, whose operations are given nothing of their own. */
extern struct codes codes;

CUresult code_load(struct dev_ctx *ctx, const void *image, size_t size,
		   struct dev_jit *jit, struct dev_module **ret_module);
CUresult code_load_library(struct dev_ctx *ctx, const void *image, size_t size,
			   struct dev_jit *jit, struct dev_module **ret_module);
void code_unload(struct dev_module *mod);
CUresult code_function(struct dev_module *mod, const char *name,
		       struct dev_func **ret_func);
CUresult code_function_at(struct dev_module *mod, unsigned index,
			  struct dev_func **ret_func, const char **ret_name);
CUresult code_function_count(struct dev_module *mod, unsigned *ret_n);
CUresult code_global(struct dev_module *mod, const char *name, CUdeviceptr *ret_addr,
		     size_t *ret_size);

/* Machine code that comes of one input has copies, too; load() knows it again. */
CUresult code_link_create(struct dev_ctx *ctx, const struct dev_jit *jit,
			  struct dev_link **ret_link);
CUresult code_link_add(struct dev_link *link, CUjitInputType type, const void *data,
		       size_t size, const char *name, struct dev_jit *jit);
void code_link_destroy(struct dev_link *link);

/* Begins to time a launch of a grid of so many blocks, in the form that it returns; COST_FORMS: it
 * is not timed. Times beside others' kernels hold until there are some without. What was begun is
 * ended when it was launched, or came to nothing (ran false). */
unsigned trial_begin(struct kernel *k, struct dev_ctx *ctx, struct dev_stream *st,
		     uint64_t blocks, bool beside);
void trial_end(struct kernel *k, struct dev_ctx *ctx, struct dev_stream *st, bool ran);
/* The kernel is no more, its context is still there. */
void trial_drop(struct kernel *k);

/* Blocks that were found to run at once on an SM, and of which launch. */
void fits_of(const struct kernel *k, unsigned *ret_threads, unsigned *ret_shared,
	     unsigned *ret_blocks);
/* Notes a kernel with a copy, and why a loop of that has no yield point ("": all have one, or none
 * is to), or why it has no copy. With codes.lock. */
void form_add_locked(const char *name, struct kernel *k, const char *why);
/* The kernel is no more. With both locks. */
void form_drop_locked(const struct kernel *k);
/* As device_ops.forms. */
unsigned forms(struct device *dev, struct device_form *ret);
/* As device_ops.busiest. */
bool busiest(struct device *dev, struct device_kernel *ret);

/* As device_ops.limit() has it by now; and of so many blocks on an SM, those that a kernel is to
 * take then, 1 at least. */
uint64_t permille_now(void);
unsigned limited(unsigned room, uint64_t permille);

/* Address of the counter that launches in a stream have; 0: there are no more. */
CUdeviceptr code_control(struct code *c, const struct dev_stream *st);
/* A counter for one launch; 0: there are no more. With codes.run_lock. */
CUdeviceptr code_control_free(struct code *c, unsigned *ret_slot);
/* A stream ends. */
void code_forget_stream(const struct dev_stream *st);
/* Takes the modules of a context that is to end, or of all (NULL), to code_drop() afterwards. */
void code_take(const struct dev_ctx *ctx, struct list *ret_taken);
void code_drop(struct list *taken);
/* The device has ended. */
void code_end(void);

#endif
