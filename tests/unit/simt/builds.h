/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of kernels as nvcc makes them, in each of several builds: PTX_BUILDS names them,
 * the files are $PTX_DIR/KERNELS-BUILD.ptx. The including file defines KERNELS.
 */
#ifndef WEFT_TEST_SIMT_BUILDS_H
#define WEFT_TEST_SIMT_BUILDS_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../ptx/gpu.h"
#include "base/macros.h"

static struct gpu g;
static char build[64]; /* the one that is loaded */

static void fini(void)
{
	gpu_fini(&g);
}

/* Loads the next build of the list; false at its end. */
static bool next_build(const char **list)
{
	size_t n = strcspn(*list, " ");
	char file[128];

	if (!n)
		return false;
	snprintf(build, sizeof(build), "%.*s", (int)n, *list);
	snprintf(file, sizeof(file), KERNELS "-%s.ptx", build);
	*list += n + strspn(*list + n, " ");
	gpu_reset(&g);
	cr_assert(gpu_load_file(&g, file) == 0, "%s: %s", file, g.log);
	return true;
}

static const char *all_builds(void)
{
	const char *list = getenv("PTX_BUILDS");

	cr_assert(list && *list, "PTX_BUILDS names no build");
	return list;
}

#define EACH_BUILD for (const char *_list = all_builds(); next_build(&_list);)

/* False, with a line that says so, where the build's architecture has no such kernel. */
static inline bool has_kernel(const char *name)
{
	if (simt_program_find(g.prog, name))
		return true;
	fprintf(stderr, "SKIP %s: not for compute_%.2s\n", name, build);
	return false;
}

#endif
