/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU as a worker needs it: tables of functions, one for each kind of thing (stream.h,
 * module.h, ...) and in this header the whole. Two devices implement them: cuda (the real
 * driver, loaded with dlopen) and soft (no GPU: PTX executed on the CPU).
 *
 * Functions return a CUresult, which is data for the guest: CUDA_SUCCESS or the code that
 * CUDA documents for the case. Outputs are written only on success. Handles that a caller
 * passes in are valid (the session checks a guest's handles before it gets here);
 * addresses, sizes, names, images and dimensions are not and are checked by the device.
 *
 * Threads: every function may be called by several threads at once. A function that waits
 * for the device (copies with a host buffer, those called synchronize(), ctx.destroy())
 * blocks only its caller. close() is called last and alone.
 *
 * Streams: a stream argument is a struct dev_stream; NULL means the context's legacy
 * default stream, with CUDA's implicit synchronisation against the context's blocking
 * streams. Per-thread default streams are ordinary blocking streams to a device; the
 * session makes one for each guest thread.
 *
 * After a kernel has faulted the context is lost: every function that takes something of
 * that context returns the same code from then on (CUDA's sticky errors).
 */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include "device/array.h"
#include "device/copy.h"
#include "device/ctx.h"
#include "device/event.h"
#include "device/func.h"
#include "device/graph.h"
#include "device/handles.h"
#include "device/link.h"
#include "device/memory.h"
#include "device/module.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "device/texture.h"
#include "sensor.h"

#define DEVICE_OPS_ABI 4u

/* Sensors are read no more often than this: a guest may ask all the time. */
#define SENSORS_FRESH_NS 100000000ull

/* A kernel that has run. */
struct dev_ran {
	uint32_t traced, track; /* of its launch */
	uint64_t blocks, begin_ns, end_ns;
};

struct device_config {
	/* soft only; 0 means the default of soft/soft.h */
	unsigned tpcs;          /* two SMs each */
	uint64_t memory_bytes;  /* size of the device memory */
	unsigned granularity;   /* granularity: a power of two from 128 KiB; 0: 2 MiB */
	unsigned threads;       /* host threads that execute kernels; 0: all cores */
	unsigned index;         /* cuda: ordinal of the device */
	/* soft: the file of its runlist (soft/runlist.h), which stays the caller's; 0: none. */
	int runlist_fd;
	uint8_t uuid[16];       /* soft: the device's UUID */
	/* Kernels run side by side with those of all processes that are shared, in turns with
	 * others'; a fault of one of them is all of theirs. */
	bool shared;
	const char *mps; /* cuda, shared: where the control daemon of MPS listens */

	/*
	 * Called with what kernels printed, in order, at the points where CUDA flushes
	 * (synchronising calls, module unload, context destruction) from the thread that
	 * made that call. Text is not NUL-terminated.
	 */
	void (*output)(void *arg, const char *text, size_t size);
	void *output_arg;

	/*
	 * Called with output_arg when a kernel has run whose launch is traced, and when it
	 * was running, in clock_now_ns(); from any thread, and is not to wait. Devices that
	 * do not know call nothing. NULL: nobody asks.
	 */
	void (*ran)(void *arg, const struct dev_ran *r);
};

struct device_rewrites {
	uint32_t version;  /* of the forms; 0: none are made */
	uint64_t kernels;  /* with PTX, of images that were looked into */
	uint64_t copies;   /* of them that have a second form */
	uint64_t launches; /* of those */
};

/* Resources that an SM has, and blocks take. */
enum {
	DEV_SM_THREADS,
	DEV_SM_REGISTERS,
	DEV_SM_SHARED,
	DEV_SM_BLOCKS, /* how many there may be */
	DEV_SM_RESOURCES
};

#define DEV_SM_PARTS     1000000u /* all that an SM has of one */
#define DEV_KERNEL_PARTS 4u

#define DEV_BLOCKS_PLAIN 2000u

/* A kernel with a second form. */
struct device_kernel {
	uint32_t blocks;                 /* of it that an SM has room for */
	uint32_t need[DEV_SM_RESOURCES]; /* of each block, in DEV_SM_PARTS */
	bool fixed;                      /* its grids have no more than these */
	/* Per mille of its speed while an SM has i + 1 of DEV_KERNEL_PARTS of these blocks; 0:
	 * not known. */
	uint32_t speed[DEV_KERNEL_PARTS];
};

/* Answers of stop(). */
enum device_rest {
	DEVICE_REST_NONE, /* nothing was stopped: whatever runs is waited for as always */
	DEVICE_REST_STOPPED,   /* some kernels are, and the device is quiet */
	DEVICE_REST_CANCELLED, /* by go_on() */
};

#define DEV_FORMS_MAX 16u

/* A kernel that was looked up, and what became of it. */
struct device_form {
	char name[64];
	char why[64]; /* it runs as it is; empty: its second form is used */
	char no_yield
		[64]; /* a loop of that form cannot stop; empty: none is to, or all can */
	unsigned
		cost; /* time that form takes, per mille of the first one's; 0: not timed */
};

/* A process and what it has of the device. */
struct device_holder {
	uint64_t pid, bytes;
};

#define SOFT_DEVICE_NAME "Weft software GPU"

struct device_info {
	char name[96]; /* as cuDeviceGetName; SOFT_DEVICE_NAME is no other's */
	uint8_t uuid[16];
	uint64_t memory_bytes;
	int driver_version;   /* as cuDriverGetVersion: 13000 */
	char driver[80];      /* the driver's own version, as nvidia-smi shows it */
	unsigned granularity; /* granularity of allocations: 2 MiB on a GPU */
	unsigned n_sms;
};

#define DEV_TPCS_MAX 256

struct dev_tpc_map {
	unsigned n;                  /* TPCs */
	/* Bytes for each, in the order of its SMs: the GPC it belongs to, its number within
	 * that, and its bit (struct dev_tpcs), which find_tpcs() alone fills in. */
	uint8_t gpc[DEV_TPCS_MAX], index[DEV_TPCS_MAX], bit[DEV_TPCS_MAX];
};

/* A set of TPCs. */
struct dev_tpcs {
	uint64_t bits[2];  /* in the device's own numbers */
	unsigned n;        /* how many; 0: all, whatever the rest says */
	unsigned n_in_gpc; /* of one GPC, at most: a cluster lies within one */
};

/* Returns those TPCs of a set that have these places in it, in the order of the map, of at
 * most 128; the set if it has none of them. */
struct dev_tpcs dev_tpcs_pick(const struct dev_tpc_map *map, const struct dev_tpcs *set,
			      const uint64_t places[2]);

struct device_ops {
	uint32_t abi; /* DEVICE_OPS_ABI */
	const char *name;

	/* Returns 0, -ENODEV (no such device here), -ENOMEM, -EINVAL, or -EBUSY (the band
	 * is taken: one device at a time in a process). */
	int (*open)(const struct device_config *cfg, struct device **ret_dev);
	/* Ends what still runs; frees contexts that were not destroyed. */
	void (*close)(struct device *dev);
	void (*info)(struct device *dev, struct device_info *ret_info);
	CUresult (*attribute)(struct device *dev, CUdevice_attribute attr,
			      int *ret_value);
	/* Where the TPCs (pairs of SMs) are, as libraries ask to place clusters. */
	CUresult (*tpc_map)(struct dev_ctx *ctx, struct dev_tpc_map *ret_map);
	/* Finds that, and the bits that run_on() wants. CUDA_ERROR_NOT_SUPPORTED: it has none
	 * that kernels can be kept to. Runs kernels of its own, 0.1 s: before all others. */
	CUresult (*find_tpcs)(struct dev_ctx *ctx, struct dev_tpc_map *ret_map);
	/* Has kernels of this process run on these TPCs only, from the next launch on; the
	 * SMs that a program is told of are theirs. What cannot run there is refused:
	 * clusters, and cooperative launches. Returns false if that cannot be. NULL where
	 * find_tpcs is. Any thread. */
	bool (*run_on)(struct device *dev, const struct dev_tpcs *tpcs);
	/* Tells what find_tpcs() has found in another process, for streams that are kept to
	 * some; before their first. NULL where nothing has to be known. */
	void (*know_tpcs)(struct device *dev, const struct dev_tpc_map *map);

	/* Bytes of device memory that this process has taken so far; with nothing
	 * allocated, what contexts take. Slow. The soft device takes none: 0. */
	uint64_t (*overhead)(struct device *dev);
	/* Bytes of device memory that this process has now beside that of allocations:
	 * contexts, code, arrays, whatever else. At least and at most: other threads may
	 * make and release allocations meanwhile, which this does not hold up. False:
	 * nobody says. Slow: half a millisecond. */
	bool (*footprint)(struct device *dev, uint64_t *ret_least, uint64_t *ret_most);
	/*
	 * Lists the bytes that each process has of the device, at most n processes.
	 * Returns how many; 0: nobody says. NULL: the device is memory of the process's
	 * own. Slow.
	 */
	unsigned (*holders)(struct device *dev, struct device_holder *ret, unsigned n);

	/* Time with at least one kernel of this process running, and time in which memory
	 * was read or written; 0 where that is not known. May lag by a second. */
	uint64_t (*busy_ns)(struct device *dev, uint64_t *ret_memory_ns);
	/* Tells for how long this process has had the device, ever: one that nobody else's work
	 * displaces may keep it with nothing to do. Returns false while that is not known. NULL:
	 * it never is. One thread. */
	bool (*had_ns)(struct device *dev, uint64_t *ret_ns);
	/* Whether work of this process waits or runs. NULL: nobody says. Any thread. */
	bool (*pending)(struct device *dev);
	/* Says for how many microseconds at a stretch this process has the device, while
	 * others want it too; 0: as at first. Returns false if it has not changed. NULL: the
	 * device does not go round. Slow: a third of a millisecond. Any thread. */
	bool (*slice)(struct device *dev, uint32_t us);
	/*
	 * Has kernels of this process stand still, at whatever instruction, until thaw(). Memory
	 * may be mapped elsewhere meanwhile: they go on with what is there then. Copies between
	 * the device and host memory are done; what else is queued meanwhile may wait for thaw().
	 * False: nothing has changed; they cannot, or something else than kernels may be at work.
	 * One thread, while nobody submits; 0.4 ms on an H200. NULL: they never can.
	 */
	bool (*freeze)(struct device *dev);
	void (*thaw)(struct device *dev);
	/* Takes kernels of this process off the device, at whatever instruction, and keeps them off
	 * (on), or no longer; copies go on. They may be frozen meanwhile, and preempted again only
	 * when they are not. Returns whether they are kept off. One thread, which may be another
	 * than freeze()'s; as slow. NULL where freeze is. */
	bool (*preempt)(struct device *dev, bool on);
	/* Has this process want the device all the time, or no longer, and do nothing with it:
	 * for one that serves nobody. Returns false if it has not changed. NULL: it cannot.
	 * One thread; may wait for some milliseconds. */
	bool (*filler)(struct dev_ctx *ctx, bool on);
	/* Counts kernels that could have a second form (rewrite/rewrite.h). NULL: none do. */
	void (*rewrites)(struct device *dev, struct device_rewrites *ret);
	/* The kernel with a second form that has done most since it was asked last; blocks 0: that
	 * form is not used, or only others were launched. Returns false if nothing was. NULL: none
	 * have such a form. One thread. */
	bool (*busiest)(struct device *dev, struct device_kernel *ret);
	/* Lists such kernels, DEV_FORMS_MAX at most and always the first ones, of modules that
	 * are gone, too. Returns how many. NULL where busiest is. One thread. */
	unsigned (*forms)(struct device *dev, struct device_form *ret);
	/* Has those that run in their second form have as many blocks as limit() says by now; for
	 * some that is at the next time. One thread; waits for nothing that takes long. NULL where
	 * busiest is. */
	void (*resize)(struct device *dev);
	/* Kernels that run in their second form may be stopped from now on, until go_on(). Any
	 * thread. NULL where busiest is. */
	void (*hold)(struct device *dev);
	/* Stops them where that can be, unless go_on() was called since hold() or is meanwhile, and
	 * waits until nothing of this process runs. Their streams stand still. One thread, while
	 * nobody submits. NULL where busiest is. */
	enum device_rest (*stop)(struct device *dev);
	/* Any thread. NULL where busiest is. */
	void (*go_on)(struct device *dev);
	/* Where it stands how many of the blocks that an SM has room for kernels with a second
	 * form are to take, per mille, from 1000 on all; 0: all, and nobody else's run at once;
	 * DEV_BLOCKS_PLAIN: kernels run in their first form.
	 * Looked at with each launch, and by resize(). NULL where busiest is. */
	void (*limit)(struct device *dev, const _Atomic uint64_t *permille);
	/* By enum sensor; what the device does not tell is SENSOR_NONE. Of the whole
	 * device, at most SENSORS_FRESH_NS old. */
	void (*sensors)(struct device *dev, uint32_t ret_value[SENSOR_NUM]);

	/* Part of this structure: a call costs one load, as those above. */
	struct device_ctx_ops ctx;
	struct device_memory_ops memory;
	struct device_copy_ops copy;
	struct device_array_ops array;
	struct device_texture_ops texture;
	struct device_tensor_ops tensor;
	struct device_stream_ops stream;
	struct device_event_ops event;
	struct device_module_ops module;
	struct device_func_ops func;

	/* NULL: the device links what module.load() is given. */
	const struct device_link_ops *link;
	/* NULL: the device has no graphs; graph/exec.c spreads the nodes over streams. */
	const struct device_graph_ops *graph;
};

/* n launches as func.launch_batch() has them, one after the other: all, at once as far as
 * the device can. Returns the first failure, which does not keep the others from being
 * launched. */
static inline CUresult device_launch(const struct device_ops *ops, struct dev_ctx *ctx,
				     struct dev_stream *st, const struct dev_launch *l,
				     unsigned n)
{
	unsigned i = n > 1 && ops->func.launch_batch
			     ? ops->func.launch_batch(ctx, st, l, n)
			     : 0;
	CUresult first = CUDA_SUCCESS;

	for (; i < n; i++) {
		CUresult r = ops->func.launch(ctx, st, &l[i]);

		first = first ? first : r;
	}
	return first;
}

extern const struct device_ops device_soft_ops;
extern const struct device_ops device_cuda_ops;

/* "soft", "cuda" or "auto" (cuda where a driver can be loaded). NULL if unknown. */
const struct device_ops *device_ops_by_name(const char *name);

/*
 * Why no driver of a real GPU was loaded, in words, or NULL if none was tried or one was.
 * Static; for the thread that tried.
 */
const char *device_cuda_why(void);

/* Takes the guest library for a driver, too: for tests, before a device is opened. */
extern bool device_cuda_nests;

#endif
