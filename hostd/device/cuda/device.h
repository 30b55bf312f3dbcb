/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real GPU: what the files of device_cuda_ops share. Thin where the driver does what
 * the contract asks; what is added here is the band, the check of addresses before copies
 * (a guest's "device address" must never be a host address of this process), host
 * functions that do not hold a driver thread, and catching what kernels print.
 *
 *	driver.c	loads libcuda.so.1
 *	cuda.c		open, close, contexts, the table
 *	memory.c	band, chunks	copy.c	copies and fills
 *	host.c	host memory of the guest
 *	stream.c	streams, events, host functions
 *	module.c	images, functions	image.c	checks of images
 *	jit.c	options, logs		link.c	linking
 *	launch.c	attributes of functions, launches
 *	batch.c	many launches at once
 *	output.c	printf of kernels	array.c	arrays
 *	texture.c	textures, surfaces, tensor maps
 *	nvml.c	sensors, utilisation
 *	tpc.c	where the TPCs are
 *	rm.c	what libcuda asks the kernel for, on its way there
 *	tsg.c	turns on the copy engines
 *	hostpage.c	pages of host memory
 *	graph.c	graphs		graph_node.c what a node is
 */
#ifndef WEFT_DEVICE_CUDA_DEVICE_H
#define WEFT_DEVICE_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
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
	pthread_mutex_t lock;      /* all below; not held in calls that may wait */
	struct range_set reserved; /* of the band */
	struct range_set mapped;   /* data: its CUmemAccess_flags */
	struct range_set globals;  /* variables of modules, outside the band */
	struct range_set host;     /* host memory of the guest */
	bool own_band;             /* the band is reserved with the driver */
	/* Memory of that kind cannot be given to other processes. */
	_Atomic bool no_export[DEV_MEMORY_KINDS];
	bool own_host;     /* its host part is reserved in this process */
	bool primary_used; /* a context of ours is the primary one; with `making` */
	struct list contexts;
	struct list host_ops; /* struct host_op, not done */
	uint64_t last_token;
	uint64_t last_ctx; /* with `making` */
	struct cuda_output output;
	struct tally chunks, imports; /* bytes of each kind; any thread */
	struct cuda_nvml *nvml;       /* NULL: the host's NVML is not there */
};

/* Graphs of one size, see batch.c. */
struct cuda_batches {
	struct batch_graph *graphs[CUDA_BATCHES];
	unsigned n, next;
};

struct dev_ctx {
	struct device *dev;
	struct list link; /* device.contexts */
	CUcontext cu;
	bool primary;
	uint64_t id;            /* never reused, unlike cu */
	_Atomic int status;     /* CUresult; once lost, for ever */
	_Atomic bool may_print; /* a kernel was launched */
	struct list streams, events, modules;
	struct list graveyard; /* graphs destroyed in a launch, see graph.c */
	uint32_t *slots;       /* pinned: streams wait for them, see stream.c */
	CUdeviceptr slots_addr;
	unsigned next_slot;
	uint32_t slot_used[CUDA_HOST_SLOTS]; /* waits queued on the slot so far */
	bool slot_busy[CUDA_HOST_SLOTS];
	_Atomic bool legacy_alone;  /* as dev_stream.alone */
	pthread_mutex_t batch_lock; /* all below; a leaf */
	struct cuda_batches batches[CUDA_BATCH_SIZES];
	unsigned batches_seen, batches_hasty;
};

