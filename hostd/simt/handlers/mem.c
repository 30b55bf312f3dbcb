/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores. Every access is a plain load or store of its size, which the
 * processor keeps whole when aligned and orders as acquire and release ask; only
 * sequentially consistent fences are instructions of their own.
 */
#include "simt/mem.h"

#define AT(T, a) ((T *)(uintptr_t)(a))

/* Vectors have up to 32 bytes: the parser takes no others (ptx_rules.c). */
#define VECTOR_MAX ((size_t)32)

typedef unsigned __int128 u128;
typedef u64 half16 __attribute__((vector_size(16), aligned(1)));

/* Memory is read, or written, at once, up to 16 bytes of it if aligned: every processor with AVX
 * does. */
static inline void copy_whole(void *to, const void *from, u32 bytes)
{
	switch (bytes) {
	case 1:
		*AT(volatile u8, to) = *AT(const volatile u8, from);
		break;
	case 2:
		*AT(volatile u16, to) = *AT(const volatile u16, from);
		break;
	case 4:
		*AT(volatile u32, to) = *AT(const volatile u32, from);
		break;
	case 8:
		*AT(volatile u64, to) = *AT(const volatile u64, from);
		break;
	case 16:
		*AT(volatile half16, to) = *AT(const volatile half16, from);
		break;
	default:
		AT(volatile half16, to)[0] = AT(const volatile half16, from)[0];
		AT(volatile half16, to)[1] = AT(const volatile half16, from)[1];
	}
}

/* A vector of each lane, one behind the other at v, from or to where t says. */
#define MOVE(BYTES, TO, FROM)                                                            \
	if (m == SIMT_FULL)                                                              \
		for (u32 i = 0; i < SIMT_WARP; i++)                                      \
			copy_whole(TO, FROM, BYTES);                                     \
	else                                                                             \
		FOR_LANES(m, i)                                                          \
	copy_whole(TO, FROM, BYTES);                                                     \
	break
#define GATHER(BYTES)  MOVE(BYTES, v + (size_t)i * (BYTES), AT(const void, t[i]))
#define SCATTER(BYTES) MOVE(BYTES, AT(void, t[i]), v + (size_t)i * (BYTES))
#define MOVES(WAY)                                                                       \
	switch (bytes) {                                                                 \
	case 2:                                                                          \
		WAY(2);                                                                  \
	case 4:                                                                          \
		WAY(4);                                                                  \
	case 8:                                                                          \
		WAY(8);                                                                  \
	case 16:                                                                         \
		WAY(16);                                                                 \
	default:                                                                         \
		WAY(32);                                                                 \
	}

static inline void gather(u8 *v, const u64 *t, u32 m, u32 bytes)
{
	MOVES(GATHER)
}

static inline void scatter(const u64 *t, const u8 *v, u32 m, u32 bytes)
{
	MOVES(SCATTER)
}

/* Loops over the elements of vectors are unrolled. */
#define FOR_EACH_N(n, fn, ...)                                                           \
	do {                                                                             \
		if ((n) == 2)                                                            \
			fn(__VA_ARGS__, 2);                                              \
		else if ((n) == 4)                                                       \
			fn(__VA_ARGS__, 4);                                              \
		else                                                                     \
			fn(__VA_ARGS__, n);                                              \
	} while (0)

/* As mem_addr(), of a vector, whose displacement lies elsewhere. */
static inline bool vector_addr(struct simt_warp *w, const struct simt_op *op, u32 m,
			       const uint8_t *r, u64 *t, u32 bytes, unsigned perm)
{
	struct simt_op one = *op;

	one.disp = (s64)(s32)op->e;
	return likely(mem_addr(w, &one, m, r, t, bytes, perm));
}

#define GET(ME, at)                                                                      \
	({                                                                               \
		ME _v;                                                                   \
		copy_whole(&_v, AT(const void, at), sizeof(ME));                         \
		_v;                                                                      \
	})
#define PUT(ME, at, value)                                                               \
	do {                                                                             \
		const ME _v = (value);                                                   \
		copy_whole(AT(void, at), &_v, sizeof(ME));                               \
	} while (0)

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
				d[i] = (RT)GET(ME, t[i]);                                \
		} else {                                                                 \
			FOR_LANES(m, k)                                                  \
			d[k] = (RT)GET(ME, t[k]);                                        \
		}                                                                        \
		return op + 1;                                                           \
	}                                                                                \
	static inline __attribute__((always_inline)) void rows_of_##ME##_##RT(           \
		const struct simt_op *op, u32 m, uint8_t *r, const ME *v, size_t n)      \
	{                                                                                \
		for (size_t k = 0; k < n; k++) {                                         \
			RT *d = DST(RT, op->ext[k]);                                     \
                                                                                         \
			if (op->ext[k] < 0)                                              \
				continue;                                                \
			if (m == SIMT_FULL)                                              \
				LANES d[i] = (RT)v[i * n + k];                           \
			else                                                             \
				FOR_LANES(m, i)                                          \
			d[i] = (RT)v[i * n + k];                                         \
		}                                                                        \
	}                                                                                \
	/* several: rows at ext[0 .. n-1] */                                             \
	static SIMT_HANDLER(ldv_##ME##_##RT)                                             \
	{                                                                                \
		const u32 bytes = (u32)sizeof(ME) * op->n;                               \
		_Alignas(16) ME v[SIMT_WARP * VECTOR_MAX / sizeof(ME)];                  \
		u64 t[SIMT_WARP];                                                        \
                                                                                         \
		if (!vector_addr(w, op, m, r, t, bytes, SIMT_PERM_READ))                 \
			return NULL;                                                     \
		gather((u8 *)v, t, m, bytes);                                            \
		FOR_EACH_N(op->n, rows_of_##ME##_##RT, op, m, r, v);                     \
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
			PUT(ME, t[k], (ME)b[k]);                                         \
		}                                                                        \
		return op + 1;                                                           \
	}                                                                                \
	static inline __attribute__((always_inline)) void rows_to_##ME##_##RT(           \
		const struct simt_warp *w, const struct simt_op *op, const uint8_t *r,   \
		ME *v, size_t n)                                                         \
	{                                                                                \
		for (size_t k = 0; k < n; k++) {                                         \
			const RT *b = SRC(RT, op->ext[k]);                               \
                                                                                         \
			LANES v[i * n + k] = (ME)b[i];                                   \
		}                                                                        \
	}                                                                                \
	static SIMT_HANDLER(stv_##ME##_##RT)                                             \
	{                                                                                \
		const u32 bytes = (u32)sizeof(ME) * op->n;                               \
		_Alignas(16) ME v[SIMT_WARP * VECTOR_MAX / sizeof(ME)];                  \
		u64 t[SIMT_WARP];                                                        \
                                                                                         \
		if (!vector_addr(w, op, m, r, t, bytes, SIMT_PERM_WRITE))                \
			return NULL;                                                     \
		FOR_EACH_N(op->n, rows_to_##ME##_##RT, w, op, r, v);                     \
		scatter(t, (const u8 *)v, m, bytes);                                     \
		return op + 1;                                                           \
	}

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
