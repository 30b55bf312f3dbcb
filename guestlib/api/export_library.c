/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: private tables of NVIDIA's libraries
 *
 * Learnt with a libcuda that records calls, under cuBLAS, cuBLASLt and cuFFT 13 on an
 * H200. Only slots that programs were seen to call are filled; the tables are as long as
 * the driver's where a library does not look at the size.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "core/code_cache.h"
#include "api/export_table.h"
#include "code/module.h"

/* ---- 21318c60: contexts and streams, by which cuBLAS keeps kernels and workspaces ----
 */

UNKNOWN_SLOT(context_info, other)

/* No context has number 0, which is no error: cuBLAS has the runtime make one current then. */
static CUresult context_number(CUcontext ctx, unsigned long long *ret_number)
{
	if (!ret_number)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_number = 0;
	return ctx ? cuCtxGetId(ctx, ret_number) : CUDA_SUCCESS;
}

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
	[4] = SLOT(context_number),
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
 * ---- da9151d3: what NVRTC and nvJitLink compiled, an entry at a time. The compiler
 * names an entry by what it would compile, asks for it, and adds it if there is none ----
 */

/* Lengths in a compiler's name: a word for the platform with its NUL, then the time when
 * the compiler was built. */
#define MAKER_WORD 7
#define MAKER_DATE 20

static CUresult cache_open(struct code_key **ret_entry, unsigned kind, const void *source,
			   size_t size, const char *options, const char *maker)
{
	struct code_part parts[5];
	struct code_key *entry;

	if (!code_cache_enabled())
		return CUDA_ERROR_NOT_INITIALIZED; /* as the driver says */
	if (!ret_entry || !source || !size || !options || !maker)
		return CUDA_ERROR_INVALID_VALUE;
	entry = malloc(sizeof(*entry));
	if (!entry)
		return CUDA_ERROR_OUT_OF_MEMORY;
	parts[0] = (struct code_part){&kind, sizeof(kind)};
	parts[1] = (struct code_part){source, size};
	parts[2] = (struct code_part){options, strlen(options)};
	parts[3] = (struct code_part){maker, strnlen(maker, MAKER_WORD)};
	parts[4] = (struct code_part){maker, 0};
	if (parts[3].size == MAKER_WORD - 1)
		parts[4] = (struct code_part){
			maker + MAKER_WORD, strnlen(maker + MAKER_WORD, MAKER_DATE)};
	*entry = code_key_of(parts, ARRAY_SIZE(parts));
	*ret_entry = entry;
	return CUDA_SUCCESS;
}

static CUresult cache_close(struct code_key *entry)
{
	free(entry);
	return CUDA_SUCCESS;
}

/* The second argument was always 0; the size is 32 bits, a pointer may lie behind it. */
static CUresult cache_find(const struct code_key *entry, uint64_t zero, void **ret_data,
			   uint32_t *ret_size)
{
	size_t size;
	int r;

	if (!entry || !ret_data || !ret_size)
		return CUDA_ERROR_INVALID_VALUE;
	r = code_cache_get(entry, ret_data, &size);
	if (r == -ENOENT)
		return CUDA_ERROR_NOT_FOUND;
	if (r < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_size = (uint32_t)size;
	return CUDA_SUCCESS;
}

static CUresult cache_add(const struct code_key *entry, uint64_t zero, const void *data,
			  size_t size)
{
	if (!entry || !data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	code_cache_put(entry, data, size);
	return CUDA_SUCCESS;
}

static CUresult cache_free(void *data)
{
	free(data);
	return CUDA_SUCCESS;
}

UNKNOWN_SLOT(compile_cache, 5)

const table_slot export_compile_cache[7] = {
	SIZE(7),
	SLOT(cache_open),
	SLOT(cache_close),
	SLOT(cache_find),
	SLOT(cache_add),
	SLOT(compile_cache_5),
	SLOT(cache_free),
};

/* ---- 1734dc26: where the TPCs are, by which cuBLASLt places clusters ---- */

/* Two arrays with a byte for each TPC: its GPC, and its number within that. */
static CUresult tpc_get(uint8_t **ret_gpc, uint8_t **ret_index)
{
	struct tpc_map_rep rep;
	struct guest_thread *t;
	uint8_t *index, *gpc;
	CUresult r = guest_enter(NEED_CTX, &t);

	if (r)
		return r;
	if (!ret_index || !ret_gpc)
		return CUDA_ERROR_INVALID_VALUE;
	r = call_tpc_map(t, &rep);
	if (r)
		return r;
	if (rep.n > sizeof(rep.index))
		return guest_broken(t);
	index = malloc(rep.n + 1u);
	gpc = malloc(rep.n + 1u);
	if (!index || !gpc) {
		free(index);
		free(gpc);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* The message's names are the wrong way round. */
	memcpy(gpc, rep.index, rep.n);
	memcpy(index, rep.gpc, rep.n);
	*ret_index = index;
	*ret_gpc = gpc;
	return CUDA_SUCCESS;
}

static CUresult tpc_free(uint8_t *gpc, uint8_t *index)
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
