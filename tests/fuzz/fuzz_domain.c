/* SPDX-License-Identifier: Apache-2.0 */
/* A domain's XML. What is read is a key that weftd takes; what is put in can be read
 * again; a refusal says why. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libvirt/paste.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_keys(const struct gpu *g)
{
	struct conf_tenant *t = conf_tenant_new("t");

	for (unsigned i = 0; i < g->n_keys; i++) {
		const struct gpu_key *k = &g->keys[i];

		if (strcmp(k->key, "cid") != 0 &&
		    conf_tenant_set(t, k->key, k->value) < 0)
			abort();
	}
	if (g->cid && g->cid < 3)
		abort();
	conf_tenant_free(t);
}

static void check_again(const struct domain *d)
{
	char *out = NULL, *why = NULL;
	struct domain again;
	size_t len;
	FILE *f = open_memstream(&out, &len);

	if (paste_print(d, f) < 0)
		abort();
	fclose(f);
	if (domain_read(out, len, &again, &why) < 0)
		abort();
	if (strcmp(again.tenant, d->tenant) != 0 || again.gpu.n_keys != d->gpu.n_keys)
		abort();
	(void)domain_check(&again, &why);
	domain_fini(&again);
	free(why);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct domain d;
	char *why = NULL;
	int r = domain_read((const char *)data, size, &d, &why);

	if (r < 0 && !why)
		abort();
	if (r == 0) {
		check_keys(&d.gpu);
		r = paste_apply(&d, &why);
		if (r < 0 && !why)
			abort();
		if (r == 0)
			check_again(&d);
		paste_remove(&d);
	}
	domain_fini(&d);
	free(why);
	return 0;
}
