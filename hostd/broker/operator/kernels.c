/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <string.h>

#include <json-c/json.h>

#include "base/macros.h"
#include "broker/operator/kernels.h"
#include "broker/reply.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"

/* A worker is not believed: what it says is text to read. */
static void clean(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (char *p = text; *p; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
}

void kernels_add(const struct worker *w, struct json_object *list)
{
	const struct worker_page *page = w->count;
	/* acquire: pairs with the worker's release, which follows the entry */
	uint64_t n = atomic_load_explicit(&page->n_forms, memory_order_acquire);

	for (uint64_t i = 0; i < MIN(n, (uint64_t)PAGE_FORMS_MAX); i++) {
		struct json_object *o = json_object_new_object();
		struct page_form f;

		memcpy(&f, &page->forms[i], sizeof(f));
		clean(f.name, sizeof(f.name));
		clean(f.why, sizeof(f.why));
		reply_u64(o, "session", w->session);
		reply_str(o, "tenant", w->tenant->name);
		reply_str(o, "name", f.name);
		reply_str(o, "why", f.rewritten ? "" : f.why);
		reply_str(o, "no_yield", f.rewritten ? f.why : "");
		reply_u64(o, "cost", MIN(f.cost, 1000000u));
		json_object_array_add(list, o);
	}
}