struct dev_stream {
	struct dev_ctx *ctx;
	struct list link;
	CUstream cu;
	_Atomic bool alone; /* has attributes, which launches in graphs would not have */
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

/* Takes note if res means that the context is lost; returns res. */
CUresult cuda_note(struct dev_ctx *ctx, CUresult res);

static inline CUstream cuda_stream_of(struct dev_stream *st)
{
	return st ? st->cu : CU_STREAM_LEGACY;
}

static inline void cuda_unlockp(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

static inline pthread_mutex_t *cuda_lock(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	return lock;
}

#define cuda_scoped_lock(m)                                                              \
	_cleanup_(cuda_unlockp) pthread_mutex_t *_held __attribute__((unused)) =         \
		cuda_lock(m)

/* output.c */
void cuda_output_open(struct device *dev);
void cuda_output_close(struct device *dev);
/* Hands on what was printed since; no lock may be held. */
void cuda_output_flush(struct device *dev);

static inline void cuda_may_print(struct dev_ctx *ctx)
{
	/* relaxed: the launch itself orders it before what waits for the kernel */
	if (!atomic_load_explicit(&ctx->may_print, memory_order_relaxed))
		atomic_store_explicit(&ctx->may_print, true, memory_order_relaxed);
}

/* The same, if a kernel of the context can have printed. */
static inline void cuda_output_look(struct dev_ctx *ctx)
{
	if (atomic_load_explicit(&ctx->may_print, memory_order_relaxed))
		cuda_output_flush(ctx->dev);
}

/* nvml.c */
/* Before the sandbox; fills in info.driver as well. */
void cuda_nvml_open(struct device *dev);
void cuda_nvml_close(struct device *dev);
CUresult cuda_tpc_map(struct dev_ctx *ctx, struct dev_tpc_map *ret_map);
void cuda_sensors(struct device *dev, uint32_t ret_value[SENSOR_NUM]);
uint64_t cuda_busy_ns(struct device *dev, uint64_t *ret_memory_ns);
uint64_t cuda_overhead(struct device *dev);
bool cuda_footprint(struct device *dev, uint64_t *ret_least, uint64_t *ret_most);
unsigned cuda_holders(struct device *dev, struct device_holder *ret, unsigned n);

/* memory.c */
void cuda_memory_init(struct device *dev);
void cuda_memory_fini(struct device *dev);
/* True if all of it is mapped device memory with access, a module's variable, or host
 * memory of the guest. */
bool cuda_may(struct device *dev, CUdeviceptr addr, uint64_t size);
CUresult cuda_reserve(struct device *dev, uint64_t size, uint64_t align, uint64_t addr,
		      CUdeviceptr *ret_addr);
CUresult cuda_unreserve(struct device *dev, CUdeviceptr addr, uint64_t size);
CUresult cuda_chunk_create(struct device *dev, uint64_t size, enum dev_memory memory,
			   struct dev_chunk **ret_chunk);
void cuda_chunk_release(struct device *dev, struct dev_chunk *chunk);
bool cuda_chunk_compressible(struct device *dev, const struct dev_chunk *chunk);
CUresult cuda_chunk_export(struct device *dev, struct dev_chunk *chunk, int *ret_fd);
CUresult cuda_chunk_import(struct device *dev, int fd, uint64_t size,
			   struct dev_chunk **ret_chunk);
CUresult cuda_map(struct device *dev, CUdeviceptr addr, struct dev_chunk *chunk);
CUresult cuda_unmap(struct device *dev, CUdeviceptr addr, uint64_t size);
CUresult cuda_set_access(struct device *dev, CUdeviceptr addr, uint64_t size,
			 CUmemAccess_flags access);

/* host.c */
void cuda_host_init(struct device *dev);
void cuda_host_fini(struct device *dev);
CUresult cuda_host_map(struct dev_ctx *ctx, CUdeviceptr addr, uint64_t size, int fd,
		       uint64_t offset);
CUresult cuda_host_unmap(struct dev_ctx *ctx, CUdeviceptr addr);

/*
 * What a context has registered goes with it: it is registered again in another one, or
 * in the next that is made. The context must be current.
 */
void cuda_host_leave(struct dev_ctx *ctx);
void cuda_host_adopt(struct dev_ctx *ctx);

static inline bool cuda_is_host(uint64_t addr)
{
	return addr - DEVICE_HOST_BASE < DEVICE_HOST_SIZE;
}

/* copy.c */
CUresult cuda_write(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		    const void *host_buf, size_t size);
CUresult cuda_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
		   CUdeviceptr src, size_t size);
CUresult cuda_write_async(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			  const void *host_buf, size_t size, void (*done)(void *),
			  void *arg);
CUresult cuda_read_async(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			 CUdeviceptr src, size_t size, void (*done)(void *), void *arg);
CUresult cuda_write_taken(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
			  size_t pitch, const void *host_buf, size_t width,
			  size_t height);
CUresult cuda_copy(struct dev_ctx *ctx, struct dev_stream *st,
		   const struct dev_copy_2d *c);
CUresult cuda_fill(struct dev_ctx *ctx, struct dev_stream *st, CUdeviceptr dst,
		   size_t pitch, uint32_t value, unsigned elem_bytes, size_t width,
		   size_t height);

CUresult cuda_copy_end(struct dev_ctx *ctx, struct dev_stream *st);
/* True if all rows lie in memory that the guest may name. */
bool cuda_copy_ok(struct device *dev, const struct dev_copy_2d *c);
/* The same of a fill; width counts elements. */
bool cuda_fill_ok(struct device *dev, CUdeviceptr dst, size_t pitch, unsigned elem_bytes,
		  size_t width, size_t height);

/* stream.c */
/* An operation as the driver has it; false if it names memory that the guest may not
 * touch, or is unknown. */
bool cuda_mem_op(struct device *dev, const struct dev_mem_op *op,
		 CUstreamBatchMemOpParams *ret_p);
/* A word of pinned memory for a host function of a graph; -1: there is none left. */
int cuda_slot_take(struct dev_ctx *ctx);
void cuda_slot_drop(struct dev_ctx *ctx, int slot);
/* What the word is between launches; one more once the function has run. */
uint32_t cuda_slot_rest(struct dev_ctx *ctx, int slot);
/* A launch has got there: the token for host_func_done(); 0: it goes on. */
uint64_t cuda_slot_stands(struct dev_ctx *ctx, int slot);
void cuda_host_ops_drop(struct dev_ctx *ctx);
CUresult cuda_stream_create(struct dev_ctx *ctx, unsigned flags, int priority,
			    struct dev_stream **ret_stream);
CUresult cuda_stream_set_attribute(struct dev_ctx *ctx, struct dev_stream *st,
				   CUstreamAttrID attr, const CUstreamAttrValue *value);
CUresult cuda_stream_mem_ops(struct dev_ctx *ctx, struct dev_stream *st,
			     const struct dev_mem_op *ops, unsigned n, unsigned flags);
void cuda_stream_destroy(struct dev_stream *st);
CUresult cuda_stream_query(struct dev_ctx *ctx, struct dev_stream *st);
CUresult cuda_stream_synchronize(struct dev_ctx *ctx, struct dev_stream *st);
CUresult cuda_stream_wait_event(struct dev_ctx *ctx, struct dev_stream *st,
				struct dev_event *ev);
CUresult cuda_host_func(struct dev_ctx *ctx, struct dev_stream *st,
			void (*fn)(void *arg, uint64_t token), void *arg);
void cuda_host_func_done(struct device *dev, uint64_t token);
CUresult cuda_event_create(struct dev_ctx *ctx, unsigned flags,
			   struct dev_event **ret_event);
void cuda_event_destroy(struct dev_event *ev);
CUresult cuda_event_record(struct dev_ctx *ctx, struct dev_event *ev,
			   struct dev_stream *st);
CUresult cuda_ctx_record_event(struct dev_ctx *ctx, struct dev_event *ev);
CUresult cuda_ctx_wait_event(struct dev_ctx *ctx, struct dev_event *ev);
CUresult cuda_event_query(struct dev_event *ev);
CUresult cuda_event_synchronize(struct dev_event *ev);
CUresult cuda_event_elapsed(struct dev_event *start, struct dev_event *end,
			    float *ret_ms);

/* module.c */
/* Some module of the context, or NULL. */
struct dev_module *cuda_module_first(struct dev_ctx *ctx);
CUresult cuda_module_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			  struct dev_jit *jit, struct dev_module **ret_module);
CUresult cuda_library_load(struct dev_ctx *ctx, const void *image, size_t image_size,
			   struct dev_jit *jit, struct dev_module **ret_module);
