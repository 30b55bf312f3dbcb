/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory. Each piece is the host's or the device's (managed.c), where the process can
 * close pages (core/pages.h); elsewhere, and where there are many tiny allocations, it is host
 * memory that program and device share (hostmem_alloc.c).
 */
#ifndef WEFT_GUEST_MANAGED_H
#define WEFT_GUEST_MANAGED_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "core/guest.h"
#include "core/pages.h"
#include "object/hostmem.h"

struct managed_mem; /* one whose pieces move */
struct carried;     /* one without a window (copy/carried.h) */

/* Least that moves by itself, in bytes: device memory is mapped in no smaller parts. */
#define MANAGED_MOVES_MIN ((size_t)2 << 20)
/* Tiny allocations, in bytes: of these only so many share pages that move, for in such pages each
 * takes more room than it needs. */
#define MANAGED_TINY_MAX ((size_t)4 << 10)
#define MANAGED_TINY_N   32u

/* ---- api/object/managed.c ---- */

/* Whether dptr is in managed memory; then *ret is what cuMemFree() says of it, which has waited
 * for the device and freed it if it begins there. Any thread, no command begun. */
bool managed_take(struct guest_thread *t, CUdeviceptr dptr, CUresult *ret);

/* ---- managed.c ---- */

/* Allocates h->size bytes in pieces that move, and fills in base, dev, host and moves; the
 * caller enters it into the table. shared: for several small allocations, which kernels and program
 * may use at once; it moves later. NOT_SUPPORTED: there are none here. */
CUresult managed_new(struct guest_thread *t, struct hostmem *h, bool shared);
/* Frees one that is in no table any more, after waiting for the device. */
CUresult managed_end(struct guest_thread *t, struct managed_mem *m);

/* Moves all pieces that [addr, addr + size) has a part of, as far as there is room for them, and
 * if the device is quiet soon: a kernel may wait for what the program does next. CUDA_SUCCESS,
 * or the session is lost. */
CUresult managed_prefetch(struct guest_thread *t, struct managed_mem *m, uint64_t addr,
			  uint64_t size, bool to_device);
/* Says of one allocation, which did not say so before, that launches leave it where it is; or that
 * they need not any more. */
void managed_stay(struct managed_mem *m, bool stays);

/* Says of one allocation that the program reads what kernels have far more often than it writes, or
 * that it does so no more. */
void managed_read_mostly(struct managed_mem *m, bool does);

/* Allocations that move or are carried, and those that launches might move now, all or a part of. */
extern _Atomic unsigned managed_moving, managed_waiting;

/* Lock and thread of either kind, of which a process has one. A piece moves under the lock;
 * *ret_old: the thread's signals, which wait until managed_leave(). */
extern pthread_mutex_t managed_lock;
void managed_enter(sigset_t *ret_old);
void managed_leave(const sigset_t *old);
/* Whether pages can be closed, and there is a lane to bring pieces back by, when one is touched
 * (pages_start()). */
bool managed_can_serve(pages_touched *touched_page);
/* Takes the lock, on the thread that serves touches, which has no lane until it is first needed. */
void managed_serve_locked(void);

/* Between managed_begin() and managed_done(). */
struct managed_hold {
	bool held;
	sigset_t old; /* the thread's signals, which wait */
};

/* Memory that is carried, copies being in a room above this one; NULL: there never was any. */
extern const struct managed_carrier {
	CUresult (*begin)(struct guest_thread *t, struct managed_hold *h);
	void (*done)(struct managed_hold *h);
	/* Frees one that is in no table any more, after waiting for the device. */
	CUresult (*end)(struct guest_thread *t, struct carried *c);
	/* In a forked child, which has none of it. */
	void (*after_fork)(void);
} * managed_carrier;

/*
 * Around the commands for what runs or copies on the device: where memory is carried, gives it all
 * that the program has, and nothing comes back until what is begun has been said. The thread touches
 * no memory of the program's meanwhile that might be managed. If it fails there is nothing to end.
 */
static inline CUresult managed_begin(struct guest_thread *t, struct managed_hold *h)
{
	h->held = false;
	return unlikely(managed_carrier) ? managed_carrier->begin(t, h) : CUDA_SUCCESS;
}

static inline void managed_done(struct managed_hold *h)
{
	if (unlikely(h->held))
		managed_carrier->done(h);
}

/* Whether an address of the device's part of the band is the host's as well. */
static inline bool managed_is(uint64_t addr)
{
	struct hostmem h;

	return unlikely(atomic_load_explicit(&managed_moving, memory_order_relaxed)) &&
	       hostmem_find(addr, &h) && (h.moves || h.carried);
}

/* Moves what n words of a launch name to the device. */
void managed_named(struct guest_thread *t, const uint64_t *words, size_t n);

/* Allocations that move which parameters of a graph name: as many as there are places. */
struct managed_names {
	unsigned n;
	uint64_t base[16];
};
/* Adds those that bytes of parameters name. */
void managed_note(struct managed_names *names, const void *params, size_t bytes);

/* In a forked child, which has none of it. */
void managed_after_fork(void);

#endif
