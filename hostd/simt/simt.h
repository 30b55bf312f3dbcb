/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simt: runs parsed PTX kernels on the CPU, a warp of 32 lanes at a time. It knows PTX
 * and memory; it knows nothing of contexts, streams, sessions or CUDA's headers.
 *
 * The life of a kernel:
 *
 *	ptx_module --simt_program_new--> simt_program   variables without addresses
 *	caller places every variable (vars[i].addr)         and copies simt_var_init()
 *there simt_program_lower()                                executable; functions by name
 *	simt_launch_prepare()                               one grid, checked
 *	simt_cta_start() / simt_cta_run() ...               one block after another
 *
 * Many blocks may be resident at once: simt_cta_run() takes a budget and can be called
 * again, from any thread, so the caller preempts, rotates and kills as it likes.
 *
 * Threads: a simt_program and a simt_launch are read-only once lowered or prepared, and
 * may be used by any number of threads. A simt_cta is used by one thread at a time. The
 * ctas of one cluster (simt_cta_cluster) count as one object in this respect.
 */
#ifndef WEFT_SIMT_H
#define WEFT_SIMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_module;
struct ptx_var;
struct ptx_log;

#define SIMT_WARP 32

/* Limits a device may report; the executor refuses what exceeds them. */
#define SIMT_MAX_BLOCK_THREADS 1024
#define SIMT_MAX_PARAM_BYTES   32764
#define SIMT_MAX_SHARED_BYTES  (227u << 10) /* static plus dynamic, per block */
#define SIMT_SHARED_UNIT       128u
#define SIMT_RESERVED_SHARED   1024u /* the system's own, beside those */
#define SIMT_MAX_CLUSTER       16
#define SIMT_MAX_STACK_BYTES   (512u << 10) /* local memory of one thread */

/*
 * Generic addresses. Device memory is seen at its own (host) address, inside the band of
 * struct simt_memory, which must not overlap the windows below. No window contains 0.
 * Shared: the block of cluster rank r sees its own memory at SIMT_SHARED_BASE + offset
 * and that of any rank at SIMT_SHARED_BASE + (r + 1) * SIMT_SHARED_STRIDE + offset.
 * Local: every thread sees its own stack at SIMT_LOCAL_BASE + offset.
 * Param: the parameters of the kernel (cvta.param), to be read only.
 * Code: the address of function i is SIMT_CODE_BASE + 16 * i; it cannot be read.
 */
#define SIMT_SHARED_BASE   0x0000000100000000ull
#define SIMT_SHARED_STRIDE 0x0000000001000000ull
#define SIMT_SHARED_SIZE   (SIMT_SHARED_STRIDE * (SIMT_MAX_CLUSTER + 1))
#define SIMT_LOCAL_BASE    0x0000000200000000ull
#define SIMT_LOCAL_SIZE    0x0000000001000000ull
#define SIMT_PARAM_BASE    0x0000000280000000ull
#define SIMT_PARAM_SIZE    0x0000000000010000ull
#define SIMT_CODE_BASE     0x0000000300000000ull
#define SIMT_CODE_SIZE     0x0000000010000000ull

/*
 * Device memory. An address in [base, base + size) is dereferenced as it is, once perm
 * allows it; perm has one byte (enum simt_perm) per page of 1 << SIMT_PAGE_SHIFT bytes,
 * base is page aligned. An access may cross pages (never misaligned, so only vectors of
 * lanes do) and each page is checked.
 *
 * The caller may raise permissions at any time, and lower them only while no
 * simt_cta_run() of a launch that uses this memory is in progress: the check and the
 * access are not one atomic step.
 */
#define SIMT_PAGE_SHIFT 16

enum simt_perm {
	SIMT_PERM_NONE = 0,
	SIMT_PERM_READ = 1,
	SIMT_PERM_WRITE = 2, /* read and write */
	SIMT_PERM_BUS = 3,   /* likewise; atomics are among kernels alone, as over PCIe */
};

struct simt_memory {
	uint64_t base;
	uint64_t size;
	const uint8_t *perm;
	/* By the value that kernels have; see texture.h. Entries may change under the
	 * same rule as permissions; NULL: no such object. */
	struct simt_texture *const *textures;
	uint32_t num_textures;
};

/* ---- programs ---- */

enum simt_space {
	SIMT_SPACE_GLOBAL,
	SIMT_SPACE_CONST, /* read by ld.const, at a device address like any other */
};

