// SPDX-License-Identifier: Apache-2.0
/* The state of the process; api/init.c says what changes it. */
#include "base/log.h"
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

void process_set_state(enum process_state state)
{
	/* release pairs with guest_gate() and process_get_state() */
	atomic_store_explicit(&guest_process.state, state, memory_order_release);
	atomic_store_explicit(&guest_process.gate, gate_of[state], memory_order_release);
}

void process_lost(const char *why)
{
	uint32_t ready = PROCESS_READY;

	if (!atomic_compare_exchange_strong(&guest_process.state, &ready, PROCESS_LOST))
		return;
	atomic_store_explicit(&guest_process.gate, GUEST_ERROR_LOST,
			      memory_order_release);
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
