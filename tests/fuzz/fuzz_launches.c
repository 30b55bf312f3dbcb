/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any file of launches; what is foretold by it, if nothing is wrong with it, is a file that workers
 * read, and the launches written again are read as the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare.h"
#include "profile/fit.h"
#include "profile/record.h"

static char *written(const struct kernels *k, size_t *ret_size)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, ret_size);

	if (!f)
		abort();
	record_write(f, k);
	if (fclose(f))
		abort();
	return text;
}

static void read_again(const struct kernels *k)
{
	struct kernels again = {0};
	size_t size, size_again;
	char *text = written(k, &size), *text_again;
	FILE *f = fmemopen(text, size, "r");
	unsigned line;

	if (!f || record_read(f, &again, &line) < 0)
		abort();
	fclose(f);
	text_again = written(&again, &size_again);
	if (size != size_again || memcmp(text, text_again, size) != 0)
		abort();
	free(text);
	free(text_again);
	kernels_free(&again);
}

static void foretell(const struct kernels *k)
{
	struct ptx_template_error error;
	struct ptx_templates *t = NULL;
	struct compared c = {0};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		abort();
	fprintf(f, "weft-extents 1\n");
	for (size_t i = 0; i < k->n; i++) {
		if (k->v[i]->n)
			fit_write(f, k->v[i]);
	}
	if (fclose(f) || ptx_templates_new(text, size, &t, &error) < 0)
		abort();
	for (size_t i = 0; i < k->n; i++) {
		const struct kernel *one = k->v[i];
		const struct ptx_extent *e = ptx_templates_find(t, &one->code, one->name);

		for (unsigned j = 0; j < one->n; j++)
			compare_launch(e, &one->launch[j], &c);
	}
	ptx_templates_free(t);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kernels k = {0};
	unsigned line;
	FILE *f = size ? fmemopen((void *)data, size, "r") : NULL;

	if (!f)
		return 0;
	if (record_read(f, &k, &line) == 0 && line) {
		read_again(&k);
		foretell(&k);
	}
	fclose(f);
	kernels_free(&k);
	return 0;
}
