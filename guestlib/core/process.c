/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the process; api/init.c says what changes it. */
#include "base/log.h"
#include "base/macros.h"
#include "core/global.h"
#include "core/process.h"

struct guest_process guest_process = {.gate = CUDA_ERROR_NOT_INITIALIZED};

static const uint32_t gate_of[PROCESS_NUM_STATES] = {
	[PROCESS_NEW] = CUDA_ERROR_NOT_INITIALIZED,
	[PROCESS_READY] = CUDA_SUCCESS,
	[PROCESS_LOST] = GUEST_ERROR_LOST,
	[PROCESS_FORKED] = CUDA_ERROR_NOT_INITIALIZED,
	[PROCESS_EXITING] = CUDA_ERROR_DEINITIALIZED,
};

static const char *const names[] = {
	[PROCESS_NEW] = "new",         [PROCESS_READY] = "ready",
	[PROCESS_LOST] = "lost",       [PROCESS_FORKED] = "forked",
	[PROCESS_EXITING] = "exiting",
};
static_assert(ARRAY_SIZE(names) == PROCESS_NUM_STATES, "a name for each");

static const uint8_t next[] = {
	[PROCESS_NEW] = 1 << PROCESS_READY | 1 << PROCESS_EXITING,
	[PROCESS_READY] = 1 << PROCESS_LOST | 1 << PROCESS_FORKED | 1 << PROCESS_EXITING,
	[PROCESS_LOST] = 1 << PROCESS_FORKED | 1 << PROCESS_EXITING,
	[PROCESS_FORKED] = 0,
	[PROCESS_EXITING] = 1 << PROCESS_FORKED,
};
static_assert(ARRAY_SIZE(next) == PROCESS_NUM_STATES, "successors of each");

bool process_set_state(enum process_state to)
{
	uint32_t from = process_get_state();

	do {
		/* No assertion: exit() in one thread may come before the end of cuInit()
		 * in another, and the program must not die of it. */
		if (!(next[from] & 1 << to))
			return false;
		/* release pairs with guest_status() and process_get_state() */
	} while (!atomic_compare_exchange_weak_explicit(&guest_process.state, &from, to,
							memory_order_release,
							memory_order_relaxed));
	atomic_store_explicit(&guest_process.gate, gate_of[to], memory_order_release);
	log_debug("process: %s -> %s", names[from], names[to]);
	return true;
}

void process_lost(const char *why)
{
	if (!process_set_state(PROCESS_LOST))
		return;
	log_warning("the session on the host is over (%s): every CUDA call fails from "
		    "now on",
		    why);
}

bool guest_is_device(uint64_t addr)
{
	return (addr - guest_process.band_base < guest_process.band_size &&
		!(addr - guest_process.host_base < guest_process.host_size)) ||
	       (unlikely(atomic_load_explicit(&global_count, memory_order_relaxed)) &&
		global_covers(addr));
}

void process_warn_slow(void)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	const char *why = link_slow(guest_process.link);

	if (unlikely(why) && !atomic_flag_test_and_set(&warned))
		log_warning("no shared window (%s): calls are slower", why);
}
