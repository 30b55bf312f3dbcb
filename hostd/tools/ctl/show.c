/* SPDX-License-Identifier: Apache-2.0 */
/* Members of an answer as people read them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/ctl/ctl.h"
#include "util/size.h"

bool ctl_is_size(const char *key)
{
	return (!strncmp(key, "memory.", 7) && strcmp(key, "memory.weight") != 0 &&
		strcmp(key, "memory.events") != 0) ||
	       !strncmp(key, "host.", 5) || !strncmp(key, "worker.memory.", 14);
}

const char *ctl_size(const struct ctl *ctl, struct json_object *of, const char *key,
		     char *buf, size_t room)
{
	uint64_t v = json_u64(of, key);

	if (!ctl->bytes || v == UINT64_MAX)
		return size_format(v, buf, room);
	snprintf(buf, room, "%" PRIu64, v);
	return buf;
}

void ctl_add_size(struct table *t, const struct ctl *ctl, struct json_object *of,
		  const char *key)
{
	char buf[32];

	table_add(t, "%s", ctl_size(ctl, of, key, buf, sizeof(buf)));
}

void ctl_add_number(struct table *t, struct json_object *of, const char *key)
{
	table_add(t, "%" PRIu64, json_u64(of, key));
}

void ctl_add_text(struct table *t, struct json_object *of, const char *key)
{
	table_add(t, "%s", json_str(of, key));
}

void ctl_add_time(struct table *t, struct json_object *of, const char *key)
{
	char buf[32];

	table_add(t, "%s", time_format(json_u64(of, key), buf, sizeof(buf)));
}
