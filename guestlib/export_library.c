// SPDX-License-Identifier: Apache-2.0
/*
 * DOC: what NVIDIA's libraries ask for beyond cuda.h
 *
 * Learnt with a libcuda that records calls, under cuBLAS, cuBLASLt and cuFFT 13 on an
 * H200. What is here is what programs were seen to call; the tables are as long as the
 * driver's where a library does not look at the size.
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "export_table.h"
#include "module.h"

/* ---- 21318c60: contexts and streams, by which cuBLAS keeps kernels and workspaces ----
 */

UNKNOWN_SLOT(context_info, other)

/* The stream behind a handle: the default streams get names of their own. */
static CUresult context_stream(CUcontext ctx, CUstream stream, CUstream *ret_stream,
			       int per_thread)
{
	unsigned long long id;
	CUresult r;

	if (!ret_stream)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream)
		stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	r = cuStreamGetId(stream, &id);
	if (r == CUDA_SUCCESS)
		*ret_stream = stream;
	return r;
}

static CUresult context_stream_id(CUcontext ctx, CUstream stream,
				  unsigned long long *ret_id)
{
	return cuStreamGetId(stream, ret_id);
}

const table_slot export_context_info[93] = {
	[0] = SIZE(93),
	[1 ... 3] = SLOT(context_info_other),
	[4] = SLOT(cuCtxGetId),
	[5 ... 38] = SLOT(context_info_other),
	[39] = SLOT(context_stream_id),
	[40 ... 50] = SLOT(context_info_other),
	[51] = SLOT(context_stream),
	[52 ... 92] = SLOT(context_info_other),
};

/* ---- 6e163fbe: the functions of a module, which cuFFT looks through ---- */

static uint64_t each_function(CUcontext ctx, CUmodule module,
			      void (*fn)(void *arg, CUfunction f, CUmodule module),
			      void *arg)
{
	unsigned i, n = 0;
	CUfunction *v;

	if (!fn || cuModuleGetFunctionCount(&n, module) || !n)
		return 0;
	v = calloc(n, sizeof(CUfunction));
	if (!v || cuModuleEnumerateFunctions(v, n, module))
		n = 0;
	for (i = 0; i < n; i++)
		fn(arg, v[i], module);
	free(v);
	return n;
}

UNKNOWN_SLOT(module_info, 1)
UNKNOWN_SLOT(module_info, 2)
UNKNOWN_SLOT(module_info, 3)
UNKNOWN_SLOT(module_info, 4)
UNKNOWN_SLOT(module_info, 5)
UNKNOWN_SLOT(module_info, 6)

const table_slot export_module_info[8] = {
	SIZE(8),
	SLOT(module_info_1),
	SLOT(module_info_2),
	SLOT(module_info_3),
	SLOT(module_info_4),
	SLOT(module_info_5),
	SLOT(module_info_6),
	SLOT(each_function),
};

/*
 * ---- da9151d3: a cache of what NVRTC and nvJitLink compiled, one entry at a time; there
 * is none here, which is what the driver too answers when it has it switched off ----
 */

static CUresult cache_open(void **ret_entry, unsigned kind, const void *key, size_t size)
{
	return CUDA_ERROR_INVALID_VALUE;
}

UNKNOWN_SLOT(compile_cache, other)

const table_slot export_compile_cache[7] = {
	[0] = SIZE(7),
	[1] = SLOT(cache_open),
	[2 ... 6] = SLOT(compile_cache_other),
};

/* ---- 1734dc26: where the TPCs are, by which cuBLASLt places clusters ---- */

/* Two arrays with a byte for each TPC: its number within its GPC, and the GPC. */
static CUresult tpc_get(uint8_t **ret_index, uint8_t **ret_gpc)
{
	const struct tpc_map_rep *rep;
	struct lane_reply reply;
	struct guest_thread *t;
	uint8_t *index, *gpc;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!ret_index || !ret_gpc)
		return CUDA_ERROR_INVALID_VALUE;
	if (!begin_tpc_map(t))
		return guest_lost(t);
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	if (rep->n > sizeof(rep->index))
		return guest_broken(t);
	index = malloc(rep->n + 1u);
	gpc = malloc(rep->n + 1u);
	if (!index || !gpc) {
		free(index);
		free(gpc);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(index, rep->index, rep->n);
	memcpy(gpc, rep->gpc, rep->n);
	*ret_index = index;
	*ret_gpc = gpc;
	return CUDA_SUCCESS;
}

static CUresult tpc_free(uint8_t *index, uint8_t *gpc)
{
	free(index);
	free(gpc);
	return CUDA_SUCCESS;
}

UNKNOWN_SLOT(tpc_info, 1)
UNKNOWN_SLOT(tpc_info, 2)
UNKNOWN_SLOT(tpc_info, 3)
UNKNOWN_SLOT(tpc_info, 5)
UNKNOWN_SLOT(tpc_info, 6)
UNKNOWN_SLOT(tpc_info, 7)
UNKNOWN_SLOT(tpc_info, 8)
UNKNOWN_SLOT(tpc_info, 9)
UNKNOWN_SLOT(tpc_info, 10)
UNKNOWN_SLOT(tpc_info, 11)
UNKNOWN_SLOT(tpc_info, 12)
UNKNOWN_SLOT(tpc_info, 14)
UNKNOWN_SLOT(tpc_info, 15)
UNKNOWN_SLOT(tpc_info, 16)

const table_slot export_tpc_info[17] = {
	SIZE(17),          SLOT(tpc_info_1), SLOT(tpc_info_2),  SLOT(tpc_info_3),
	SLOT(tpc_get),     SLOT(tpc_info_5), SLOT(tpc_info_6),  SLOT(tpc_info_7),
	SLOT(tpc_info_8),  SLOT(tpc_info_9), SLOT(tpc_info_10), SLOT(tpc_info_11),
	SLOT(tpc_info_12), SLOT(tpc_free),   SLOT(tpc_info_14), SLOT(tpc_info_15),
	SLOT(tpc_info_16),
};
