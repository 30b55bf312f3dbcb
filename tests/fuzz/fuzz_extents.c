/* SPDX-License-Identifier: Apache-2.0 */
/* Any text of where kernels reach memory, then a launch of the kernel k of any code. */
#include <stdint.h>
#include <stdlib.h>

#include "ptx/extent/template.h"

#define PARAMS 64u

static volatile uint64_t sum;

static void reach(void *arg, uint64_t addr, uint64_t bytes)
{
	sum += addr ^ bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ptx_grid grid = {{7, 1, 65535}, {32, 4, 1}};
	static const struct ptx_code code;
	struct ptx_template_error error;
	struct ptx_templates *t = NULL;
	const struct ptx_extent *e;

	if (size < PARAMS)
		return 0;
	if (ptx_templates_new((const char *)data + PARAMS, size - PARAMS, &t, &error) <
	    0) {
		if (t || !error.why)
			abort();
		return 0;
	}
	e = ptx_templates_find(t, &code, "k");
	if (e)
		ptx_extent_each(e, data, PARAMS, &grid, 4096, reach, NULL);
	ptx_templates_free(t);
	return 0;
}
