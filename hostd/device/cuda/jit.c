/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the driver's compiler and linker, and what they say in return. */
#include <string.h>

#include "device/cuda/module.h"

static unsigned option_add(struct cuda_jit *o, CUjit_option option, uintptr_t value)
{
	o->option[o->n] = option;
	o->value[o->n] = (void *)value;
	return o->n++;
}

void cuda_jit_fill(struct cuda_jit *o, const struct dev_jit *jit)
{
	*o = (struct cuda_jit){.n = 0};
	if (!jit)
		return;
	if (jit->info_log && jit->info_size) {
		option_add(o, CU_JIT_INFO_LOG_BUFFER, (uintptr_t)jit->info_log);
		o->info =
			option_add(o, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, jit->info_size);
	}
	if (jit->error_log && jit->error_size) {
		option_add(o, CU_JIT_ERROR_LOG_BUFFER, (uintptr_t)jit->error_log);
		o->error = option_add(o, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
				      jit->error_size);
	}
	if (jit->max_registers)
		option_add(o, CU_JIT_MAX_REGISTERS, jit->max_registers);
	/* 4 is the driver's default; said aloud, it clashes with PTX for debugging. */
	if (jit->optimization_level >= 0 && jit->optimization_level < 4)
		option_add(o, CU_JIT_OPTIMIZATION_LEVEL,
			   (uintptr_t)jit->optimization_level);
	if (jit->verbose)
		option_add(o, CU_JIT_LOG_VERBOSE, 1);
	if (jit->line_info)
		option_add(o, CU_JIT_GENERATE_LINE_INFO, 1);
	if (jit->debug)
		option_add(o, CU_JIT_GENERATE_DEBUG_INFO, 1);
	for (unsigned i = 0; i < MIN(jit->n_options, (unsigned)DEV_JIT_OPTIONS_MAX); i++)
		option_add(o, jit->options[i].option, jit->options[i].value);
	o->time = option_add(o, CU_JIT_WALL_TIME, 0);
}

/* The driver reports text lengths; ours count the NUL and are within the buffer. */
static size_t log_end(char *log, size_t room, const void *reported)
{
	size_t n = MIN((size_t)(uintptr_t)reported, room - 1);

	log[n] = 0;
	return strlen(log) + 1;
}

void cuda_jit_take(const struct cuda_jit *o, struct dev_jit *jit)
{
	uint32_t bits;

	if (!jit)
		return;
	if (o->info)
		jit->info_size =
			log_end(jit->info_log, jit->info_size, o->value[o->info]);
	if (o->error)
		jit->error_size =
			log_end(jit->error_log, jit->error_size, o->value[o->error]);
	bits = (uint32_t)(uintptr_t)o->value[o->time];
	memcpy(&jit->wall_time_ms, &bits, sizeof(bits));
}
