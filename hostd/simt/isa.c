/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers by name, from the best build that this processor can run. */
#if defined(SIMT_HAVE_V3)
#include <cpuid.h>
#endif
#include <pthread.h>
#include <stdlib.h>

#include "simt/exec.h"

#define SLOTS 4096 /* more than twice the handlers there are */

static const struct simt_handler *table[SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static size_t hash(const char *s)
{
	uint32_t h = 2166136261u;

	while (*s)
		h = (h ^ (uint8_t)*s++) * 16777619u;
	return (h ^ h >> 15) % SLOTS;
}

static void add(const struct simt_handler *const *tables)
{
	for (; *tables; tables++)
		for (const struct simt_handler *h = *tables; h->name; h++) {
			size_t i = hash(h->name);

			while (table[i] && strcmp(table[i]->name, h->name))
				i = (i + 1) % SLOTS;
			table[i] = h;
		}
}

/* clang 14 knows no such name in __builtin_cpu_supports(). */
#if defined(SIMT_HAVE_V3)
static bool have_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static void fill(void)
{
	add(simt_isa_base);
#if defined(SIMT_HAVE_V3)
	const char *max = getenv("WEFT_SIMT_ISA"); /* for tests: "base" */

	if ((!max || strcmp(max, "base")) && __builtin_cpu_supports("avx2") &&
	    __builtin_cpu_supports("fma") && have_f16c() &&
	    __builtin_cpu_supports("bmi2"))
		add(simt_isa_v3);
#endif
	add(simt_isa_common);
}

simt_fn *simt_handler_find(const char *name)
{
	size_t i = hash(name);

	pthread_once(&once, fill);
	for (; table[i]; i = (i + 1) % SLOTS)
		if (!strcmp(table[i]->name, name))
			return table[i]->fn;
	return NULL;
}
