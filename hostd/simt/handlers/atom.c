/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics. Other blocks run on other threads, so these are the processor's atomics, all
 * sequentially consistent: no weaker order is cheaper on it. Shared memory is touched by
 * one thread at a time, yet takes the same path. op->d = -1: nobody wants the old value.
 *
 * Across the bus a GPU reads, changes and writes back: what the host's processors write meanwhile is
 * lost, and only kernels wait for one another.
 */
#include <pthread.h>

#include "simt/handlers/half.h"
#include "simt/mem.h"

typedef unsigned __int128 u128;

#define AT(T, a) ((T *)(uintptr_t)(a))
#define SEQ      __ATOMIC_SEQ_CST

static pthread_mutex_t bus = PTHREAD_MUTEX_INITIALIZER;

#define ATOM(name, T, body)                                                              \
	static SIMT_HANDLER(atom_##name)                                                 \
	{                                                                                \
		const T *pb = SRC(T, op->b), *pc = SRC(T, op->c);                        \
		T in[SIMT_WARP], out[SIMT_WARP], cmp[SIMT_WARP];                         \
		u64 t[SIMT_WARP];                                                        \
		bool polls = false, moved = false;                                       \
                                                                                         \
		if (unlikely(!mem_addr(w, op, m, r, t, sizeof(T), SIMT_PERM_WRITE)))     \
			return NULL;                                                     \
		memcpy(in, pb, sizeof(in));                                              \
		memcpy(cmp, pc, sizeof(cmp));                                            \
		FOR_LANES(m, k)                                                          \
		{                                                                        \
			T *p = AT(T, t[k]), b = in[k], c = cmp[k], old, read;            \
			bool over_bus = is_over_bus(w, t[k]);                            \
                                                                                         \
			(void)c;                                                         \
			if (unlikely(over_bus)) {                                        \
				pthread_mutex_lock(&bus);                                \
				read = *(volatile T *)p;                                 \
				p = &read;                                               \
			}                                                                \
			body;                                                            \
			if (unlikely(over_bus)) {                                        \
				*(volatile T *)AT(T, t[k]) = read;                       \
				pthread_mutex_unlock(&bus);                              \
			}                                                                \
			out[k] = old;                                                    \
		}                                                                        \
		if (op->d >= 0) {                                                        \
			T *d = DST(T, op->d);                                            \
                                                                                         \
			FOR_LANES(m, k)                                                  \
			d[k] = out[k];                                                   \
		}                                                                        \
		return polls ? simt_polled(w, op, moved) : op + 1;                       \
	}

/* For what the processor has no instruction for: compare and exchange until it holds. */
#define UPDATE(next)                                                                     \
	do {                                                                             \
		old = __atomic_load_n(p, __ATOMIC_RELAXED);                              \
	} while (({                                                                      \
		__typeof__(old) _n = (next);                                             \
		!__atomic_compare_exchange_n(p, &old, _n, false, SEQ, SEQ);              \
	}))

#define INTEGER(T, S)                                                                    \
	ATOM(add_##T, T, old = __atomic_fetch_add(p, b, SEQ))                            \
	ATOM(and_##T, T, old = __atomic_fetch_and(p, b, SEQ))                            \
	ATOM(or_##T, T, old = __atomic_fetch_or(p, b, SEQ))                              \
	ATOM(xor_##T, T, old = __atomic_fetch_xor(p, b, SEQ))                            \
	ATOM(exch_##T, T, old = __atomic_exchange_n(p, b, SEQ))                          \
	ATOM(cas_##T, T,                                                                 \
	     (old = b, polls = true,                                                     \
	      moved |= __atomic_compare_exchange_n(p, &old, c, false, SEQ, SEQ)))        \
	ATOM(min_##T, T, UPDATE(old < b ? old : b))                                      \
	ATOM(max_##T, T, UPDATE(old > b ? old : b))                                      \
	ATOM(min_##S, T, UPDATE((S)old < (S)b ? old : b))                                \
	ATOM(max_##S, T, UPDATE((S)old > (S)b ? old : b))                                \
	ATOM(inc_##T, T, UPDATE(old >= b ? 0 : old + 1))                                 \
	ATOM(dec_##T, T, UPDATE(old == 0 || old > b ? b : old - 1))

INTEGER(u32, s32)
INTEGER(u64, s64)
ATOM(exch_u16, u16, old = __atomic_exchange_n(p, b, SEQ))
ATOM(cas_u16, u16,
     (old = b, polls = true,
      moved |= __atomic_compare_exchange_n(p, &old, c, false, SEQ, SEQ)))

static inline u32 add_f32_bits(u32 a, u32 b)
{
	return f32_bits(canon(f32_of(a) + f32_of(b)));
}

/* Global memory adds f32 without subnormals, shared memory with them. */
static inline u32 add_f32_at(const struct simt_warp *w, u64 addr, u32 a, u32 b)
{
	bool global = addr - w->mem_base < w->mem_size;

	if (!global)
		return add_f32_bits(a, b);
	return f32_bits(canon(ftz(ftz(f32_of(a)) + ftz(f32_of(b)))));
}

static inline u64 add_f64_bits(u64 a, u64 b)
{
	return f64_bits(f64_of(a) + f64_of(b));
}

static inline u16 add_f16_bits(u16 a, u16 b)
{
	return f32_to_f16(canon(f16_to_f32(a) + f16_to_f32(b)));
}

static inline u16 add_bf16_bits(u16 a, u16 b)
{
	return f32_to_bf16(bf16_to_f32(a) + bf16_to_f32(b));
}

#define PAIR(f, a, b)                                                                    \
	((u32)f((u16)((a) >> 16), (u16)((b) >> 16)) << 16 | f((u16)(a), (u16)(b)))

static inline u16 minmax_half(u16 a, u16 b, bool bf, bool max)
{
	f32 x = bf ? bf16_to_f32(a) : f16_to_f32(a),
	    y = bf ? bf16_to_f32(b) : f16_to_f32(b);
	f32 v = max ? max_f32(x, y) : min_f32(x, y);

	return bf ? f32_to_bf16(v) : f32_to_f16(v);
}

#define MIN_F16(a, b)  minmax_half(a, b, false, false)
#define MAX_F16(a, b)  minmax_half(a, b, false, true)
#define MIN_BF16(a, b) minmax_half(a, b, true, false)
#define MAX_BF16(a, b) minmax_half(a, b, true, true)

ATOM(add_f32, u32, UPDATE(add_f32_at(w, t[k], old, b)))
ATOM(add_f64, u64, UPDATE(add_f64_bits(old, b)))
ATOM(add_f16, u16, UPDATE(add_f16_bits(old, b)))
ATOM(add_bf16, u16, UPDATE(add_bf16_bits(old, b)))
ATOM(add_f16x2, u32, UPDATE(PAIR(add_f16_bits, old, b)))
ATOM(add_bf16x2, u32, UPDATE(PAIR(add_bf16_bits, old, b)))
ATOM(min_f16, u16, UPDATE(MIN_F16(old, b)))
ATOM(max_f16, u16, UPDATE(MAX_F16(old, b)))
ATOM(min_bf16, u16, UPDATE(MIN_BF16(old, b)))
ATOM(max_bf16, u16, UPDATE(MAX_BF16(old, b)))
ATOM(min_f16x2, u32, UPDATE(PAIR(MIN_F16, old, b)))
ATOM(max_f16x2, u32, UPDATE(PAIR(MAX_F16, old, b)))
ATOM(min_bf16x2, u32, UPDATE(PAIR(MIN_BF16, old, b)))
ATOM(max_bf16x2, u32, UPDATE(PAIR(MAX_BF16, old, b)))

/* Through cmpxchg16b itself: the library's version may take a lock, which other
 * processes that share the memory would not see. */
static inline u128 cas128(u128 *p, u128 expect, u128 next)
{
	return __sync_val_compare_and_swap(p, expect, next);
}

ATOM(cas_u128, u128, (old = cas128(p, b, c), polls = true, moved |= old == b))
ATOM(
	exch_u128, u128, do { old = cas128(p, 0, 0); } while (cas128(p, old, b) != old))

#define INT_ENTRIES(T, S)                                                                \
	{"atom.add." #T, atom_add_##T}, {"atom.and." #T, atom_and_##T},                  \
		{"atom.or." #T, atom_or_##T}, {"atom.xor." #T, atom_xor_##T},            \
		{"atom.exch." #T, atom_exch_##T}, {"atom.cas." #T, atom_cas_##T},        \
		{"atom.min." #T, atom_min_##T}, {"atom.max." #T, atom_max_##T},          \
		{"atom.min." #S, atom_min_##S}, {"atom.max." #S, atom_max_##S},          \
		{"atom.inc." #T, atom_inc_##T}, {"atom.dec." #T, atom_dec_##T},

#define FLOAT_ENTRIES(T)                                                                 \
	{"atom.add." #T, atom_add_##T}, {"atom.min." #T, atom_min_##T},                  \
		{"atom.max." #T, atom_max_##T},

const struct simt_handler simt_h_atom[] = {
	INT_ENTRIES(u32, s32) INT_ENTRIES(u64, s64) FLOAT_ENTRIES(f16) FLOAT_ENTRIES(bf16)
		FLOAT_ENTRIES(f16x2) FLOAT_ENTRIES(bf16x2){"atom.add.f32", atom_add_f32},
	{"atom.add.f64", atom_add_f64},
	{"atom.exch.u16", atom_exch_u16},
	{"atom.cas.u16", atom_cas_u16},
	{"atom.cas.u128", atom_cas_u128},
	{"atom.exch.u128", atom_exch_u128},
	{NULL, NULL},
};
