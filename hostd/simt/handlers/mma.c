/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix multiplication by a warp. Fragments are gathered into whole matrices, which are
 * multiplied and scattered again. Products of 16-bit floats are exact in f32 and are
 * summed in f32, as the hardware does at least.
 */
#include "simt/handlers/half.h"
#include "simt/mem.h"
#include "simt/handlers/mma.h"

static inline u32 field(const struct mma_frag *f, const void *row, unsigned lane,
			unsigned e)
{
	return ((const u32 *)row)[lane] >> (e * f->bits);
}

static inline f32 elem_f32(unsigned type, u32 v)
{
	switch ((enum mma_type)type) {
	case MMA_F16:
		return f16_to_f32((u16)v);
	case MMA_BF16:
		return bf16_to_f32((u16)v);
	case MMA_TF32:
		return f32_of(v & 0xffffe000);
	case MMA_E4M3:
		return e4m3_to_f32((u8)v);
	case MMA_E5M2:
		return e5m2_to_f32((u8)v);
	default:
		return f32_of(v);
	}
}

static inline s32 elem_s32(unsigned type, u32 v)
{
	switch ((enum mma_type)type) {
	case MMA_S8:
		return (s8)v;
	case MMA_U8:
		return (u8)v;
	case MMA_S4:
		return (s32)(v << 28) >> 28;
	case MMA_U4:
		return v & 15;
	case MMA_B1:
		return v & 1;
	default:
		return (s32)v;
	}
}

/* For each element of a fragment: e counts through a lane's elements. */
#define GATHER(out, T, conv)                                                             \
	static void gather_##T(const struct simt_warp *w, const uint8_t *r,              \
			       const struct mma_frag *f, T *out)                         \
	{                                                                                \
		const uint16_t *pos = f->pos;                                            \
                                                                                         \
		for (unsigned k = 0; k < f->num_rows; k++) {                             \
			const void *row = simt_src(w, r, f->row[k]);                     \
                                                                                         \
			for (unsigned e = 0; e < f->per_row; e++, pos += SIMT_WARP)      \
				for (unsigned i = 0; i < SIMT_WARP; i++)                 \
					out[pos[i]] = conv;                              \
		}                                                                        \
	}
GATHER(out, f32, elem_f32(f->type, field(f, row, i, e)))
GATHER(out, s32, elem_s32(f->type, field(f, row, i, e)))
GATHER(out, f64, ((const f64 *)row)[i])

static void scatter_f32(uint8_t *r, const struct mma_frag *f, const f32 *in, uint32_t m)
{
	const uint16_t *pos = f->pos;

	for (unsigned k = 0; k < f->num_rows; k++, pos += f->per_row * SIMT_WARP) {
		u32 *d = DST(u32, f->row[k]);

		for (unsigned i = 0; i < SIMT_WARP; i++) {
			u32 v = f32_bits(canon(in[pos[i]]));

			if (f->type == MMA_F16)
				v = f32_to_f16(in[pos[i]]) |
				    (u32)f32_to_f16(in[pos[SIMT_WARP + i]]) << 16;
			else if (f->type == MMA_BF16)
				v = f32_to_bf16(in[pos[i]]) |
				    (u32)f32_to_bf16(in[pos[SIMT_WARP + i]]) << 16;
			d[i] = LANE_ON(m, i) ? v : d[i];
		}
	}
}

static void scatter_s32(uint8_t *r, const struct mma_frag *f, const s32 *in, uint32_t m)
{
	for (unsigned k = 0; k < f->num_rows; k++) {
		s32 *d = DST(s32, f->row[k]);

		FOR_LANES(m, i)
		d[i] = in[f->pos[k * SIMT_WARP + i]];
	}
}

#define ALL_LANES                                                                        \
	do {                                                                             \
		if (unlikely(!simt_wsync(w, op, SIMT_FULL, m)))                          \
			return NULL;                                                     \
	} while (0)

static const struct simt_mma *mma_of(const struct simt_op *op)
{
	return (const struct simt_mma *)(const void *)op->ext;
}

static SIMT_HANDLER(mma_f32)
{
	const struct simt_mma *q = mma_of(op);
	f32 a[MMA_MAX_DIM * 32], b[MMA_MAX_DIM * 32], c[MMA_MAX_DIM * MMA_MAX_DIM];

	ALL_LANES;
	gather_f32(w, r, &q->a, a);
	gather_f32(w, r, &q->b, b);
	gather_f32(w, r, &q->c, c);
	for (unsigned i = 0; i < q->m; i++)
		for (unsigned k = 0; k < q->k; k++) {
			f32 x = a[i * q->k + k];

			SIMT_ANY_ORDER for (unsigned j = 0; j < q->n; j++)
				c[i * q->n + j] += x * b[k * q->n + j];
		}
	scatter_f32(r, &q->d, c, m);
	return op + 1;
}

