/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU as a worker needs it: a table of functions. Two devices implement it: cuda (the
 * real driver, loaded with dlopen) and soft (no GPU: PTX executed on the CPU).
 *
 * Functions return a CUresult, which is data for the guest: CUDA_SUCCESS or the code that
 * CUDA documents for the case. Outputs are written only on success. Handles that a caller
 * passes in are valid (the session checks a guest's handles before it gets here);
 * addresses, sizes, names, images and dimensions are not and are checked by the device.
 *
 * Threads: every function may be called by several threads at once. A function that waits
 * for the device (the copies with a host buffer, *_synchronize, ctx_destroy) blocks only
 * its caller. close() is called last and alone.
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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "sensor.h"
#include "shape.h"

#define DEVICE_OPS_ABI 1u

/* Sensors are read no more often than this: a guest may ask all the time. */
#define SENSORS_FRESH_NS 100000000ull

/*
 * All device addresses of a worker lie in this band (but for the variables of modules on
 * the real GPU, which are where the driver puts them). The guest library reserves the
 * same range, so a device address never looks like a host one and pinned memory can have
 * one address on both sides. It is clear of what Linux, ASan and the driver use on
 * x86-64.
 */
#define DEVICE_BAND_BASE 0x200000000000ull
#define DEVICE_BAND_SIZE 0x080000000000ull /* 8 TiB */

/*
 * The part of the band for host memory that guest and device share, 6 TiB from its start:
 * mapped at the same address in the guest, in the worker and on the device. No device
 * memory lies there.
 */
#define DEVICE_HOST_BASE  (DEVICE_BAND_BASE + 0x060000000000ull)
#define DEVICE_HOST_SIZE  0x010000000000ull /* 1 TiB */
#define DEVICE_HOST_GRAIN (64ull << 10)     /* regions begin at multiples of this */

struct device;  /* one GPU as one process sees it */
struct dev_ctx; /* a context */
struct dev_stream;
struct dev_event;
struct dev_module; /* a loaded image: cubin, PTX, fatbin (CUmodule and CUlibrary alike) */
struct dev_func;   /* an entry function of a module; lives as long as the module */
struct dev_link;   /* code being linked */
struct dev_chunk;  /* physical memory that can be mapped into the band */
struct dev_array;  /* a CUDA array, or a mipmapped one with all its levels */
struct dev_texture; /* a texture or surface object */
struct dev_graph;   /* an executable graph; device/graph.h */
struct dev_graph_desc;
struct dev_node;
struct dev_shell;

struct device_config {
	/* soft only; 0 means the default of soft/soft.h */
	unsigned tpcs;          /* two SMs each */
	uint64_t memory_bytes;  /* size of the device memory */
	unsigned chunk_bytes;   /* granularity: a power of two from 128 KiB; 0: 2 MiB */
	unsigned threads;       /* host threads that execute kernels; 0: all cores */
	unsigned index;         /* cuda: ordinal of the device */
	uint64_t time_slice_ns; /* soft: unused until compute sharing */
	uint8_t uuid[16];       /* soft: the device's UUID */

	/*
	 * Called with what kernels printed, in order, at the points where CUDA flushes
	 * (synchronising calls, module unload, context destruction) from the thread that
	 * made that call. Text is not NUL-terminated.
	 */
	void (*output)(void *arg, const char *text, size_t size);
	void *output_arg;
};

/* Kinds of physical memory. */
enum dev_memory {
	DEV_MEMORY_DEVICE,
	DEV_MEMORY_HOST,
	/* The device's, compressed where the data allows it. A wish: a device that cannot
	 * do so, or has no more room for it, gives plain memory. */
	DEV_MEMORY_COMPRESSIBLE,
	DEV_MEMORY_KINDS
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
	unsigned chunk_bytes; /* granularity of chunk_create: 2 MiB on a GPU */
	unsigned n_sms;
};

#define DEV_TPCS_MAX 256

struct dev_tpc_map {
	unsigned n;                  /* TPCs */
	uint8_t index[DEV_TPCS_MAX]; /* of each, within its GPC */
	uint8_t gpc[DEV_TPCS_MAX];   /* which GPC it belongs to */
};

/* One kernel parameter, as cuFuncGetParamInfo gives it. */
struct dev_param {
	uint32_t offset;
	uint32_t size;
};

/* An attribute of a launch, CU_LAUNCH_ATTRIBUTE_*; value without its event. */
struct dev_launch_attr {
	CUlaunchAttributeID id;
	CUlaunchAttributeValue value;
	struct dev_event *event; /* of the two that name one */
};

#define DEV_LAUNCH_ATTRS_MAX 16

/* Launches that a device may be given at once. */
#define DEV_BATCH_MAX 16

struct dev_launch {
	struct dev_func *func;
	unsigned grid[3], block[3];
	unsigned cluster[3];   /* 0,0,0: none, or what the function was compiled with */
	unsigned shared_bytes; /* dynamic shared memory */
	bool cooperative;
	/* Others than cluster and cooperative. A device may ignore hints; an event has to
	 * be recorded, at the latest when the kernel has ended. */
	const struct dev_launch_attr *attrs;
	unsigned n_attrs;   /* at most DEV_LAUNCH_ATTRS_MAX */
	const void *params; /* the parameter buffer as the kernel sees it */
	size_t params_size; /* exactly to the end of the last parameter */
};

/* An operation of CUstreamBatchMemOpParams. */
struct dev_mem_op {
	CUstreamBatchMemOpType op;
	unsigned flags;
	CUdeviceptr addr;
	uint64_t value;
};

#define DEV_MEM_OPS_MAX 256

/* A copy of rows; a plain copy has height 1. Bytes throughout. */
struct dev_copy_2d {
	CUdeviceptr dst, src;
	size_t dst_pitch, src_pitch;
	size_t width, height;
};

/* A box in one level of an array: bytes in x and width, else rows and slices. */
struct dev_box {
	struct dev_array *array;
	unsigned level;
	size_t x, y, z, width, height, depth;
};

/* Device memory as rows and slices; bytes. */
struct dev_slices {
	CUdeviceptr addr; /* of the first byte */
	size_t pitch, slice;
};

/* One side of a copy on the device: memory if box.array is NULL. */
struct dev_side {
	struct dev_box box; /* extents: of dst only */
	struct dev_slices memory;
};

struct dev_copy_3d {
	struct dev_side dst, src;
};

/* Source and sampling of a texture; cuda.h has the meaning of the numbers. */
struct dev_texture_desc {
	struct dev_array *array; /* NULL: memory */
	bool is_level;           /* only this level of it */
	unsigned level;
	CUdeviceptr addr;
	size_t width, height, pitch; /* elements, rows, bytes; pitch 0: linear, bytes */
	CUarray_format format;
	unsigned channels;
	CUDA_TEXTURE_DESC sampler;
	bool has_view;
	CUDA_RESOURCE_VIEW_DESC view;
};

#define DEV_TENSOR_RANK_MAX 5

enum dev_tensor_map_kind {
	DEV_TENSOR_MAP_TILED,
	DEV_TENSOR_MAP_IM2COL,
	DEV_TENSOR_MAP_IM2COL_WIDE,
};

/* Arguments of cuTensorMapEncode*, all checked by the device. Numbers as in cuda.h. */
struct dev_tensor_map {
	enum dev_tensor_map_kind kind;
	unsigned data_type, rank, interleave, swizzle, l2_promotion, oob_fill;
	unsigned mode; /* wide */
	CUdeviceptr address;
	cuuint64_t dim[DEV_TENSOR_RANK_MAX];
	cuuint64_t stride[DEV_TENSOR_RANK_MAX - 1];
	cuuint32_t box[DEV_TENSOR_RANK_MAX]; /* tiled; else channels, pixels */
	cuuint32_t element_stride[DEV_TENSOR_RANK_MAX];
	int lower[DEV_TENSOR_RANK_MAX - 2], upper[DEV_TENSOR_RANK_MAX - 2];
};

/* A CU_JIT_* option whose value is a number. */
struct dev_jit_option {
	CUjit_option option;
	unsigned value;
};

#define DEV_JIT_OPTIONS_MAX 24

/* Options and results of loading an image, after CU_JIT_*. Buffers are the caller's. */
#define DEV_TARGETS_BYTES 32

struct dev_jit {
	char *info_log, *error_log;   /* may be NULL */
	size_t info_size, error_size; /* in: room; out: bytes written with the NUL */
	unsigned max_registers;       /* 0: no limit */
	int optimization_level;       /* 0 to 4 */
	bool verbose, line_info, debug;
	/* Others; a device may ignore them. At most DEV_JIT_OPTIONS_MAX. */
	const struct dev_jit_option *options;
	unsigned n_options;
	float wall_time_ms; /* out */
	/* out: for which GPUs an image is that has no code for this one ("sm_90"); empty
	 * if it has, or if the device does not say */
	char no_code[DEV_TARGETS_BYTES];
};

enum dev_stream_flag {
	DEV_STREAM_NON_BLOCKING = 1, /* no implicit order with the legacy stream */
};

struct device_ops {
	uint32_t abi; /* DEVICE_OPS_ABI */
	const char *name;

	/* Returns 0, -ENODEV (no such device here), -ENOMEM, -EINVAL, or -EBUSY (the band
	 * is taken: one device at a time in a process). */
	int (*open)(const struct device_config *cfg, struct device **ret_dev);
	/* Ends what still runs; frees contexts that were not destroyed. */
	void (*close)(struct device *dev);
	void (*info)(struct device *dev, struct device_info *ret_info);

	/* Bytes of device memory that this process has taken so far; with nothing
	 * allocated, what contexts take. Slow. The soft device takes none: 0. */
	uint64_t (*overhead)(struct device *dev);
	/* Bytes of device memory that this process has now beside chunk_create()'s:
	 * contexts, code, arrays, whatever else. At least and at most: other threads may
	 * make and release chunks meanwhile, which this does not hold up. False: nobody
	 * says. Slow: half a millisecond. */
	bool (*footprint)(struct device *dev, uint64_t *ret_least, uint64_t *ret_most);

	/*
	 * Lists the bytes that each process has of the device, at most n processes.
	 * Returns how many; 0: nobody says. NULL: the device is memory of the process's
	 * own. Slow.
	 */
	unsigned (*holders)(struct device *dev, struct device_holder *ret, unsigned n);

	/* -- device -- */
	CUresult (*attribute)(struct device *dev, CUdevice_attribute attr,
			      int *ret_value);

	/* -- contexts -- */
	CUresult (*ctx_create)(struct device *dev, unsigned flags,
			       struct dev_ctx **ret_ctx);
	/* Waits for the context's work, then frees all that was made in it. */
	void (*ctx_destroy)(struct dev_ctx *ctx);
	CUresult (*ctx_synchronize)(struct dev_ctx *ctx);
	CUresult (*ctx_get_limit)(struct dev_ctx *ctx, CUlimit limit, size_t *ret_value);
	CUresult (*ctx_set_limit)(struct dev_ctx *ctx, CUlimit limit, size_t value);
	/* Device memory that a limit of that value takes at most. */
	uint64_t (*ctx_limit_bytes)(struct dev_ctx *ctx, CUlimit limit, size_t value);
	/* CUDA_SUCCESS or the code with which the context was lost. May wait for a launch
	 * that finds too many before it. */
	CUresult (*ctx_status)(struct dev_ctx *ctx);
	/* ctx_status() as far as it is known already: waits for nothing. Within
	 * host_func's fn all that came before in the stream is known. */
	CUresult (*ctx_known)(struct dev_ctx *ctx);
	/* One line about the fault that ended the context, for the log; "" if none. */
	void (*ctx_fault)(struct dev_ctx *ctx, char *ret_text, size_t size);

	/* -- memory: chunks of device memory mapped into the band
	 * -- reserve takes a range of addresses (fixed if addr is nonzero), create makes
	 * physical memory (zeroed by the soft device; scrubbing for others is the memory
	 * manager's), map puts one whole chunk at an address (no access yet), set_access
	 * opens or closes a range of mapped addresses (a CUmemAccess_flags value). */
	CUresult (*reserve)(struct device *dev, uint64_t size, uint64_t align,
			    uint64_t addr, CUdeviceptr *ret_addr);
	CUresult (*unreserve)(struct device *dev, CUdeviceptr addr, uint64_t size);
	CUresult (*chunk_create)(struct device *dev, uint64_t size,
				 enum dev_memory memory, struct dev_chunk **ret_chunk);
	void (*chunk_release)(struct device *dev, struct dev_chunk *chunk);
	/* True if a chunk that was to be compressible is. */
	bool (*chunk_compressible)(struct device *dev, const struct dev_chunk *chunk);
	CUresult (*map)(struct device *dev, CUdeviceptr addr, struct dev_chunk *chunk);
	CUresult (*unmap)(struct device *dev, CUdeviceptr addr, uint64_t size);
	CUresult (*set_access)(struct device *dev, CUdeviceptr addr, uint64_t size,
			       CUmemAccess_flags access);

	/* -- memory of other processes --
	 * chunk_export gives a descriptor, the caller's, for a chunk in device memory;
	 * it stays good when the chunk is released. With it
	 * chunk_import makes a chunk of another process's device, of the size that it was
	 * exported with, or CUDA_ERROR_INVALID_VALUE; fd stays the caller's. */
	CUresult (*chunk_export)(struct device *dev, struct dev_chunk *chunk,
				 int *ret_fd);
	CUresult (*chunk_import)(struct device *dev, int fd, uint64_t size,
				 struct dev_chunk **ret_chunk);

	/* -- host memory of the guest --
	 * host_map maps size bytes of a file (from offset; both multiples of
	 * DEVICE_HOST_GRAIN) at an address of the host part of the band, for kernels and
	 * copies of every context. ctx may be any. The file must not be cut short while
	 * it is mapped. host_unmap takes one such region away again; the caller makes
	 * sure that no work which uses it is under way. */
	CUresult (*host_map)(struct dev_ctx *ctx, CUdeviceptr addr, uint64_t size, int fd,
			     uint64_t offset);
	CUresult (*host_unmap)(struct dev_ctx *ctx, CUdeviceptr addr);

	/* -- copies, ordered in a stream --
	 * write and read return when host_buf may be reused or read, that is, they wait
	 * for the stream to get there; the *_async forms return at once and the caller
	 * keeps host_buf alive and untouched until done(arg) was called (from any
	 * thread, maybe before they return). It is called, once, if they succeed, even if
	 * the context is lost later, and never if they fail. */
	CUresult (*write)(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			  const void *host_buf, size_t size);
	CUresult (*read)(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			 CUdeviceptr src, size_t size);
	CUresult (*write_async)(struct dev_ctx *ctx, struct dev_stream *st,
				CUdeviceptr dst, const void *host_buf, size_t size,
				void (*done)(void *), void *arg);
	CUresult (*read_async)(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			       CUdeviceptr src, size_t size, void (*done)(void *),
			       void *arg);
	/* Takes the bytes (packed rows of width) before it returns, and never waits for
	 * the stream as long as they are few: 64 KiB. May be NULL: the caller must stage.
	 */
	CUresult (*write_taken)(struct dev_ctx *ctx, struct dev_stream *st,
				CUdeviceptr dst, size_t pitch, const void *host_buf,
				size_t width, size_t height);
	/* Between addresses of the device, host_map()'s among them; never waits. */
	CUresult (*copy)(struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_copy_2d *c);
	/* Waits for what the caller has queued there: unlike stream_synchronize(), of the
	 * legacy stream it may be not for other streams. */
	CUresult (*copy_end)(struct dev_ctx *ctx, struct dev_stream *st);
	/* elem_bytes is 1, 2 or 4; width counts elements. Never waits. */
	CUresult (*fill)(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			 size_t pitch, uint32_t value, unsigned elem_bytes, size_t width,
			 size_t height);

	/* -- arrays: of a context, destroyed before it --
	 * array_bytes says what creating one takes from the device's memory, and refuses
	 * what array_create would refuse (sparse and deferred ones:
	 * CUDA_ERROR_NOT_SUPPORTED). */
	CUresult (*array_bytes)(struct dev_ctx *ctx, const struct array_shape *s,
				uint64_t *ret_bytes);
	CUresult (*array_create)(struct dev_ctx *ctx, const struct array_shape *s,
				 struct dev_array **ret_array);
	/* The caller has synchronised; textures of it may remain, but not be used. */
	void (*array_destroy)(struct dev_array *a);
	/* host_buf is packed. These wait, as write and read do. */
	CUresult (*array_write)(struct dev_ctx *ctx, struct dev_stream *st,
				const struct dev_box *dst, const void *host_buf);
	CUresult (*array_read)(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			       const struct dev_box *src);
	/* At least one side is an array; never waits. */
	CUresult (*array_copy)(struct dev_ctx *ctx, struct dev_stream *st,
			       const struct dev_copy_3d *c);

	/* -- texture and surface objects: of a context, destroyed before it --
	 * *ret_value is what kernels are given. */
	CUresult (*texture_create)(struct dev_ctx *ctx, const struct dev_texture_desc *d,
				   uint64_t *ret_value, struct dev_texture **ret_tex);
	/* Makes a surface; of desc only array, is_level and level count. */
	CUresult (*surface_create)(struct dev_ctx *ctx, const struct dev_texture_desc *d,
				   uint64_t *ret_value, struct dev_texture **ret_tex);
	void (*texture_destroy)(struct dev_texture *tex); /* surfaces as well */
	/* References of a module, by name. NOT_FOUND: there is none; soft has none at
	 * all. d->sampler is all that a reference says; bound: what it reads as well. */
	CUresult (*texref_find)(struct dev_module *mod, const char *name, bool surface);
	CUresult (*texref_set)(struct dev_module *mod, const char *name, bool surface,
			       const struct dev_texture_desc *d, bool bound);

	/* -- streams and events -- */
	CUresult (*stream_create)(struct dev_ctx *ctx, unsigned flags, int priority,
				  struct dev_stream **ret_stream);
	/* A CU_STREAM_ATTRIBUTE_*, for what is queued from now on; a device may take
	 * hints as such, the priority it honours. */
	CUresult (*stream_set_attribute)(struct dev_ctx *ctx, struct dev_stream *st,
					 CUstreamAttrID attr,
					 const CUstreamAttrValue *value);
	/* Waits for, and writes of, words of memory, in order; never waits itself.
	 * NOT_SUPPORTED where the device's attributes say so. */
	CUresult (*stream_mem_ops)(struct dev_ctx *ctx, struct dev_stream *st,
				   const struct dev_mem_op *ops, unsigned n,
				   unsigned flags);
	/* Work already queued still runs. */
	void (*stream_destroy)(struct dev_stream *st);
	CUresult (*stream_query)(struct dev_ctx *ctx, struct dev_stream *st);
	CUresult (*stream_synchronize)(struct dev_ctx *ctx, struct dev_stream *st);
	CUresult (*stream_wait_event)(struct dev_ctx *ctx, struct dev_stream *st,
				      struct dev_event *ev);
	/*
	 * Runs fn(arg) when the stream gets there, on a thread of the device; the stream
	 * goes on when host_func_done() is called with the token that fn was given. Token
	 * 0 means that the context was lost: fn must only let go of arg. A token that is
	 * not known (any more) is ignored.
	 */
	CUresult (*host_func)(struct dev_ctx *ctx, struct dev_stream *st,
			      void (*fn)(void *arg, uint64_t token), void *arg);
	void (*host_func_done)(struct device *dev, uint64_t token);
	CUresult (*event_create)(struct dev_ctx *ctx, unsigned flags,
				 struct dev_event **ret_event);
	void (*event_destroy)(struct dev_event *ev);
	CUresult (*event_record)(struct dev_ctx *ctx, struct dev_event *ev,
				 struct dev_stream *st);
	/* After all work of the context so far; before all to come. */
	CUresult (*ctx_record_event)(struct dev_ctx *ctx, struct dev_event *ev);
	CUresult (*ctx_wait_event)(struct dev_ctx *ctx, struct dev_event *ev);
	CUresult (*event_query)(struct dev_event *ev);
	CUresult (*event_synchronize)(struct dev_event *ev);
	CUresult (*event_elapsed)(struct dev_event *start, struct dev_event *end,
				  float *ret_ms);

	/* -- code --
	 * image is image_size bytes from a guest: fatbin container, ELF or PTX text (with
	 * its NUL); or several containers, one directly behind the other, which are
	 * linked (the first may hold machine code alone: the linked form of the others).
	 * Code, globals and constants are device memory that the device takes itself;
	 * footprint() says how much, and where it does not, module_memory(). */
	CUresult (*module_load)(struct dev_ctx *ctx, const void *image, size_t image_size,
				struct dev_jit *jit, struct dev_module **ret_module);
	/* As module_load, but code for this GPU is looked for, and perhaps loaded, only
	 * when something is asked for by name: an image without any loads all the same,
	 * and the look-ups fail. The image stays valid and unchanged until
	 * module_unload(). */
	CUresult (*library_load)(struct dev_ctx *ctx, const void *image,
				 size_t image_size, struct dev_jit *jit,
				 struct dev_module **ret_module);
	void (*module_unload)(struct dev_module *mod);
	/* Bytes of device memory, roughly; what is loaded only later is not in it. */
	uint64_t (*module_memory)(struct dev_module *mod);
	/* Whether anything can be looked up in it. */
	CUresult (*module_status)(struct dev_module *mod);
	CUresult (*module_function)(struct dev_module *mod, const char *name,
				    struct dev_func **ret_func);
	CUresult (*module_global)(struct dev_module *mod, const char *name,
				  CUdeviceptr *ret_addr, size_t *ret_size);
	/* Entry functions in the module's order; *ret_name lives as long as the module.
	 */
	CUresult (*module_function_at)(struct dev_module *mod, unsigned index,
				       struct dev_func **ret_func, const char **ret_name);
	/*
	 * Linking, where the device does it itself; all four are NULL where it links what
	 * module_load() is given. Of jit the options count in link_create() and the logs
	 * in the others: what was said since the beginning. The result lives as long as
	 * the link. A NUL follows the data of link_add().
	 */
	CUresult (*link_create)(struct dev_ctx *ctx, const struct dev_jit *jit,
				struct dev_link **ret_link);
	CUresult (*link_add)(struct dev_link *link, CUjitInputType type, const void *data,
			     size_t size, const char *name, struct dev_jit *jit);
	CUresult (*link_complete)(struct dev_link *link, struct dev_jit *jit,
				  const void **ret_data, size_t *ret_size);
	void (*link_destroy)(struct dev_link *link);
	CUresult (*module_function_count)(struct dev_module *mod, unsigned *ret_n);
	CUresult (*func_attribute)(struct dev_func *f, CUfunction_attribute attr,
				   int *ret_value);
	CUresult (*func_set_attribute)(struct dev_func *f, CUfunction_attribute attr,
				       int value);
	/* CUDA_ERROR_INVALID_VALUE past the last parameter. */
	CUresult (*func_param)(struct dev_func *f, unsigned index,
			       struct dev_param *ret_p);
	CUresult (*func_occupancy)(struct dev_func *f, int block_size,
				   size_t shared_bytes, unsigned flags, int *ret_blocks);
	/* How many clusters of a launch as l run at once; or, largest, the most blocks
	 * that its cluster could have. l->params is not looked at. */
	CUresult (*func_clusters)(struct dev_func *f, const struct dev_launch *l,
				  bool largest, int *ret_n);
	/* Never waits for the kernel; may wait for room in the stream's queue. */
	CUresult (*launch)(struct dev_ctx *ctx, struct dev_stream *st,
			   const struct dev_launch *l);
	/*
	 * Launches the first ones of n launches (at most DEV_BATCH_MAX), neither
	 * cooperative nor with a cluster or attributes, at once. Returns how many, 0 to
	 * n; the others are the caller's to launch: launch() says what is wrong with one.
	 * NULL: 0.
	 */
	unsigned (*launch_batch)(struct dev_ctx *ctx, struct dev_stream *st,
				 const struct dev_launch *l, unsigned n);

	/*
	 * -- graphs (device/graph.h) --
	 * NULL, all of them, on a device that has none of its own: graph/exec.c spreads
	 * the nodes over streams there. Calls on one graph must not overlap.
	 */
	/* Makes a graph. Memory that desc points to is the caller's again afterwards. */
	CUresult (*graph_create)(struct dev_ctx *ctx, const struct dev_graph_desc *desc,
				 struct dev_graph **ret_graph);
	/* Launches under way go on; never waits. */
	void (*graph_destroy)(struct dev_graph *g);
	/* Changes a node from the next launch on; its kind stays. A failure leaves the
	 * node as it was: create the graph anew. */
	CUresult (*graph_set)(struct dev_graph *g, uint32_t node,
			      const struct dev_node *to);
	CUresult (*graph_enable)(struct dev_graph *g, uint32_t node, bool enabled);
	CUresult (*graph_launch)(struct dev_graph *g, struct dev_stream *st);
	CUresult (*graph_upload)(struct dev_graph *g, struct dev_stream *st);
	/* A shell and the handles that conditional nodes of one graph are switched by. */
	CUresult (*shell_create)(struct dev_ctx *ctx, struct dev_shell **ret_shell);
	void (*shell_destroy)(struct dev_shell *shell);
	CUresult (*shell_condition)(struct dev_shell *shell, unsigned initial,
				    unsigned flags, uint64_t *ret_handle);

	/* -- tensor maps: 128 bytes for kernels, encoded as the device wants them --
	 * soft: CUDA_ERROR_NOT_SUPPORTED. */
	CUresult (*tensor_map)(struct dev_ctx *ctx, const struct dev_tensor_map *m,
			       CUtensorMap *ret_map);
	/* Another address for a map that tensor_map() made, or bytes of a guest's. */
	CUresult (*tensor_map_move)(struct dev_ctx *ctx, CUtensorMap *map,
				    CUdeviceptr address);

	/* -- where the TPCs (pairs of SMs) are, as libraries ask to place clusters -- */
	CUresult (*tpc_map)(struct dev_ctx *ctx, struct dev_tpc_map *ret_map);

	/* -- utilisation and sensors, for NVML and metrics -- */
	/* Time with at least one kernel of this process running, and time in which memory
	 * was read or written; 0 where that is not known. May lag by a second. */
	uint64_t (*busy_ns)(struct device *dev, uint64_t *ret_memory_ns);
	/* By enum sensor; what the device does not tell is SENSOR_NONE. Of the whole
	 * device, at most SENSORS_FRESH_NS old. */
	void (*sensors)(struct device *dev, uint32_t ret_value[SENSOR_NUM]);
};

/* n launches as launch_batch has them, one after the other: all, at once as far as the
 * device can. Returns the first failure, which does not keep the others from being
 * launched. */
static inline CUresult device_launch(const struct device_ops *ops, struct dev_ctx *ctx,
				     struct dev_stream *st, const struct dev_launch *l,
				     unsigned n)
{
	unsigned i = n > 1 && ops->launch_batch ? ops->launch_batch(ctx, st, l, n) : 0;
	CUresult first = CUDA_SUCCESS;

	for (; i < n; i++) {
		CUresult r = ops->launch(ctx, st, &l[i]);

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
