/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the TPCs are: a private table of the driver (17 entries in 580), which cuBLAS
 * asks for on Hopper. Entry 4 allocates two arrays with a byte for each TPC, in the order
 * of its SMs: its GPC, and its number within that; entry 13 frees them. Learnt by watching
 * cuBLASLt 13 on an H200 (66 TPCs); which array is which by which blocks lie together in
 * a cluster.
 *
 * And which bit of a launch's descriptor each TPC has (mask.h): chips lack some of the TPCs
 * that their bits are for, and which was found nowhere, so kernels try it out.
 */
#include <string.h>

#include "device/cuda/mask.h"
#include "device/cuda/nvml.h"

#define SLOT_GET  4
#define SLOT_FREE 13
#define SLOTS     17

static const CUuuid table_id = {{0x17, 0x34, (char)0xdc, 0x26, (char)0x80, 0x0d, 0x47,
				 0x45, (char)0x87, 0x26, (char)0xc0, (char)0xf1,
				 (char)0xe7, (char)0xdd, (char)0x8b, (char)0xca}};

struct tpc_calls {
	CUresult (*get)(uint8_t **ret_gpc, uint8_t **ret_index);
	CUresult (*free)(uint8_t *gpc, uint8_t *index);
};

/* False where the driver's table is not the one that is known. */
static bool calls_find(struct tpc_calls *ret)
{
	const void *table;
	void *const *slots;
	uintptr_t size;

	if (cu.cuGetExportTable(&table, &table_id) || !table)
		return false;
	memcpy(&size, table, sizeof(size));
	if (size != SLOTS * sizeof(void *))
		return false;
	slots = (void *const *)table;
	memcpy(&ret->get, &slots[SLOT_GET], sizeof(ret->get));
	memcpy(&ret->free, &slots[SLOT_FREE], sizeof(ret->free));
	return ret->get && ret->free;
}

CUresult cuda_tpc_map(struct dev_ctx *ctx, struct dev_tpc_map *ret_map)
{
	unsigned n = ctx->dev->info.n_sms / 2;
	uint8_t *index, *gpc;
	struct tpc_calls calls;
	CUresult res = cuda_enter(ctx);

	if (res)
		return res;
	if (n > DEV_TPCS_MAX || !calls_find(&calls))
		return CUDA_ERROR_NOT_SUPPORTED;
	res = calls.get(&gpc, &index);
	if (res)
		return res;
	ret_map->n = n;
	memcpy(ret_map->index, index, n);
	memcpy(ret_map->gpc, gpc, n);
	calls.free(gpc, index);
	return CUDA_SUCCESS;
}

/* ---- bits ---- */

#define BITS    128u
#define BLOCKS  8u /* for each SM, two of which it has at a time */
#define THREADS 1024u
#define SMS_MAX (2 * DEV_TPCS_MAX)

/* Each block says which SM it is on, and stays there until all SMs have some. */
static const char where_ptx[] = ".version 6.4\n"
				".target sm_75\n"
				".address_size 64\n"
				".visible .entry where(.param .u64 hits)\n"
				"{\n"
				".reg .b32 %sm, %one;\n"
				".reg .b64 %at, %off, %from, %now;\n"
				".reg .pred %early;\n"
				"mov.u32 %sm, %smid;\n"
				"mov.u32 %one, 1;\n"
				"mul.wide.u32 %off, %sm, 4;\n"
				"ld.param.u64 %at, [hits];\n"
				"add.u64 %at, %at, %off;\n"
				"st.global.u32 [%at], %one;\n"
				"mov.u64 %from, %clock64;\n"
				"again:\n"
				"mov.u64 %now, %clock64;\n"
				"sub.u64 %now, %now, %from;\n"
				"setp.lt.u64 %early, %now, 20000;\n"
				"@%early bra again;\n"
				"ret;\n"
				"}\n";

struct probe {
	struct dev_ctx *ctx;
	CUmodule mod;
	CUfunction fn;
	uint32_t *hits; /* a word for each SM, the host's */
	CUdeviceptr addr;
};

static CUresult probe_init(struct probe *p)
{
	void *hits = NULL;
	CUresult res = cu.cuModuleLoadDataEx(&p->mod, where_ptx, 0, NULL, NULL);

	if (!res)
		res = cu.cuModuleGetFunction(&p->fn, p->mod, "where");
	if (!res)
		res = cu.cuMemHostAlloc(&hits, SMS_MAX * sizeof(*p->hits),
					CU_MEMHOSTALLOC_DEVICEMAP);
	p->hits = hits;
	if (!res)
		res = cu.cuMemHostGetDevicePointer(&p->addr, hits, 0);
	return res;
}

static void probe_fini(struct probe *p)
{
	if (p->hits)
		cu.cuMemFreeHost(p->hits);
	if (p->mod)
		cu.cuModuleUnload(p->mod);
}

/* Runs the kernel with one bit off. */
static CUresult probe_run(struct probe *p, unsigned bit)
{
	uint64_t bits[2] = {UINT64_MAX, UINT64_MAX};
	void *params[] = {&p->addr};
	CUlaunchConfig config = {.gridDimX = p->ctx->dev->info.n_sms * BLOCKS,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = THREADS,
				 .blockDimY = 1,
				 .blockDimZ = 1};
	CUresult res;

	bits[bit / 64] &= ~(1ull << bit % 64);
	if (!cuda_mask_set(bits))
		return CUDA_ERROR_NOT_SUPPORTED;
	memset(p->hits, 0, SMS_MAX * sizeof(*p->hits));
	res = cu.cuLaunchKernelEx(&config, p->fn, params, NULL);
	return res ? res : cu.cuCtxSynchronize();
}

/* The TPC that had no work, DEV_TPCS_MAX: each had; anything else is none. */
static CUresult idle_tpc(const struct probe *p, unsigned n, unsigned *ret_tpc)
{
	unsigned idle = DEV_TPCS_MAX;

	for (unsigned i = 0; i < n; i++) {
		bool a = p->hits[2 * i], b = p->hits[2 * i + 1];

		if (a != b || (!a && idle != DEV_TPCS_MAX))
			return CUDA_ERROR_NOT_SUPPORTED;
		if (!a)
			idle = i;
	}
	*ret_tpc = idle;
	return CUDA_SUCCESS;
}

static CUresult find_bits(struct probe *p, struct dev_tpc_map *map)
{
	unsigned found = 0, tpc;

	for (unsigned bit = 0; bit < BITS && found < map->n; bit++) {
		CUresult res = probe_run(p, bit);

		if (!res)
			res = idle_tpc(p, map->n, &tpc);
		if (res)
			return res;
		if (tpc == DEV_TPCS_MAX)
			continue;
		map->bit[tpc] = (uint8_t)bit;
		found++;
	}
	return found == map->n ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuda_find_tpcs(struct dev_ctx *ctx, struct dev_tpc_map *ret_map)
{
	struct probe p = {.ctx = ctx};
	CUresult res = cuda_tpc_map(ctx, ret_map);

	if (!res && (ret_map->n < 2 || ctx->dev->info.n_sms % 2))
		res = CUDA_ERROR_NOT_SUPPORTED;
	if (!res)
		res = probe_init(&p);
	if (!res)
		res = find_bits(&p, ret_map);
	cuda_mask_set(NULL);
	probe_fini(&p);
	return res;
}
