/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "calls.h"
#include "code/jit.h"

/* The reply of one load has room for so much of each log. */
#define JIT_LOG_MAX 28672u

static uint32_t as_u32(void *value)
{
	return (uint32_t)(uintptr_t)value;
}

static void set_flag(struct jit_options *jit, uint32_t flag, void *value)
{
	if (as_u32(value))
		jit->flags |= flag;
}

static CUresult parse_one(CUjit_option option, void **value, struct jit_options *jit)
{
	switch ((int)option) {
	case CU_JIT_MAX_REGISTERS:
		jit->max_registers = as_u32(*value);
		break;
	case CU_JIT_WALL_TIME:
		jit->ret_wall_time = value;
		break;
	case CU_JIT_INFO_LOG_BUFFER:
		jit->info.buf = *value;
		break;
	case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
		jit->info.room = as_u32(*value);
		jit->info.ret_size = value;
		break;
	case CU_JIT_ERROR_LOG_BUFFER:
		jit->error.buf = *value;
		break;
	case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
		jit->error.room = as_u32(*value);
		jit->error.ret_size = value;
		break;
	case CU_JIT_OPTIMIZATION_LEVEL:
		if (as_u32(*value) > 4)
			return CUDA_ERROR_INVALID_VALUE;
		jit->optimization_level = (int32_t)as_u32(*value);
		break;
	case CU_JIT_GENERATE_DEBUG_INFO:
		set_flag(jit, JIT_DEBUG, *value);
		break;
	case CU_JIT_GENERATE_LINE_INFO:
		set_flag(jit, JIT_LINE_INFO, *value);
		break;
	case CU_JIT_LOG_VERBOSE:
		set_flag(jit, JIT_VERBOSE, *value);
		break;
	case CU_JIT_GLOBAL_SYMBOL_NAMES:
	case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
	case CU_JIT_GLOBAL_SYMBOL_COUNT:
	case CU_JIT_REFERENCED_KERNEL_NAMES:
	case CU_JIT_REFERENCED_KERNEL_COUNT:
	case CU_JIT_REFERENCED_VARIABLE_NAMES:
	case CU_JIT_REFERENCED_VARIABLE_COUNT:
		break; /* hints for LTO, no longer heard since CUDA 12 */
	default:
		if ((int)option < 0 || option >= CU_JIT_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
		if (jit->n_others == JIT_OTHERS_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		jit->others[jit->n_others][0] = (uint32_t)option;
		jit->others[jit->n_others++][1] = as_u32(*value);
	}
	return CUDA_SUCCESS;
}

CUresult jit_parse(unsigned n, CUjit_option *options, void **values,
		   struct jit_options *ret_jit)
{
	struct jit_options jit = {.optimization_level = -1};
	unsigned i;
	CUresult r;

	if (n && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		r = parse_one(options[i], &values[i], &jit);
		if (r)
			return r;
	}
	if (!jit.info.buf)
		jit.info.room = 0;
	if (!jit.error.buf)
		jit.error.room = 0;
	jit.info.room = MIN(jit.info.room, JIT_LOG_MAX);
	jit.error.room = MIN(jit.error.room, JIT_LOG_MAX);
	*ret_jit = jit;
	return CUDA_SUCCESS;
}

void jit_put_others(struct wire_jit_option *w, const struct jit_options *jit)
{
	for (unsigned i = 0; i < jit->n_others; i++)
		w[i] = (struct wire_jit_option){jit->others[i][0], jit->others[i][1]};
}

void jit_store_log(struct jit_log *log, const char *text, uint32_t size)
{
	uint32_t n = MIN(size, log->room);

	if (n) {
		memcpy(log->buf, text, n);
		log->buf[n - 1] = '\0';
	} else if (log->room) {
		log->buf[0] = '\0';
	}
	/* The size counts the text without its NUL, or the room if the text was cut. */
	if (log->ret_size)
		*log->ret_size = (void *)(uintptr_t)(n && n < log->room ? n - 1 : n);
}

void jit_store_wall_time(struct jit_options *jit, float ms)
{
	if (jit->ret_wall_time)
		memcpy(jit->ret_wall_time, &ms, sizeof(ms));
}
