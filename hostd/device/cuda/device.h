/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real GPU: what the files of device_cuda_ops share. Thin where the driver does what
 * the contract asks; what is added here is the band, the check of addresses before copies
 * (a guest's "device address" must never be a host address of this process), host
 * functions that do not hold a driver thread, and catching what kernels print.
 *
 *	driver.c	loads libcuda.so.1
 *	cuda.c		open, close, contexts, the table
 *	enter.c		which context is current, what it was lost with
 *	memory.c	band, allocations	copy.c	copies and fills
 *	host.c	host memory of the guest
 *	stream.c	streams, events, host functions
 *	module.c	images, functions	image.c	checks of images
 *	jit.c	options, logs		link.c	linking
 *	launch.c	attributes of functions, launches
 *	batch.c	many launches at once
 *	completion.c	work that is done, told by the device
 *	digest.c	whether memory has changed
 *	output.c	printf of kernels	array.c	arrays
 *	texture.c	textures, surfaces, tensor maps
 *	nvml.c	sensors, utilisation
 *	tpc.c	where the TPCs are	mask.c	which of them kernels run on
 *	rm/rm.c	what libcuda asks the kernel for, on its way there
 *	rm/tsg.c	turns on the copy engines
 *	rm/freezer.c	channels off the GPU	freeze/freeze.c	kernels that stand still
 *	rm/hostpage.c	pages of host memory
 *	graph.c	graphs		graph_node.c what a node is
 */
#ifndef WEFT_DEVICE_CUDA_DEVICE_H
#define WEFT_DEVICE_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/macros.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "util/range.h"
#include "device/tally.h"

/* Host functions that may be under way in a context. */
#define CUDA_HOST_SLOTS 16384
/* Graphs of each size that launches go through, hence of batches under way. */
#define CUDA_BATCHES     8
#define CUDA_BATCH_SIZES 3

/* Why kernels stand still, if they do, and how many calls of the driver keep them from it. */
struct cuda_still {
	pthread_mutex_t lock; /* taken before any other of ours */
	pthread_cond_t changed;
	unsigned n_thawed;
	bool frozen, preempted;
};

struct cuda_output {
	int file;  /* what stdout is now; -1: not caught */
	int saved; /* what stdout was */
	pthread_mutex_t lock;
	uint64_t seen; /* bytes of file handed on */
};

struct device {
	CUdevice cu;
	struct device_config cfg;
	struct device_info info;
	/* Contexts and host memory come and go one at a time: held in the driver's calls,
	 * which may wait for a launch that waits for a host function. Taken before: */
	pthread_mutex_t making;
	/* All below; not held in calls that may wait, but in asking whether a stream has work,
	 * which may wait for such a launch. */
	pthread_mutex_t lock;
	struct range_set reserved; /* of the band */
	struct range_set mapped;   /* data: its CUmemAccess_flags */
	struct range_set globals;  /* variables of modules, outside the band */
	struct range_set host;     /* host memory of the guest */
	bool own_band;             /* the band is reserved with the driver */
	/* Memory of that kind cannot be given to other processes. */
	_Atomic bool no_export[DEV_MEMORY_KINDS];
	bool own_host;     /* its host part is reserved in this process */
	bool writes_words; /* of 64 bits, in the order of a stream */
	unsigned sm;       /* compute capability: 90 is 9.0 */
	/* With `making`: a context of ours is the primary one; that stays when it is not. */
	bool primary_used, primary_kept;
	struct list contexts;
	uint64_t last_ctx; /* with `making` */
	/* Host functions and the slots of contexts: held in no call of the driver, for any may
	 * wait for a launch that waits for a host function. A leaf. */
	pthread_mutex_t host_lock;
	struct list host_ops; /* struct host_op, not done */
	uint64_t last_token;
	struct cuda_still still;
	struct cuda_output output;
	struct tally created, imports; /* bytes of each kind; any thread */
	struct cuda_nvml *nvml;       /* NULL: the host's NVML is not there */
	/* TPCs that kernels run on, 0: all; and those of one GPC, at most. */
	_Atomic unsigned tpcs, tpcs_in_gpc;
	struct dev_tpc_map tpc_map; /* before the first stream; n 0: nobody has said */
};

/* Graphs of one size, see batch.c. */
struct cuda_batches {
	struct batch_graph *graphs[CUDA_BATCHES];
	unsigned n, next;
};

/* The last run of kernels of a stream, see freeze/freeze.h. */
struct cuda_run {
	_Atomic bool others; /* there is something else behind it */
	_Atomic bool since_set, until_set;
	CUevent since, until; /* made with device.lock */
	_Atomic size_t taken; /* bytes of the host's that it may not have got to yet */
};

struct dev_ctx {
	struct device *dev;
	struct list link; /* device.contexts */
	CUcontext cu;
	bool primary;
	uint64_t id;            /* never reused, unlike cu */
	_Atomic int status;     /* CUresult; once lost, for ever */
	_Atomic bool may_print; /* code is in use that names printf */
	struct list streams, events, modules;
	struct list graveyard; /* graphs destroyed in a launch, see graph.c */
	uint32_t *slots;       /* pinned: streams wait for them, see stream.c */
	CUdeviceptr slots_addr;
	struct range_set pages; /* with device.making: completion.c */
	unsigned next_slot;     /* with device.host_lock, as the next two */
	uint32_t slot_used[CUDA_HOST_SLOTS]; /* waits queued on the slot so far */
	bool slot_busy[CUDA_HOST_SLOTS];
	_Atomic bool legacy_alone;  /* as dev_stream.alone */
	struct cuda_run run;        /* the legacy stream's */
	_Atomic unsigned unknown, known;
	pthread_mutex_t batch_lock; /* all below; a leaf */
	struct cuda_batches batches[CUDA_BATCH_SIZES];
	unsigned batches_seen, batches_hasty, batches_turn;
	struct cuda_digest {
		CUfunction fn; /* NULL: nothing is there yet */
		CUdeviceptr totals;
	} digest; /* of one thread */
};

struct dev_stream {
	struct dev_ctx *ctx;
	struct list link;
	CUstream cu;
	_Atomic bool alone; /* has attributes, which launches in graphs would not have */
	bool kept;          /* its kernels run on some TPCs only */
	uint64_t tpcs[2];
	struct cuda_run run;
};

struct dev_array {
	struct dev_ctx *ctx;
	struct array_shape shape;
	CUarray cu; /* or, if it has levels: */
	CUmipmappedArray mip;
};

struct dev_event {
	struct dev_ctx *ctx;
	struct list link;
	CUevent cu;
};

/*
 * Makes ctx current on the calling thread. Returns what the context was lost with, if it
 * was.
 */
CUresult cuda_enter(struct dev_ctx *ctx);

/* The driver has made another context, or none, current on the calling thread. */
void cuda_leave(void);

/* Takes note if res means that the context is lost; returns res. */
CUresult cuda_note(struct dev_ctx *ctx, CUresult res);

static inline CUstream cuda_stream_of(struct dev_stream *st)
{
	return st ? st->cu : CU_STREAM_LEGACY;
}

/* Around what may wait for kernels with locks of the driver's held, before any lock of ours: they
 * do not stand still meanwhile. Not for what moves memory, on whose thread they do. */
#define cuda_scoped_thawed(dev)                                                          \
	_cleanup_(cuda_thawed_endp) struct device *_thawed __attribute__((unused)) =     \
		cuda_thawed_begin(dev)
struct device *cuda_thawed_begin(struct device *dev);
void cuda_thawed_endp(struct device **dev);

#endif
