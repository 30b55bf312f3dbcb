/* SPDX-License-Identifier: Apache-2.0 */
/* weftd's configuration and sizes. What is accepted obeys the limits of the manual. Input:
 * a file, and drop-ins after it, each after a byte of zero. */
#include <stdlib.h>
#include <string.h>

#include "util/conf.h"
#include "util/size.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct conf *c)
{
	struct conf_tenant *t;

	if (c->pool > 64 || c->tpcs > 1024 || c->threads > 1024 || *c->run_dir != '/')
		abort();
	list_for_each (t, &c->tenants, link) {
		if (conf_name_error(t->name) || t->mode > 0777)
			abort();
		if (*t->profile && t->memory.min != t->memory.max)
			abort();
		if (t->compute.max.quota_us > CAP_MAX_US ||
		    (t->compute.max.quota_us && t->compute.max.quota_us < CAP_MIN_US))
			abort();
		if (strlen(t->vm_uuid) != 0 && strlen(t->vm_uuid) != CONF_UUID_LEN)
			abort();
		if ((t->socket && *t->socket != '/') ||
		    (t->window_path && *t->window_path != '/'))
			abort();
	}
}

/* Every complaint is a sentence. */
static void hear(void *arg, bool wrong, const char *text)
{
	if (strncmp(text, "text:", 5))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *why = NULL;
	uint64_t bytes;
	struct conf c;
	int r = 0;

	memcpy(text, data, size);
	text[size] = '\0';
	if (conf_init(&c) < 0)
		abort();
	for (const char *at = text; r == 0 && at <= text + size; at += strlen(at) + 1)
		r = conf_parse(&c, at, &why);
	/* A refusal says why. */
	if (r < 0 && !why)
		abort();
	check(&c);
	if (r == 0 && conf_complete(&c) == 0)
		(void)conf_check(&c, "text", hear, NULL);
	conf_fini(&c);
	free(why);
	(void)size_parse(text, &bytes);
	free(text);
	return 0;
}
