/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants as weftctl changed them, in the file that a weftd leaves to the next one. What
 * is made of it is a configuration as a file could have it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "broker/keep/changes.h"
#include "util/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore(void *arg, bool wrong, const char *text)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	const struct conf_tenant *t;
	struct conf c;
	int r;

	memcpy(text, data, size);
	text[size] = '\0';
	log_set_level(LOG_LVL_NONE); /* refusals are what is wanted here */
	if (conf_init(&c) < 0 || conf_parse(&c, "[tenant a]\n[tenant b]\n", NULL) < 0)
		abort();
	r = changes_parse(&c, text);
	if (r < 0 && r != -EBADMSG)
		abort();
	list_for_each (t, &c.tenants, link) {
		if (conf_name_error(t->name) || conf_tenant_find(&c, t->name) != t)
			abort();
		if ((t->socket && *t->socket != '/') ||
		    (t->window_path && *t->window_path != '/'))
			abort();
	}
	if (conf_complete(&c) == 0)
		(void)conf_check(&c, NULL, ignore, NULL);
	conf_fini(&c);
	free(text);
	return 0;
}