void cuda_module_unload(struct dev_module *mod);
uint64_t cuda_module_memory(struct dev_module *mod);
CUresult cuda_module_function(struct dev_module *mod, const char *name,
			      struct dev_func **ret_func);
CUresult cuda_module_global(struct dev_module *mod, const char *name,
			    CUdeviceptr *ret_addr, size_t *ret_size);
CUresult cuda_module_function_at(struct dev_module *mod, unsigned index,
				 struct dev_func **ret_func, const char **ret_name);
CUresult cuda_module_status(struct dev_module *mod);
CUresult cuda_module_function_count(struct dev_module *mod, unsigned *ret_n);

/* link.c */
CUresult cuda_link_create(struct dev_ctx *ctx, const struct dev_jit *jit,
			  struct dev_link **ret_link);
CUresult cuda_link_add(struct dev_link *link, CUjitInputType type, const void *data,
		       size_t size, const char *name, struct dev_jit *jit);
CUresult cuda_link_complete(struct dev_link *link, struct dev_jit *jit,
			    const void **ret_data, size_t *ret_size);
void cuda_link_destroy(struct dev_link *link);

/* launch.c */
CUresult cuda_func_attribute(struct dev_func *f, CUfunction_attribute attr,
			     int *ret_value);
CUresult cuda_func_set_attribute(struct dev_func *f, CUfunction_attribute attr,
				 int value);
