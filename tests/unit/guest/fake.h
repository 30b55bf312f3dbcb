/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that the tests of the guest library control: it speaks the real protocol over
 * a real socket, keeps memory in a plain array, and instead of executing remembers what
 * it was asked. One per test process.
 */
#ifndef WEFT_TEST_GUEST_FAKE_H
#define WEFT_TEST_GUEST_FAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ops.h"

#define FAKE_BAND_BASE 0x200000000000ull
#define FAKE_BAND_SIZE 0x080000000000ull
#define FAKE_HEAP_SIZE (16u << 20) /* device memory: the band's beginning */

/* Every module has these functions: by name, by index. */
enum fake_func {
	FAKE_PLAIN,
	FAKE_ODD,
	FAKE_LARGE,
	FAKE_EMPTY,
	FAKE_NUM_FUNCS
};
/* plain(u64, u64, u32): offsets 0, 8, 16. odd(u8, [gap] u64, 3 bytes): 0, 8, 16.
 * large(32,764 bytes). empty(). */

struct fake_launch {
	struct launch_kernel_cmd cmd;
	struct wire_launch_attr attrs[16];
	uint8_t params[32768];
};

struct fake {
	/* Counts and last arguments; read them after a call that waits. */
	_Atomic unsigned lanes, launches, mallocs, functions_asked, images, ctx_sets;
	_Atomic unsigned stream_creates, stream_destroys, pieces, retains, releases;
	_Atomic unsigned calls, posts, links;
	_Atomic unsigned refusals;       /* messages about them */
	struct stream_create_cmd last_stream;
	struct refused_cmd last_refusal; /* see fake_last_refusal() */
	_Atomic uint64_t limit[8];       /* of the one context, rounded up to 256 */
	uint64_t last_image_size;
	char last_image[256]; /* its beginning */
	_Atomic uint64_t
		last_source; /* what module_load says its code was compiled from */

	/* Answers; set before the call. */
	_Atomic uint32_t sticky;    /* in every reply and in the status line */
	_Atomic uint32_t fail_next; /* result of the next call, once */
	_Atomic uint32_t beyond;    /* bytes after the heap that it says are there */
	_Atomic uint32_t block; /* memory is allocations of that size; 0: one of all */
	_Atomic uint32_t load_status; /* of module_load, which brings logs too */
	_Atomic uint32_t features;    /* enum feature, in the reply to session_open */
	_Atomic bool deaf;            /* does not answer any more */
	uint32_t api_hash;            /* of its messages: WIRE_API_HASH */
	char release[16];             /* its version: WEFT_VERSION */
	uint16_t known[WIRE_NUM_OPS]; /* in the reply to operations */
	uint32_t fixed[WIRE_NUM_OPS]; /* bytes of a reply's structure; 0: as they are */
	uint8_t *heap;
};

/* Result of every link. */
#define FAKE_CODE "\177ELF machine code"

/* Returns the last refusal, as the worker took note of it. */
struct refused_cmd fake_last_refusal(void);

/*
 * Starts the worker and points WEFT_HOST at it. with_window: rings in shared memory, else
 * everything over the socket.
 */
struct fake *fake_start(bool with_window);

struct fake *fake_get(void);

/* Every connection breaks, and nobody listens any more. */
void fake_kill(struct fake *f);

/* The launch that came last. */
void fake_last_launch(struct fake_launch *ret_launch);

/* Before reading last_image or heap: they are what the last reply left. */
void fake_drain(struct fake *f);

#endif
