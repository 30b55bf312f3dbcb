/* SPDX-License-Identifier: Apache-2.0 */
/* Special registers and addresses that depend on where a thread runs. */
#include "base/clock.h"
#include "simt/cta.h"
#include "simt/handlers/row.h"
#include "simt/sys.h"

static u64 cluster_coord(const struct simt_cta *c, unsigned dim, bool inside)
{
	u32 n = c->launch->is_cluster ? c->launch->cluster[dim] : 1;

	return inside ? c->id[dim] % n : c->id[dim] / n;
}

static u32 rank_of(const struct simt_cta *c)
{
	const struct simt_launch *l = c->launch;

	if (!l->is_cluster)
		return 0;
	return (u32)(cluster_coord(c, 0, true) +
		     l->cluster[0] * (cluster_coord(c, 1, true) +
				      l->cluster[1] * cluster_coord(c, 2, true)));
}

/* Registers that have the same value in every lane. */
static u64 uniform(const struct simt_warp *w, unsigned sreg)
{
	const struct simt_cta *c = w->cta;
	const struct simt_launch *l = c->launch;
	struct timespec ts;

	switch ((enum ptx_sreg)sreg) {
	case PTX_SR_NTID_X:
	case PTX_SR_NTID_Y:
	case PTX_SR_NTID_Z:
		return l->block[sreg - PTX_SR_NTID_X];
	case PTX_SR_CTAID_X:
	case PTX_SR_CTAID_Y:
	case PTX_SR_CTAID_Z:
		return c->id[sreg - PTX_SR_CTAID_X];
	case PTX_SR_NCTAID_X:
	case PTX_SR_NCTAID_Y:
	case PTX_SR_NCTAID_Z:
		return l->grid[sreg - PTX_SR_NCTAID_X];
	case PTX_SR_CLUSTERID_X:
	case PTX_SR_CLUSTERID_Y:
	case PTX_SR_CLUSTERID_Z:
		return cluster_coord(c, sreg - PTX_SR_CLUSTERID_X, false);
	case PTX_SR_NCLUSTERID_X:
	case PTX_SR_NCLUSTERID_Y:
	case PTX_SR_NCLUSTERID_Z: {
		unsigned k = sreg - PTX_SR_NCLUSTERID_X;

		return l->grid[k] / (l->is_cluster ? l->cluster[k] : 1);
	}
	case PTX_SR_CLUSTER_CTAID_X:
	case PTX_SR_CLUSTER_CTAID_Y:
	case PTX_SR_CLUSTER_CTAID_Z:
		return cluster_coord(c, sreg - PTX_SR_CLUSTER_CTAID_X, true);
	case PTX_SR_CLUSTER_NCTAID_X:
	case PTX_SR_CLUSTER_NCTAID_Y:
	case PTX_SR_CLUSTER_NCTAID_Z:
		return l->is_cluster ? l->cluster[sreg - PTX_SR_CLUSTER_NCTAID_X] : 1;
	case PTX_SR_CLUSTER_CTARANK:
		return rank_of(c);
	case PTX_SR_CLUSTER_NCTARANK:
		return l->cluster_size;
	case PTX_SR_IS_EXPLICIT_CLUSTER:
		return l->is_cluster;
	case PTX_SR_WARPID:
		return w->index;
	case PTX_SR_NWARPID:
		return SIMT_MAX_WARPS * 2;
	case PTX_SR_SMID:
		return c->smid;
	case PTX_SR_NSMID:
		return l->num_sms;
	case PTX_SR_GRIDID:
		return l->grid_id;
	case PTX_SR_CLOCK:
	case PTX_SR_CLOCK64:
		return clock_now_ns();
	case PTX_SR_CLOCK_HI:
		return clock_now_ns() >> 32;
	case PTX_SR_GLOBALTIMER:
	case PTX_SR_GLOBALTIMER_LO:
	case PTX_SR_GLOBALTIMER_HI:
		clock_gettime(CLOCK_REALTIME, &ts);
		return ((u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec) >>
		       (sreg == PTX_SR_GLOBALTIMER_HI ? 32 : 0);
	case PTX_SR_TOTAL_SMEM_SIZE:
		return ALIGN_UP(l->shared_bytes, SIMT_SHARED_UNIT);
	case PTX_SR_AGGR_SMEM_SIZE:
		return ALIGN_UP(l->shared_bytes, SIMT_SHARED_UNIT) + SIMT_RESERVED_SHARED;
	case PTX_SR_DYNAMIC_SMEM_SIZE:
		return l->dyn_shared_bytes;
	/* Cooperative groups have 288 bytes at the second of the two offsets. */
	case PTX_SR_RESERVED_SMEM_BEGIN:
	case PTX_SR_RESERVED_SMEM_0:
		return l->reserved_offset;
	case PTX_SR_RESERVED_SMEM_1:
		return l->reserved_offset + SIMT_RESERVED_SHARED / 2;
	case PTX_SR_RESERVED_SMEM_END:
		return l->reserved_offset + SIMT_RESERVED_SHARED;
	case PTX_SR_RESERVED_SMEM_CAP:
		return SIMT_RESERVED_SHARED;
	case PTX_SR_ENVREG1:
		return l->grid_workspace >> 32;
	case PTX_SR_ENVREG2:
		return (u32)l->grid_workspace;
	case PTX_SR_PM:
	case PTX_SR_PM64:
	case PTX_SR_ENVREG:
	case PTX_SR_CURRENT_GRAPH_EXEC:
	case PTX_SR_TID_X:
	case PTX_SR_TID_Y:
	case PTX_SR_TID_Z:
	case PTX_SR_LANEID:
	case PTX_SR_LANEMASK_EQ:
	case PTX_SR_LANEMASK_LE:
	case PTX_SR_LANEMASK_LT:
	case PTX_SR_LANEMASK_GE:
	case PTX_SR_LANEMASK_GT:
	case PTX_NUM_SREGS:
		break;
	}
	return 0;
}

static void sreg_row(const struct simt_warp *w, unsigned sreg, u64 *t)
{
	u64 v;

	switch (sreg) {
	case PTX_SR_TID_X:
	case PTX_SR_TID_Y:
	case PTX_SR_TID_Z:
		LANES t[i] = w->tid[sreg - PTX_SR_TID_X][i];
		break;
	case PTX_SR_LANEID:
		LANES t[i] = i;
		break;
	case PTX_SR_LANEMASK_EQ:
		LANES t[i] = 1u << i;
		break;
	case PTX_SR_LANEMASK_LE:
		LANES t[i] = (2ull << i) - 1;
		break;
	case PTX_SR_LANEMASK_LT:
		LANES t[i] = (1u << i) - 1;
		break;
	case PTX_SR_LANEMASK_GE:
		LANES t[i] = SIMT_FULL << i;
		break;
	case PTX_SR_LANEMASK_GT:
		LANES t[i] = (u32)(SIMT_FULL << i) << 1;
		break;
	default:
		v = uniform(w, sreg);
		LANES t[i] = v;
	}
}

#define SREG(T)                                                                          \
	static SIMT_HANDLER(sreg_##T)                                                    \
	{                                                                                \
		u64 t[SIMT_WARP];                                                        \
		T *d = DST(T, op->d);                                                    \
                                                                                         \
		sreg_row(w, op->n, t);                                                   \
		LANES d[i] = LANE_ON(m, i) ? (T)t[i] : d[i];                             \
		return op + 1;                                                           \
	}
SREG(u16)
SREG(u32)
SREG(u64)

static SIMT_HANDLER(sreg_pred)
{
	pred_store(DST(uint32_t, op->d), uniform(w, op->n) ? SIMT_FULL : 0, m);
	return op + 1;
}

/* Offsets in local memory, and of dynamic shared memory. */
#define PLACE(name, T, value)                                                            \
	static SIMT_HANDLER(name##_##T)                                                  \
	{                                                                                \
		T *d = DST(T, op->d), v = (T)((u64)(value) + (u64)op->disp);             \
                                                                                         \
		LANES d[i] = LANE_ON(m, i) ? v : d[i];                                   \
		return op + 1;                                                           \
	}
PLACE(frame, u32, w->sp)
PLACE(frame, u64, w->sp)
PLACE(dynshared, u32, w->cta->launch->dyn_shared_offset)
PLACE(dynshared, u64, w->cta->launch->dyn_shared_offset)

static bool in_space(const struct simt_warp *w, u64 a, unsigned space)
{
	u64 off = a - SIMT_SHARED_BASE, rank;

	switch ((enum sys_space)space) {
	case SYS_SHARED:
		rank = off / SIMT_SHARED_STRIDE;
		return off < SIMT_SHARED_SIZE && (rank == 0 || rank == w->cta->rank + 1);
	case SYS_CLUSTER:
		return off < SIMT_SHARED_SIZE;
	case SYS_LOCAL:
		return a - SIMT_LOCAL_BASE < SIMT_LOCAL_SIZE;
	case SYS_PARAM:
		return a - SIMT_PARAM_BASE < SIMT_PARAM_SIZE;
	case SYS_CONST:
		return false; /* constants are global memory here */
	case SYS_GLOBAL:
		return off >= SIMT_SHARED_SIZE &&
		       a - SIMT_LOCAL_BASE >= SIMT_LOCAL_SIZE &&
		       a - SIMT_PARAM_BASE >= SIMT_PARAM_SIZE;
	}
	return false;
}

static u64 addr_get(const struct simt_warp *w, const uint8_t *r, int32_t row, bool wide,
		    unsigned k)
{
	return wide ? SRC(u64, row)[k] : SRC(u32, row)[k];
}

static SIMT_HANDLER(isspacep)
{
	uint32_t bits = 0;

	FOR_LANES(m, k)
	bits |= (uint32_t)in_space(w, addr_get(w, r, op->a, op->y, k), op->x) << k;
	pred_store(DST(uint32_t, op->d), bits, m);
	return op + 1;
}

/* The address of a's counterpart in the block of rank b. op->n: space */
static SIMT_HANDLER(mapa)
{
	u64 base = op->n == PTX_S_NONE ? SIMT_SHARED_BASE : 0;

	FOR_LANES(m, k)
	{
		u64 a = addr_get(w, r, op->a, op->x, k);
		u64 v = (a - base) % SIMT_SHARED_STRIDE + base +
			((u64)SRC(u32, op->b)[k] % SIMT_MAX_CLUSTER + 1) *
				SIMT_SHARED_STRIDE;

		if (op->y)
			DST(u64, op->d)[k] = v;
		else
			DST(u32, op->d)[k] = (u32)v;
	}
	return op + 1;
}

static SIMT_HANDLER(getctarank)
{
	u64 base = op->n == PTX_S_NONE ? SIMT_SHARED_BASE : 0;

	FOR_LANES(m, k)
	{
		u64 rank = (addr_get(w, r, op->a, op->x, k) - base) / SIMT_SHARED_STRIDE;

		DST(u32, op->d)[k] = rank ? (u32)rank - 1 : w->cta->rank;
	}
	return op + 1;
}

const struct simt_handler simt_h_sys[] = {
	{"sreg.b16", sreg_u16},
	{"sreg.b32", sreg_u32},
	{"sreg.b64", sreg_u64},
	{"sreg.pred", sreg_pred},
	{"mov.frame.b32", frame_u32},
	{"mov.frame.b64", frame_u64},
	{"mov.dynshared.b32", dynshared_u32},
	{"mov.dynshared.b64", dynshared_u64},
	{"isspacep", isspacep},
	{"mapa", mapa},
	{"getctarank", getctarank},
	{NULL, NULL},
};
