/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that a process runs most of, and what a block of it takes of an SM. */
#include "base/macros.h"
#include "device/rewrite/code.h"

/* Registers are given to warps, so many at a time, since Volta. */
#define WARP_THREADS   32u
#define REGISTERS_STEP 256u

static uint32_t part_of(uint64_t need, int all)
{
	return all > 0 ? (uint32_t)MIN(need * DEV_SM_PARTS / (unsigned)all, UINT32_MAX)
		       : 0;
}

static unsigned attribute_of(struct dev_func *f, CUfunction_attribute attr)
{
	int value;

	return codes.under->func.attribute(f, attr, &value) || value < 0
		       ? 0
		       : (unsigned)value;
}

static void need_of(const struct kernel *k, struct device_kernel *ret)
{
	const struct device_sm *sm = &codes.sm_has;
	unsigned threads, shared, fixed;
	uint64_t warps, registers;

	fits_of(k, &threads, &shared, &ret->blocks);
	fixed = atomic_load_explicit(&k->fixed, memory_order_relaxed);
	if (fixed) {
		ret->fixed = true;
		ret->blocks = fixed;
	}
	warps = (threads + WARP_THREADS - 1) / WARP_THREADS;
	registers = ALIGN_UP((uint64_t)attribute_of(k->copy, CU_FUNC_ATTRIBUTE_NUM_REGS) *
				     WARP_THREADS,
			     (uint64_t)REGISTERS_STEP);
	ret->need[DEV_SM_THREADS] = part_of(warps * WARP_THREADS, sm->threads);
	ret->need[DEV_SM_REGISTERS] = part_of(warps * registers, sm->registers);
	ret->need[DEV_SM_SHARED] = part_of(
		(uint64_t)shared +
			attribute_of(k->copy, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) +
			(unsigned)MAX(sm->reserved_shared, 0),
		sm->shared);
	ret->need[DEV_SM_BLOCKS] = part_of(1, sm->blocks);
}

/* A block takes so long, where nobody has timed it. */
#define GUESS_NS 1000.0

/* Work that it has done since the last look, in nanoseconds. */
static double work_of(struct kernel *k)
{
	uint64_t blocks = atomic_load_explicit(&k->blocks, memory_order_relaxed);
	double ns = k->trial.cost.ns[COST_PARTS];
	uint64_t n = blocks - k->blocks_seen;

	k->blocks_seen = blocks;
	return (double)n * (ns > 0 ? ns : GUESS_NS);
}

/* Whether there were launches without a copy since the last look. */
static bool others_ran(void)
{
	uint64_t n = atomic_load_explicit(&codes.others, memory_order_relaxed);
	bool any = n != codes.others_seen;

	codes.others_seen = n;
	return any;
}

bool busiest(struct device *dev, struct device_kernel *ret)
{
	bool others;
	double most = 0, work;
	struct kernel *k, *found = NULL;
	const void *key;

	*ret = (struct device_kernel){0};
	pthread_mutex_lock(&codes.lock);
	if (pthread_mutex_trylock(
		    &codes.trial_lock)) { /* it may wait for room in a queue */
		pthread_mutex_unlock(&codes.lock);
		return false;
	}
	others = others_ran();
	for (size_t at = 0; (k = table_next(&codes.kernels, &at, &key)) != NULL;) {
		work = work_of(k);
		if (work > most) {
			most = work;
			found = k;
		}
	}
	if (found) {
		if (atomic_load_explicit(&found->verdict, memory_order_relaxed) !=
		    COST_LEAVE)
			need_of(found, ret);
		for (unsigned i = 1; i <= COST_PARTS; i++)
			ret->speed[i - 1] = cost_speed(&found->trial.cost, i);
	}
	pthread_mutex_unlock(&codes.trial_lock);
	pthread_mutex_unlock(&codes.lock);
	return found || others;
}