static SIMT_HANDLER(mma_f64)
{
	const struct simt_mma *q = mma_of(op);
	f64 a[16 * 16], b[16 * 16], c[16 * 16];

	ALL_LANES;
	gather_f64(w, r, &q->a, a);
	gather_f64(w, r, &q->b, b);
	gather_f64(w, r, &q->c, c);
	for (unsigned i = 0; i < q->m; i++)
		for (unsigned k = 0; k < q->k; k++)
			for (unsigned j = 0; j < q->n; j++)
				c[i * q->n + j] =
					__builtin_fma(a[i * q->k + k], b[k * q->n + j],
						      c[i * q->n + j]);
	for (unsigned k = 0; k < q->d.num_rows; k++) {
		f64 *d = DST(f64, q->d.row[k]);

		FOR_LANES(m, i)
		d[i] = c[q->d.pos[k * SIMT_WARP + i]];
	}
	return op + 1;
}

static inline s32 clamp_s32(s64 v)
{
	return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (s32)v;
}

static SIMT_HANDLER(mma_s32)
{
	const struct simt_mma *q = mma_of(op);
	s32 a[MMA_MAX_ELEMS], b[MMA_MAX_ELEMS], c[MMA_MAX_DIM * MMA_MAX_DIM];

	ALL_LANES;
	gather_s32(w, r, &q->a, a);
	gather_s32(w, r, &q->b, b);
	gather_s32(w, r, &q->c, c);
	for (unsigned i = 0; i < q->m; i++)
		for (unsigned j = 0; j < q->n; j++) {
			s64 sum = 0;

			for (unsigned k = 0; k < q->k; k++) {
				s32 x = a[i * q->k + k], y = b[k * q->n + j];

				sum += q->op == MMA_XOR_POPC   ? x ^ y
				       : q->op == MMA_AND_POPC ? (x & y)
							       : x * y;
			}
			sum += c[i * q->n + j];
			c[i * q->n + j] = q->sat ? clamp_s32(sum) : (s32)sum;
		}
	scatter_s32(r, &q->d, c, m);
	return op + 1;
}

/* ---- wmma.load, wmma.store ---- */

static const struct simt_wmma *wmma_of(const struct simt_op *op)
{
	return (const struct simt_wmma *)(const void *)op->ext;
}

/* Bytes that an element takes in memory, at least one. */
static unsigned elem_bytes(const struct mma_frag *f)
{
	return f->bits < 8 ? 1 : f->bits / 8;
}

/*
 * Finds the rows (or columns) of the matrix, each one run of memory. The address of the
 * first lane counts.
 */
static bool wmma_runs(struct simt_warp *w, const struct simt_op *op, uint32_t m,
		      const uint8_t *r, unsigned perm, u8 **run)
{
	const struct simt_wmma *q = wmma_of(op);
	unsigned lane = (unsigned)__builtin_ctz(m);
	unsigned num = q->col ? q->f.width : q->f.height;
	u32 len = (q->col ? q->f.height : q->f.width) * q->f.bits / 8u;
	u64 stride = SRC(u32, q->stride)[lane], addr;

	if (op->x == MEM_FRAME)
		addr = w->sp;
	else
		addr = op->y & MEM_REG32 ? SRC(u32, op->a)[lane] : SRC(u64, op->a)[lane];
	addr += (u64)(s64)op->e;
	for (unsigned k = 0; k < num; k++) {
		u64 at = addr + k * stride * q->f.bits / 8;
		bool odd = at & (elem_bytes(&q->f) - 1);

		run[k] = odd ? NULL : simt_resolve(w, op->x, at, len, perm, lane);
		if (!run[k]) {
			simt_raise_mem(w, op,
				       odd ? SIMT_FAULT_MISALIGNED : SIMT_FAULT_ADDRESS,
				       lane, at, len, perm == SIMT_PERM_WRITE);
			return false;
		}
	}
	return true;
}

/* Finds the run that an element is in, and the element's place in it. */
static inline void wmma_at(const struct simt_wmma *q, unsigned pos, unsigned *run,
			   unsigned *elem)
{
	unsigned y = pos / q->f.width, x = pos % q->f.width;

	*run = q->col ? x : y;
	*elem = q->col ? y : x;
}

static SIMT_HANDLER(wmma_load)
{
	const struct simt_wmma *q = wmma_of(op);
	const uint16_t *pos = q->f.pos;
	unsigned bytes = elem_bytes(&q->f), bits = q->f.bits, y, x;
	u8 *run[MMA_MAX_RUNS];
	u64 out[16][SIMT_WARP];

	ALL_LANES;
	if (!wmma_runs(w, op, m, r, SIMT_PERM_READ, run))
		return NULL;
	memset(out, 0, sizeof(out));
	for (unsigned k = 0; k < q->f.num_rows; k++)
		for (unsigned e = 0; e < q->f.per_row; e++, pos += SIMT_WARP)
			for (unsigned i = 0; i < SIMT_WARP; i++) {
				u64 v = 0;

				wmma_at(q, pos[i], &y, &x);
				memcpy(&v, run[y] + x * bits / 8, bytes);
				if (bits < 8)
					v = v >> x * bits % 8 & ((1u << bits) - 1);
				out[k][i] |= v << e * bits;
			}
	for (unsigned k = 0; k < q->f.num_rows; k++)
		FOR_LANES(m, i)
		{
			if (bits == 64)
				DST(u64, q->f.row[k])[i] = out[k][i];
			else
				DST(u32, q->f.row[k])[i] = (u32)out[k][i];
		}
	return op + 1;
}

