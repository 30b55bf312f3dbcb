/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that weftd and a worker both have mapped. Each field has one writer, which the
 * comments name, but for the credit; readers look at any time and take every field by
 * itself. weftd believes nothing of it: what a worker writes is a number to show or a
 * bound to be checked.
 */
#ifndef WEFT_IPC_PAGE_H
#define WEFT_IPC_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "refusal.h"
#include "ipc/credit.h"

#define WORKER_PAGE_SIZE 8192u

/* Time for mapping what was just granted: a millisecond or two if host memory is just
 * being made, some tenths if not. */
#define PAGE_MAPPING_NS (10 * NSEC_PER_MSEC)

/* One thing that the guest asked for and was refused; written before it is counted. */
struct page_refusal {
	char what[REFUSAL_TEXT]; /* printable, NUL-terminated */
	uint32_t kind;           /* enum refusal */
	uint32_t pad;
	_Atomic uint64_t count;
};

/* Work that the device has of a session. */
enum page_pending {
	PAGE_NO_WORK,
	PAGE_KERNELS, /* and copies */
	PAGE_COPIES
};

/* Resources of an SM: threads, registers, shared memory, blocks. And the parts of a kernel's blocks
 * with which its speed is known. */
#define PAGE_KERNEL_RESOURCES 4u
#define PAGE_KERNEL_PARTS     4u

#define PAGE_FORMS_MAX        16u

/* A kernel and what became of it, as struct device_form. */
struct page_form {
	char name[64], why[64]; /* NUL-terminated */
	uint32_t cost;
	uint32_t
		rewritten; /* 1: its second form is used, and why is struct device_form's no_yield */
};

/* All of their blocks, since nobody else runs kernels at once; or although somebody does. */
#define PAGE_KERNEL_ALONE 0u
#define PAGE_KERNEL_ALL   1000u
/* Somebody else's kernels find no room beside blocks that stay: all run as they are. */
#define PAGE_KERNEL_PLAIN 2000u

struct worker_page {
	/* The worker writes: */
	_Atomic uint64_t calls, posts; /* commands handled, with and without a reply */
	_Atomic uint64_t launches;
	_Atomic uint64_t bytes_to_device, bytes_from_device; /* copies of the guest */
	_Atomic uint64_t memory_bytes, memory_peak_bytes;
	/* Device memory by where it is: it could move out now, it cannot; it is in host
	 * memory, within reach of kernels or not. And bytes that moved, ever. */
	_Atomic uint64_t movable_bytes, pinned_bytes, mapped_bytes, swapped_bytes;
	_Atomic uint64_t moved_out_bytes, moved_in_bytes;
	_Atomic uint64_t last_submit_ns; /* of work for the device; clock_now_ns() */

	/* Both write: */
	struct credit credit; /* device memory */
	struct credit wmem;   /* worker memory */

	/* weftd writes, in clock_now_ns(): */
	/* No host memory is to be made ahead until then, because somebody needs the
	 * driver for something better. */
	_Atomic uint64_t host_pause_ns;
	/* Until then none is made for a move that is waited for, either: somebody maps
	 * what it was just granted, which is given PAGE_MAPPING_NS. */
	_Atomic uint64_t mapping_until_ns;
	/* Host memory that it may hold besides what is evicted in it, and what it was told to
	 * make ready; 0: nobody has said, as much as it likes. */
	_Atomic uint64_t host_keep_bytes;

	/* The worker writes: */
	_Atomic uint64_t lanes; /* their threads */
	/* Lanes that weftd told of and that are no more, or came to nothing. */
	_Atomic uint64_t lanes_ended;
	_Atomic uint64_t computes; /* not 0 once it has had a context */
	/* Share of the last tick with a kernel running, and with memory read or written;
	 * and when that was measured. */
	_Atomic uint64_t busy_permille, memory_permille, busy_at_ns;
	_Atomic uint64_t busy_ns; /* time with a kernel running, ever */
	/* refusals[0] to [n_refusals - 1] are complete; what did not fit is
	 * other_refusals */
	_Atomic uint64_t n_refusals, other_refusals;
	struct page_refusal refusals[REFUSAL_MAX];

	/* weftd writes: not 0 while the session is traced, and TRACING_MEMORY while its memory
	 * is, too (trace.h). */
	_Atomic uint64_t tracing;

	/* The worker writes: */
	/* 1 from a launch until nothing has run for some seconds. */
	_Atomic uint64_t computing;
	_Atomic uint64_t slice_us; /* that its device took last; 0: the driver's */
	/* How often it was looked whether work waits or runs, and how often there was some. */
	_Atomic uint64_t looks, looks_pending;
	_Atomic uint64_t pending;    /* enum page_pending, at the last look */
	_Atomic uint64_t waiting;    /* 1: and some that was not let to the device */
	/* Part of moved_out_bytes that was not copied, since host memory had it. */
	_Atomic uint64_t unchanged_bytes;
	/* Contents of memory that has come back which host memory still has. */
	_Atomic uint64_t kept_bytes;
	/* Memory that the next turn will most likely do without (memory/cold.h): part of what
	 * could move, and of what is in host memory; and what was named there, ever. */
	_Atomic uint64_t cold_bytes, cold_out_bytes, missed_bytes;
	/* Kernels of images that were to be rewritten, those that were, and their launches. */
	_Atomic uint64_t kernels, kernels_rewritten, launches_rewritten;
	/* The kernel with a copy that it runs most of: blocks that an SM has room for; what each
	 * takes of the SM's resources, in millionths; and its speed with so many parts of the
	 * blocks, per mille, 0: not known. */
	_Atomic uint64_t kernel_blocks, kernel_need[PAGE_KERNEL_RESOURCES],
		kernel_speed[PAGE_KERNEL_PARTS];
	_Atomic uint64_t kernel_fixed; /* 1: its grid has no more than these blocks */

	/* weftd writes: per mille of such blocks that kernels are to take. */
	_Atomic uint64_t kernel_limit;

	/* The worker writes: kernels, forms[0] to [n_forms - 1]; what it has learnt since then of
	 * one changes, and who reads it meanwhile finds some of both. */
	_Atomic uint64_t n_forms;
	struct page_form forms[PAGE_FORMS_MAX];

	/* For how long it has had the device, at the last look, while it computed: exact, but for
	 * time in which it had nothing to do and nobody else wanted the device. 0: nobody tells;
	 * else 1 more than that. */
	_Atomic uint64_t had_ns;
};
static_assert(sizeof(struct worker_page) <= WORKER_PAGE_SIZE, "one mapping has it all");

#endif
