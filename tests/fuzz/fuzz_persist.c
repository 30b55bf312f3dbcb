/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent forms of kernels: whatever the text was, what was made of it is PTX again, has the
 * text as it was in front, and a copy for each kernel that is said to have one. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/rewrite/persist.h"
#include "ptx/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	abort();
}

static void check(const struct ptx_persist *p, const char *text, size_t len)
{
	char buf[1024] = "";
	struct ptx_log log = {buf, sizeof(buf), 0};
	uint32_t copies = 0;
	struct ptx_module *m;
	const char *e;

	if (p->len < len || memcmp(p->text, text, len) != 0)
		fail("the text", "has changed");
	if (ptx_parse_source(p->text, p->len, &log, &m) < 0)
		fail(buf, p->text);
	e = ptx_verify(m);
	if (e)
		fail("does not hold", e);
	for (uint32_t i = 0; i < m->nfuncs; i++)
		copies += !strncmp(m->funcs[i].name, PTX_PERSIST_NAME,
				   strlen(PTX_PERSIST_NAME));
	if (copies != p->n_copies)
		fail("copies", "are not as many as said");
	ptx_module_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptx_persist p;

	for (int yields = 0; yields < 2; yields++) {
		if (ptx_persist((const char *)data, size, yields, NULL, &p) == 0 &&
		    p.text)
			check(&p, (const char *)data, strnlen((const char *)data, size));
		ptx_persist_fini(&p);
	}
	return 0;
}
