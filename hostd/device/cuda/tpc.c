/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the TPCs are: a private table of the driver (17 entries in 580), which cuBLAS
 * asks for on Hopper. Entry 4 allocates two arrays with a byte for each TPC, entry 13
 * frees them; learnt by watching cuBLASLt 13 on an H200 (66 TPCs).
 */
#include <string.h>

#include "device/cuda/nvml.h"

#define SLOT_GET  4
#define SLOT_FREE 13
#define SLOTS     17

static const CUuuid table_id = {{0x17, 0x34, (char)0xdc, 0x26, (char)0x80, 0x0d, 0x47,
				 0x45, (char)0x87, 0x26, (char)0xc0, (char)0xf1,
				 (char)0xe7, (char)0xdd, (char)0x8b, (char)0xca}};

struct tpc_calls {
	CUresult (*get)(uint8_t **ret_index, uint8_t **ret_gpc);
	CUresult (*free)(uint8_t *index, uint8_t *gpc);
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
	res = calls.get(&index, &gpc);
	if (res)
		return res;
	ret_map->n = n;
	memcpy(ret_map->index, index, n);
	memcpy(ret_map->gpc, gpc, n);
	calls.free(index, gpc);
	return CUDA_SUCCESS;
}