/* A module-scope variable that needs device memory. */
struct simt_var {
	const char *name; /* lives as long as the module */
	const struct ptx_var *ptx;
	enum simt_space space;
	uint64_t bytes;
	uint64_t align; /* power of two */
	bool has_init;  /* false: zeroes */
	bool managed;   /* .attribute(.managed) */
	uint64_t addr;  /* set by the caller before simt_program_lower() */
};

struct simt_param {
	uint32_t offset, bytes, align;
};

struct simt_func_attr {
	uint32_t shared_bytes; /* static, what every block takes */
	uint32_t const_bytes;  /* .const variables of the module */
	uint32_t local_bytes;  /* per thread, known call depth included */
	uint32_t param_bytes;
	uint32_t regs;             /* estimate, 1..255 */
	uint32_t max_threads;      /* per block, 1..1024 */
	uint32_t reqntid[3];       /* 0,0,0 unless .reqntid */
	uint32_t cluster[3];       /* 0,0,0 unless .reqnctapercluster */
	uint32_t max_cluster_rank; /* 0 unless .maxclusterrank */
	bool explicit_cluster;     /* .explicitcluster */
	bool unbounded_stack;      /* recursion or calls through pointers */
	uint32_t num_params;
	const struct simt_param *params;
};

struct simt_program;
struct simt_func;

/*
 * Takes a module (several are first joined by ptx_link()) and lists its variables. The
 * module is borrowed and must outlive the program. 0, -E2BIG (local memory) or -ENOMEM.
 */
int simt_program_new(const struct ptx_module *m, struct ptx_log *log,
		     struct simt_program **ret_prog);

void simt_program_free(struct simt_program *p);

/* The variables; the caller sets addr in each. Owned by the program. */
struct simt_var *simt_program_vars(struct simt_program *p, size_t *ret_num);

/*
 * Writes the initial contents of variable i, vars[i].bytes of them, to dst (host memory
 * of the caller's; it may be the variable's place itself). Addresses of variables and
 * functions in the initialiser are filled in, so every addr must have been set.
 */
void simt_var_init(const struct simt_program *p, size_t i, void *dst);

/*
 * Makes the program executable. Call once, after every addr was set; attributes are
 * valid from then on. -EOPNOTSUPP: an instruction that the executor does not have;
 * -ENOENT: a function that nobody defines is called. log names line and instruction.
 */
int simt_program_lower(struct simt_program *p, struct ptx_log *log);

/* Kernels, in order of definition. */
size_t simt_program_num_kernels(const struct simt_program *p);
const struct simt_func *simt_program_kernel(const struct simt_program *p, size_t i);

/* The kernel called name, or NULL. */
const struct simt_func *simt_program_find(const struct simt_program *p, const char *name);

const char *simt_func_name(const struct simt_func *f);
const struct simt_func_attr *simt_func_attr(const struct simt_func *f);

/* ---- launches ---- */

enum simt_fault_code {
	SIMT_FAULT_NONE,
	SIMT_FAULT_ADDRESS,    /* CUDA_ERROR_ILLEGAL_ADDRESS */
	SIMT_FAULT_MISALIGNED, /* CUDA_ERROR_MISALIGNED_ADDRESS */
	SIMT_FAULT_SPACE,      /* CUDA_ERROR_INVALID_ADDRESS_SPACE */
	SIMT_FAULT_PC,         /* CUDA_ERROR_INVALID_PC: call through a bad pointer */
	SIMT_FAULT_INSTR,  /* CUDA_ERROR_ILLEGAL_INSTRUCTION: bad barrier number, ... */
	SIMT_FAULT_STACK,  /* CUDA_ERROR_HARDWARE_STACK_ERROR: stack overflow */
	SIMT_FAULT_TRAP,   /* CUDA_ERROR_LAUNCH_FAILED: trap */
	SIMT_FAULT_ASSERT, /* CUDA_ERROR_ASSERT */
	SIMT_FAULT_MEMORY, /* the executor itself ran out of host memory */
	SIMT_FAULT_KILLED, /* simt_launch.stop was set */
};

const char *simt_fault_name(enum simt_fault_code code);

struct simt_fault {
	enum simt_fault_code code;
	const char *func; /* innermost function; NULL unless known */
	uint32_t line;    /* of the PTX text, 0 unless known */
	uint32_t pc;      /* index of the instruction in its function */
	uint64_t addr;    /* for the address faults: what was accessed */
	uint32_t bytes;   /* ... and how much */
	bool write;
	uint32_t block[3], thread[3];
};

/*
 * Services that kernels ask of their surroundings. Any member may be NULL: printf output
 * is then dropped, malloc returns 0, an assertion's text is lost. Called on the thread
 * that runs the cta, several at a time for one launch; must not block.
 */
