/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores. Every access is a plain load or store of its size, which the
 * processor keeps whole when aligned and orders as acquire and release ask; only
 * sequentially consistent fences are instructions of their own.
 */
#include "simt/mem.h"

#define AT(T, a) ((T *)(uintptr_t)(a))

/* ld.<memory type>.<register type> */
#define LOAD(ME, RT)                                                                     \
	static SIMT_HANDLER(ld_##ME##_##RT)                                              \
	{                                                                                \
		RT *d = DST(RT, op->d);                                                  \
		u64 t[SIMT_WARP];                                                        \
                                                                                         \
		if (unlikely(!mem_addr(w, op, m, r, t, sizeof(ME), SIMT_PERM_READ)))     \
			return NULL;                                                     \
		if (m == SIMT_FULL && in_a_row(t, sizeof(ME))) {                         \
			const ME *p = AT(const ME, t[0]);                                \
			LANES d[i] = (RT)p[i];                                           \
		} else if (m == SIMT_FULL) {                                             \
			for (unsigned i = 0; i < SIMT_WARP; i++)                         \
				d[i] = (RT)*AT(const ME, t[i]);                          \
		} else {                                                                 \
			FOR_LANES(m, k)                                                  \
			d[k] = (RT)*AT(const ME, t[k]);                                  \
		}                                                                        \
		return op + 1;                                                           \
	}                                                                                \
	/* several: rows at ext[0 .. n-1] */                                             \
	static SIMT_HANDLER(ldv_##ME##_##RT)                                             \
	{                                                                                \
		u64 t[SIMT_WARP];                                                        \
		struct simt_op one = *op;                                                \
                                                                                         \
		one.disp = (s64)(s32)op->e;                                              \
		if (unlikely(!mem_addr(w, &one, m, r, t, sizeof(ME) * op->n,             \
				       SIMT_PERM_READ)))                                 \
			return NULL;                                                     \
		for (unsigned k = 0; k < op->n; k++) {                                   \
			RT *d = DST(RT, op->ext[k]);                                     \
                                                                                         \
			if (op->ext[k] < 0)                                              \
				continue;                                                \
			if (m == SIMT_FULL)                                              \
				for (unsigned i = 0; i < SIMT_WARP; i++)                 \
					d[i] = (RT)AT(const ME, t[i])[k];                \
			else                                                             \
				FOR_LANES(m, i)                                          \
			d[i] = (RT)AT(const ME, t[i])[k];                                \
		}                                                                        \
		return op + 1;                                                           \
	}

#define STORE(ME, RT)                                                                    \
	static SIMT_HANDLER(st_##ME##_##RT)                                              \
	{                                                                                \
		const RT *b = SRC(RT, op->b);                                            \
		u64 t[SIMT_WARP];                                                        \
                                                                                         \
		if (unlikely(!mem_addr(w, op, m, r, t, sizeof(ME), SIMT_PERM_WRITE)))    \
			return NULL;                                                     \
		if (m == SIMT_FULL && in_a_row(t, sizeof(ME))) {                         \
			ME *p = AT(ME, t[0]);                                            \
			LANES p[i] = (ME)b[i];                                           \
		} else {                                                                 \
			FOR_LANES(m, k)                                                  \
			*AT(ME, t[k]) = (ME)b[k];                                        \
		}                                                                        \
		return op + 1;                                                           \
	}                                                                                \
	static SIMT_HANDLER(stv_##ME##_##RT)                                             \
	{                                                                                \
		u64 t[SIMT_WARP];                                                        \
		struct simt_op one = *op;                                                \
                                                                                         \
		one.disp = (s64)(s32)op->e;                                              \
		if (unlikely(!mem_addr(w, &one, m, r, t, sizeof(ME) * op->n,             \
				       SIMT_PERM_WRITE)))                                \
			return NULL;                                                     \
		for (unsigned k = 0; k < op->n; k++) {                                   \
			const RT *b = SRC(RT, op->ext[k]);                               \
                                                                                         \
			FOR_LANES(m, i)                                                  \
			AT(ME, t[i])[k] = (ME)b[i];                                      \
		}                                                                        \
		return op + 1;                                                           \
	}

typedef unsigned __int128 u128;

#define LOADS(X)                                                                         \
	X(u8, u16)                                                                       \
	X(s8, u16)                                                                       \
	X(u16, u16)                                                                      \
	X(u8, u32)                                                                       \
	X(s8, u32)                                                                       \
	X(u16, u32)                                                                      \
	X(s16, u32)                                                                      \
	X(u32, u32)                                                                      \
	X(u8, u64)                                                                       \
	X(s8, u64)                                                                       \
	X(u16, u64)                                                                      \
	X(s16, u64)                                                                      \
	X(u32, u64)                                                                      \
	X(s32, u64)                                                                      \
	X(u64, u64)                                                                      \
	X(u128, u128)

#define STORES(X)                                                                        \
	X(u8, u16)                                                                       \
	X(u16, u16)                                                                      \
	X(u8, u32)                                                                       \
	X(u16, u32)                                                                      \
	X(u32, u32)                                                                      \
	X(u8, u64)                                                                       \
	X(u16, u64)                                                                      \
	X(u32, u64)                                                                      \
	X(u64, u64)                                                                      \
	X(u128, u128)

LOADS(LOAD)
STORES(STORE)

/* A kernel parameter at a fixed place: op->disp was checked when lowering. */
#define LDP(ME, RT)                                                                      \
	static SIMT_HANDLER(ldp_##ME##_##RT)                                             \
	{                                                                                \
		RT *d = DST(RT, op->d), v = (RT)*AT(const ME, w->params + op->disp);     \
                                                                                         \
		if (likely(m == SIMT_FULL))                                              \
			LANES d[i] = v;                                                  \
		else                                                                     \
			LANES d[i] = LANE_ON(m, i) ? v : d[i];                           \
		return op + 1;                                                           \
	}
LOADS(LDP)

/*
 * Shared memory through 32-bit registers, the usual case: offsets stay 32 bits wide.
 * Whatever is odd (other blocks of a cluster, faults) goes the ordinary way.
 */
static inline bool shared_row(const struct simt_warp *w, const struct simt_op *op,
			      uint32_t m, const uint8_t *r, u32 *t, u32 bytes)
{
	const u32 *a = SRC(u32, op->a);
	u32 disp = (u32)op->disp, any = a[__builtin_ctz(m)] + disp, most = 0, all = 0;

	if (m == SIMT_FULL)
		LANES t[i] = a[i] + disp;
	else
		LANES t[i] = LANE_ON(m, i) ? a[i] + disp : any;
	for (unsigned i = 0; i < SIMT_WARP; i++) {
		most = t[i] > most ? t[i] : most;
		all |= t[i];
	}
	return w->shared_bytes >= bytes && most <= w->shared_bytes - bytes &&
	       !(all & (bytes - 1));
}

static inline bool offsets_in_a_row(const u32 *t, u32 size)
{
	u32 diff = 0;

	for (unsigned i = 0; i < SIMT_WARP; i++)
		diff |= t[i] ^ (t[0] + i * size);
	return diff == 0;
}

#define LDS(ME, RT)                                                                      \
	static SIMT_HANDLER(lds_##ME##_##RT)                                             \
	{                                                                                \
		RT *d = DST(RT, op->d);                                                  \
		u32 t[SIMT_WARP];                                                        \
                                                                                         \
		if (unlikely(!shared_row(w, op, m, r, t, sizeof(ME))))                   \
			return ld_##ME##_##RT(w, op, m, r);                              \
		if (m == SIMT_FULL && offsets_in_a_row(t, sizeof(ME))) {                 \
			const ME *p = AT(const ME, w->shared + t[0]);                    \
			LANES d[i] = (RT)p[i];                                           \
		} else if (m == SIMT_FULL) {                                             \
			for (unsigned i = 0; i < SIMT_WARP; i++)                         \
				d[i] = (RT)*AT(const ME, w->shared + t[i]);              \
		} else {                                                                 \
			FOR_LANES(m, k)                                                  \
			d[k] = (RT)*AT(const ME, w->shared + t[k]);                      \
		}                                                                        \
		return op + 1;                                                           \
	}

#define STS(ME, RT)                                                                      \
	static SIMT_HANDLER(sts_##ME##_##RT)                                             \
	{                                                                                \
		const RT *b = SRC(RT, op->b);                                            \
		u32 t[SIMT_WARP];                                                        \
                                                                                         \
		if (unlikely(!shared_row(w, op, m, r, t, sizeof(ME))))                   \
			return st_##ME##_##RT(w, op, m, r);                              \
		if (m == SIMT_FULL && offsets_in_a_row(t, sizeof(ME))) {                 \
			ME *p = AT(ME, w->shared + t[0]);                                \
			LANES p[i] = (ME)b[i];                                           \
		} else {                                                                 \
			FOR_LANES(m, k)                                                  \
			*AT(ME, w->shared + t[k]) = (ME)b[k];                            \
		}                                                                        \
		return op + 1;                                                           \
	}
LOADS(LDS)
STORES(STS)

static SIMT_HANDLER(fence)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return op + 1;
}

#define LD_ENTRY(ME, RT)                                                                 \
	{"ld." #ME "." #RT, ld_##ME##_##RT}, {"ldv." #ME "." #RT, ldv_##ME##_##RT},      \
		{"ldp." #ME "." #RT, ldp_##ME##_##RT},
#define LDS_ENTRY(ME, RT) {"lds." #ME "." #RT, lds_##ME##_##RT},
#define STS_ENTRY(ME, RT) {"sts." #ME "." #RT, sts_##ME##_##RT},
#define ST_ENTRY(ME, RT)                                                                 \
	{"st." #ME "." #RT, st_##ME##_##RT}, {"stv." #ME "." #RT, stv_##ME##_##RT},

const struct simt_handler SIMT_ISA_NAME(simt_h_mem)[] = {
	LOADS(LD_ENTRY) STORES(ST_ENTRY) LOADS(LDS_ENTRY)
		STORES(STS_ENTRY){"fence", fence},
	{NULL, NULL},
};
