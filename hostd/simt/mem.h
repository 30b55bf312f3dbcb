/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the address operand of an instruction to host addresses of all lanes, checked.
 * op->x is the space, op->y has MEM_REG32, op->a the row of addresses (or offsets),
 * op->disp what is added.
 */
#ifndef WEFT_SIMT_MEM_H
#define WEFT_SIMT_MEM_H

#include "simt/handlers/row.h"

enum mem_space {
	MEM_GLOBAL, /* .global and .const */
	MEM_GENERIC,
	MEM_SHARED, /* of the block or, at higher addresses, of the cluster */
	MEM_LOCAL,
	MEM_FRAME, /* local memory at disp of the running frame; no register */
	MEM_PARAM, /* of the kernel */
};

#define MEM_REG32 (1u << 0) /* the register of the address is 32 bits wide */
#define MEM_NOREG (1u << 1) /* PARAM: no register at all */

/* Slow path: each active lane by itself, raising the fault if there is one. */
bool simt_mem_slow(struct simt_warp *w, const struct simt_op *op, uint32_t m, u64 *t,
		   unsigned bytes, unsigned perm);

static inline bool global_ok(const struct simt_warp *w, u64 addr, unsigned bytes,
			     unsigned perm)
{
	u64 off = addr - w->mem_base;

	/* others may raise permissions at any time */
	return off < w->mem_size && !(addr & (bytes - 1)) &&
	       __atomic_load_n(&w->perm[off >> SIMT_PAGE_SHIFT], __ATOMIC_RELAXED) >=
		       perm;
}

/* Memory across a bus that has no atomics. */
static inline bool is_over_bus(const struct simt_warp *w, u64 addr)
{
	u64 off = addr - w->mem_base;

	return off < w->mem_size && __atomic_load_n(&w->perm[off >> SIMT_PAGE_SHIFT],
						    __ATOMIC_RELAXED) == SIMT_PERM_BUS;
}

/* All lanes within memory that may be accessed so, and aligned. */
static inline bool global_row_ok(const struct simt_warp *w, const u64 *t, unsigned bytes,
				 unsigned perm)
{
	u64 diff = 0, low = 0;
	bool ok = true;

	for (unsigned i = 0; i < SIMT_WARP; i++) {
		diff |= t[i] ^ t[0];
		low |= t[i];
	}
	if (low & (bytes - 1))
		return false;
	if (!(diff >> SIMT_PAGE_SHIFT))
		return global_ok(w, t[0], bytes, perm);
	for (unsigned i = 0; i < SIMT_WARP; i++)
		ok &= global_ok(w, t[i], bytes, perm);
	return ok;
}

/* Lanes that do not take part get the address of one that does. */
static inline void fill_idle(u64 *t, uint32_t m)
{
	if (m != SIMT_FULL) {
		u64 any = t[__builtin_ctz(m)];

		LANES t[i] = LANE_ON(m, i) ? t[i] : any;
	}
}

/* Offsets of all lanes inside limit bytes, and aligned. */
static inline bool offsets_ok(const u64 *t, unsigned bytes, u64 limit)
{
	u64 all = 0;
	bool ok = true;

	if (limit < bytes)
		return false;
	for (unsigned i = 0; i < SIMT_WARP; i++) {
		all |= t[i];
		ok &= t[i] <= limit - bytes;
	}
	return ok && !(all & (bytes - 1));
}

/*
 * Fills t with host addresses where every lane may access bytes bytes. False: the fault
 * was raised and the handler returns NULL.
 */
static inline bool mem_addr(struct simt_warp *w, const struct simt_op *op, uint32_t m,
			    const uint8_t *r, u64 *t, unsigned bytes, unsigned perm)
{
	s64 disp = op->disp;

	if (op->x == MEM_FRAME) {
		u64 off = w->sp + (u64)disp;

		if (unlikely(off > w->local_bytes || w->local_bytes - off < bytes ||
			     (off & (bytes - 1)))) {
			LANES t[i] = off;
			return simt_mem_slow(w, op, m, t, bytes, perm);
		}
		LANES t[i] = (u64)(uintptr_t)w->local + off + (u64)i * w->local_stride;
		return true;
	}
	if (op->y & MEM_REG32) {
		const u32 *a = SRC(u32, op->a);

		LANES t[i] = (u32)(a[i] + (u32)disp);
	} else {
		const u64 *a = SRC(u64, op->a);

		LANES t[i] = a[i] + (u64)disp;
	}
	fill_idle(t, m);
	if (op->x == MEM_SHARED) {
		if (likely(offsets_ok(t, bytes, w->shared_bytes))) {
			LANES t[i] += (u64)(uintptr_t)w->shared;
			return true;
		}
	} else if (op->x == MEM_LOCAL) {
		if (likely(offsets_ok(t, bytes, w->local_bytes))) {
			LANES t[i] += (u64)(uintptr_t)w->local + (u64)i * w->local_stride;
			return true;
		}
	} else if (op->x != MEM_PARAM) {
		if (likely(global_row_ok(w, t, bytes, perm)))
			return true;
	}
	return simt_mem_slow(w, op, m, t, bytes, perm);
}

/* Lanes side by side, elements of size bytes. */
static inline bool in_a_row(const u64 *t, unsigned size)
{
	u64 diff = 0;

	for (unsigned i = 0; i < SIMT_WARP; i++)
		diff |= t[i] ^ (t[0] + (u64)i * size);
	return diff == 0;
}

#endif