CUresult cuda_func_param(struct dev_func *f, unsigned index, struct dev_param *ret_p);
CUresult cuda_func_occupancy(struct dev_func *f, int block_size, size_t shared_bytes,
			     unsigned flags, int *ret_blocks);
CUresult cuda_func_clusters(struct dev_func *f, const struct dev_launch *l, bool largest,
			    int *ret_n);
/* All attributes of a launch; room for DEV_LAUNCH_ATTRS_MAX + 2. How many there are. */
unsigned cuda_launch_attrs(CUlaunchAttribute *to, const struct dev_launch *l);
CUresult cuda_launch(struct dev_ctx *ctx, struct dev_stream *st,
		     const struct dev_launch *l);

/* batch.c */
unsigned cuda_launch_batch(struct dev_ctx *ctx, struct dev_stream *st,
			   const struct dev_launch *l, unsigned n);
/* Forgets the code that batches were launched with, before any of it is unloaded, and the
 * limits that they were made for. What is under way goes on. */
void cuda_batches_drop(struct dev_ctx *ctx);

/* array.c */
CUresult cuda_array_bytes(struct dev_ctx *ctx, const struct array_shape *s,
			  uint64_t *ret_bytes);
CUresult cuda_array_create(struct dev_ctx *ctx, const struct array_shape *s,
			   struct dev_array **ret_array);
void cuda_array_destroy(struct dev_array *a);
/* The driver's array of a level; of its own accord for the life of the whole. */
CUresult cuda_array_level(struct dev_array *a, unsigned level, CUarray *ret_array);
CUresult cuda_array_write(struct dev_ctx *ctx, struct dev_stream *st,
			  const struct dev_box *dst, const void *host_buf);
CUresult cuda_array_read(struct dev_ctx *ctx, struct dev_stream *st, void *host_buf,
			 const struct dev_box *src);
/* The driver's descriptor of a copy that is not empty, checked. */
CUresult cuda_array_params(struct device *dev, const struct dev_copy_3d *c,
			   CUDA_MEMCPY3D *ret_d);
CUresult cuda_array_copy(struct dev_ctx *ctx, struct dev_stream *st,
			 const struct dev_copy_3d *c);

/* texture.c */
CUresult cuda_texture_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex);
CUresult cuda_surface_create(struct dev_ctx *ctx, const struct dev_texture_desc *d,
			     uint64_t *ret_value, struct dev_texture **ret_tex);
void cuda_texture_destroy(struct dev_texture *tex);

/* texref.c */
CUresult cuda_texref_find(struct dev_module *mod, const char *name, bool surface);
CUresult cuda_texref_set(struct dev_module *mod, const char *name, bool surface,
			 const struct dev_texture_desc *d, bool bound);
CUresult cuda_tensor_map(struct dev_ctx *ctx, const struct dev_tensor_map *m,
			 CUtensorMap *ret_map);
CUresult cuda_tensor_map_move(struct dev_ctx *ctx, CUtensorMap *map, CUdeviceptr address);

/* graph.c */
/* Frees what waits for the end of its last launch; the context has been waited for. */
void cuda_graphs_drop(struct dev_ctx *ctx);
CUresult cuda_graph_create(struct dev_ctx *ctx, const struct dev_graph_desc *d,
			   struct dev_graph **ret_graph);
void cuda_graph_destroy(struct dev_graph *g);
CUresult cuda_graph_set(struct dev_graph *g, uint32_t node, const struct dev_node *to);
CUresult cuda_graph_enable(struct dev_graph *g, uint32_t node, bool enabled);
CUresult cuda_graph_launch(struct dev_graph *g, struct dev_stream *st);
CUresult cuda_graph_upload(struct dev_graph *g, struct dev_stream *st);
CUresult cuda_shell_create(struct dev_ctx *ctx, struct dev_shell **ret_shell);
void cuda_shell_destroy(struct dev_shell *shell);
CUresult cuda_shell_condition(struct dev_shell *shell, unsigned initial, unsigned flags,
			      uint64_t *ret_handle);

#endif