struct simt_calls {
	/*
	 * One printf by one thread: a self-contained record, to be turned into text by
	 * simt_printf_text(). Returns 0, or -ENOBUFS when the record was dropped.
	 */
	int (*print)(void *user, const void *rec, size_t bytes);
	/* An assertion that failed, as CUDA words it, newline included. */
	void (*assert_fail)(void *user, const char *text);
	/* malloc() and free() of device code. 16-byte aligned device address, or 0. */
	uint64_t (*heap_alloc)(void *user, uint64_t bytes);
	/* Returns 0, or -EINVAL for what is no live allocation (a fault, as on a GPU). */
	int (*heap_free)(void *user, uint64_t addr);
};

/*
 * One grid. Fill in the upper part, call simt_launch_prepare(), and keep everything it
 * points to alive and unchanged until the last cta has ended.
 */
struct simt_launch {
	const struct simt_func *func;
	const struct simt_memory *mem;
	const struct simt_calls *calls; /* NULL: none */
	void *user;
	uint32_t grid[3], block[3];
	uint32_t cluster[3]; /* 0,0,0: no cluster (or the kernel's own) */
	uint32_t dyn_shared_bytes;
	const void *params;   /* attr.param_bytes bytes */
	uint32_t stack_bytes; /* per thread, CU_LIMIT_STACK_SIZE */
	uint64_t grid_id;
	/* 32 zeroed bytes of device memory that a cooperative grid synchronises through;
	 * kernels find the address in %envreg1 (high half) and %envreg2. 0: none. */
	uint64_t grid_workspace;
	uint32_t num_sms;
	const bool *stop; /* may be NULL; set by another thread to kill */

	/* Set by simt_launch_prepare(). */
	uint32_t num_warps;    /* per block */
	uint32_t shared_bytes; /* per block, without the system's own */
	uint32_t dyn_shared_offset;
	uint32_t reserved_offset; /* of the system's own; 0: the program needs none */
	uint32_t local_bytes;     /* per thread */
	uint32_t cluster_size;    /* blocks per cluster, at least 1 */
	bool is_cluster;
};

/*
 * Checks the launch and derives the rest. -EINVAL: dimensions are zero, too many threads,
 * not what .reqntid or the cluster shape wants; -E2BIG: too much shared memory.
 */
int simt_launch_prepare(struct simt_launch *l);

/* ---- blocks ---- */

enum simt_status {
	SIMT_DONE,  /* every thread has exited */
	SIMT_MORE,  /* budget used up */
	SIMT_PAUSE, /* got on, and now spins or waits for another block */
	SIMT_WAIT,  /* the same, and did nothing else in this call */
	SIMT_FAULT, /* see simt_cta_fault(); the launch is dead */
};

struct simt_cta;

/*
 * A place for one resident block. Its memory grows to what the largest block needs and
 * is reused by the next one.
 */
int simt_cta_new(struct simt_cta **ret_cta);
void simt_cta_free(struct simt_cta *c);

/*
 * Loads block id of launch l onto SM smid. The previous block must have ended or is
 * abandoned. 0 or -ENOMEM.
 */
int simt_cta_start(struct simt_cta *c, const struct simt_launch *l, const uint32_t id[3],
		   uint32_t smid);

/*
 * Tells num started ctas, in the order of their rank, that they are one cluster. Before
 * the first run. All of them stay in place until all are done, and are run by one thread
 * at a time.
 */
int simt_cta_cluster(struct simt_cta *const *ctas, unsigned num);

/*
 * Runs the block for about max_warp_instr instructions (of a warp). Never blocks: a block
 * that cannot go on returns at once.
 */
enum simt_status simt_cta_run(struct simt_cta *c, uint64_t max_warp_instr);

/* Valid after SIMT_FAULT until the next start. */
const struct simt_fault *simt_cta_fault(const struct simt_cta *c);

struct simt_stats {
	uint64_t warp_instr;   /* since simt_cta_start() */
	uint64_t thread_instr; /* each counted once per active lane */
};

void simt_cta_stats(const struct simt_cta *c, struct simt_stats *ret_stats);

/* ---- printf ---- */

/*
 * Formats a record that simt_calls.print received, by the rules of CUDA's printf.
 * Returns the length of the whole text as snprintf() does; writes at most cap bytes, the
 * final NUL included. -EINVAL for bytes that are no record.
 */
int simt_printf_text(const void *rec, size_t bytes, char *buf, size_t cap);

#endif
