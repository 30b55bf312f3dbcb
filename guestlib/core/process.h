/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the guest process as a whole: its session with a worker, the device as the
 * host described it, and whether a call may go on at all.
 *
 *	state	   a call gets			 left by
 *	NEW	   NOT_INITIALIZED		 cuInit -> READY (or stays); EXITING
 *	READY	   its work done		 -> LOST, FORKED, EXITING
 *	LOST	   GUEST_ERROR_LOST		 -> EXITING; in a child FORKED
 *	FORKED	   NOT_INITIALIZED		 never (an exec starts anew)
 *	EXITING	   DEINITIALIZED		 never; in a child FORKED
 *
 * The library connects in cuInit() and not when it is loaded: programs that only link to
 * it must run where there is no host.
 */
#ifndef WEFT_GUEST_PROCESS_H
#define WEFT_GUEST_PROCESS_H

#include <stdatomic.h>

#include "base/clock.h"
#include "core/guest.h"
#include "link.h"

enum process_state {
	PROCESS_NEW,
	PROCESS_READY,
	PROCESS_LOST,
	PROCESS_FORKED,
	PROCESS_EXITING,
	PROCESS_NUM_STATES
};

/* CUDA version that programs are told, compiled in: the integrity check contains it,
 * too. */
#define GUEST_DRIVER_VERSION 13000

/* Time for which opening a session or a lane is tried again while the host is too busy
 * for one more. */
#define PROCESS_WAIT_NS (60 * NSEC_PER_SEC)

/* Room for the attributes by number; CU_DEVICE_ATTRIBUTE_MAX of this toolkit fits. */
#define GUEST_ATTRIBUTES 192
static_assert(CU_DEVICE_ATTRIBUTE_MAX <= GUEST_ATTRIBUTES, "more attributes than room");

/* The device, as the host described it when the session opened; constant afterwards. */
struct guest_device {
	char name[96];
	uint8_t uuid[16];
	char driver[80];   /* the host driver's own version */
	uint64_t features; /* enum feature */
	uint32_t rewriter; /* of the host, as session_open has it */
	uint64_t memory_bytes;
	uint64_t host_base, host_size;         /* see struct guest_process */
	size_t granularity;                    /* granularity of cuMemCreate */
	int priority_least, priority_greatest; /* of streams */
	int attributes[GUEST_ATTRIBUTES];      /* INT_MIN: not known to the host */
};

struct guest_process {
	/* Result of every call that needs cuInit; CUDA_SUCCESS while READY. */
	_Atomic uint32_t gate;
	_Atomic uint32_t state; /* enum process_state */
	const volatile struct wire_status *status;
	const struct lane_tickets *tickets;
	uint64_t band_base, band_size;
	uint64_t host_base, host_size; /* part of the band: host memory; size 0: none */
	struct link *link;
	unsigned n_devices; /* visible ones: 0 or 1 */
	struct guest_device device;
};

extern struct guest_process guest_process;

/* The gate's code, for functions that need cuInit but neither lane nor context:
 * CUDA_SUCCESS, or what the function is to return. */
static inline CUresult guest_status(void)
{
	/* acquire pairs with the release in process_set_state(): READY publishes the
	 * fields above. */
	return atomic_load_explicit(&guest_process.gate, memory_order_acquire);
}

/* True if the program sees a device of that number. */
static inline bool guest_has_device(int number)
{
	return number >= 0 && (unsigned)number < guest_process.n_devices;
}

/* Changes the state, and opens or closes the gate with it. False: the present state does
 * not lead there, and stays. For api/init.c. Any thread. */
bool process_set_state(enum process_state to);

static inline enum process_state process_get_state(void)
{
	return atomic_load_explicit(&guest_process.state, memory_order_acquire);
}

/* The code with which the session's context was lost; 0 while all is well. */
static inline CUresult guest_sticky(void)
{
	return guest_process.status ? guest_process.status->sticky : CUDA_SUCCESS;
}

/* Warns once in a process if its calls are slower than they could be, and why. */
void process_warn_slow(void);

/* Changes READY to LOST with a message that names the reason; does nothing in the other
 * states. Any thread. */
void process_lost(const char *why);

#endif