static SIMT_HANDLER(wmma_store)
{
	const struct simt_wmma *q = wmma_of(op);
	const uint16_t *pos = q->f.pos;
	unsigned bytes = elem_bytes(&q->f), y, x;
	u8 *run[MMA_MAX_RUNS];

	ALL_LANES;
	if (!wmma_runs(w, op, m, r, SIMT_PERM_WRITE, run))
		return NULL;
	for (unsigned k = 0; k < q->f.num_rows; k++)
		for (unsigned e = 0; e < q->f.per_row; e++, pos += SIMT_WARP)
			for (unsigned i = 0; i < SIMT_WARP; i++) {
				u64 v;

				wmma_at(q, pos[i], &y, &x);
				if (q->f.bits == 64)
					v = SRC(u64, q->f.row[k])[i];
				else
					v = SRC(u32, q->f.row[k])[i] >> e * q->f.bits;
				memcpy(run[y] + x * bytes, &v, bytes);
			}
	return op + 1;
}

/* ---- ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16 bits ---- */

/* op->n matrices; op->c: transposed; rows of registers at ext */
static SIMT_HANDLER(ldmatrix)
{
	u16 mat[4][8][8];
	u64 t[SIMT_WARP];
	struct simt_op one = *op;
	uint32_t lanes = op->n == 4 ? SIMT_FULL : (1u << 8 * op->n) - 1;

	ALL_LANES;
	lanes &= m;
	one.disp = (s64)(s32)op->e;
	if (!lanes)
		return op + 1;
	if (!mem_addr(w, &one, lanes, r, t, 16, SIMT_PERM_READ))
		return NULL;
	memset(mat, 0, sizeof(mat));
	FOR_LANES(lanes, k)
	memcpy(mat[k / 8][k % 8], (const void *)(uintptr_t)t[k], 16);
	for (unsigned q = 0; q < op->n; q++) {
		u32 *d = op->ext[q] >= 0 ? DST(u32, op->ext[q]) : NULL;

		FOR_LANES(m, i)
		{
			unsigned g = i / 4, c = i % 4 * 2;
			u32 lo = op->c ? mat[q][c][g] : mat[q][g][c];
			u32 hi = op->c ? mat[q][c + 1][g] : mat[q][g][c + 1];

			if (d)
				d[i] = lo | hi << 16;
		}
	}
	return op + 1;
}

static SIMT_HANDLER(stmatrix)
{
	u16 mat[4][8][8];
	u64 t[SIMT_WARP];
	struct simt_op one = *op;
	uint32_t lanes = op->n == 4 ? SIMT_FULL : (1u << 8 * op->n) - 1;

	ALL_LANES;
	lanes &= m;
	one.disp = (s64)(s32)op->e;
	if (!lanes)
		return op + 1;
	if (!mem_addr(w, &one, lanes, r, t, 16, SIMT_PERM_WRITE))
		return NULL;
	for (unsigned q = 0; q < op->n; q++) {
		const u32 *s = SRC(u32, op->ext[q]);

		for (unsigned i = 0; i < SIMT_WARP; i++) {
			unsigned g = i / 4, c = i % 4 * 2;

			*(op->c ? &mat[q][c][g] : &mat[q][g][c]) = (u16)s[i];
			*(op->c ? &mat[q][c + 1][g] : &mat[q][g][c + 1]) =
				(u16)(s[i] >> 16);
		}
	}
	FOR_LANES(lanes, k)
	memcpy((void *)(uintptr_t)t[k], mat[k / 8][k % 8], 16);
	return op + 1;
}

static SIMT_HANDLER(movmatrix)
{
	u16 mat[8][8];
	const u32 *a;
	u32 *d = DST(u32, op->d);

	ALL_LANES;
	a = SRC(u32, op->a);
	for (unsigned i = 0; i < SIMT_WARP; i++) {
		mat[i / 4][i % 4 * 2] = (u16)a[i];
		mat[i / 4][i % 4 * 2 + 1] = (u16)(a[i] >> 16);
	}
	FOR_LANES(m, i)
	d[i] = mat[i % 4 * 2][i / 4] | (u32)mat[i % 4 * 2 + 1][i / 4] << 16;
	return op + 1;
}

const struct simt_handler SIMT_ISA_NAME(simt_h_mma)[] = {
	{"mma.f32", mma_f32},     {"mma.f64", mma_f64},       {"mma.s32", mma_s32},
	{"wmma.load", wmma_load}, {"wmma.store", wmma_store}, {"ldmatrix", ldmatrix},
	{"stmatrix", stmatrix},   {"movmatrix", movmatrix},   {NULL, NULL},
};
