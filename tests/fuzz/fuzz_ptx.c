/* SPDX-License-Identifier: Apache-2.0 */
/* PTX text: whatever it is, a module that comes out keeps the parser's promises, and so
 * does the link of it with itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ptx/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct ptx_module *m)
{
	const char *e = ptx_verify(m);

	if (!e)
		return;
	fprintf(stderr, "does not hold: %s\n", e);
	abort();
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
	if (ptx_link((const struct ptx_module *const[]){m}, 1, &log, &linked) == 0) {
		check(linked);
		ptx_module_free(linked);
	}
	ptx_module_free(m);
	return 0;
}
