/* SPDX-License-Identifier: Apache-2.0 */
/* PTX text: whatever it is, a module that comes out keeps the parser's promises, and so
 * does the link of it with itself; and where its kernels reach memory is found in time that is
 * bounded, and told in a number of parts that is. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ptx/extent/extent.h"
#include "ptx/verify.h"

/* Accesses, and strips of each; and words of the parameters. */
#define TOLD_MAX (256u * 4096 + 64)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct ptx_module *m)
{
	const char *e = ptx_verify(m);

	if (!e)
		return;
	fprintf(stderr, "does not hold: %s\n", e);
	abort();
}

static void told(void *arg, uint64_t addr, uint64_t bytes)
{
	unsigned *n = arg;

	if (++*n > TOLD_MAX)
		abort();
}

/* Launches with parameters of the input's own bytes. */
static void reach(const struct ptx_module *m, const uint8_t *data, size_t size)
{
	static const struct ptx_grid shapes[] = {
		{{1, 1, 1}, {1, 1, 1}},
		{{3000, 7, 1}, {32, 8, 1}},
		{{UINT32_MAX, UINT32_MAX, UINT32_MAX}, {1024, 1, 1}},
	};

	for (uint32_t i = 0; i < m->nfuncs; i++) {
		struct ptx_extent *e = ptx_extent_new(m, &m->funcs[i]);

		for (unsigned k = 0; e && k < 3; k++) {
			unsigned n = 0;

			ptx_extent_each(e, data, size < 64 ? size : 64, &shapes[k],
					2 << 20, told, &n);
		}
		ptx_extent_free(e);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char buf[1024];
	struct ptx_log log = {buf, sizeof(buf), 0};
	struct ptx_module *m, *linked;
	int r = ptx_parse((const char *)data, size, &log, &m);

	if (r < 0) {
		/* Every refusal says why, but for want of memory. */
		if (log.len == 0)
			abort();
		return 0;
	}
	check(m);
	reach(m, data, size);
	if (ptx_link((const struct ptx_module *const[]){m}, 1, &log, &linked) == 0) {
		check(linked);
		ptx_module_free(linked);
	}
	ptx_module_free(m);
	return 0;
}
