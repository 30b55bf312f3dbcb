/* SPDX-License-Identifier: Apache-2.0 */
/* add, remove, reclaim: tenants. */
#include <inttypes.h>
#include <stdio.h>

#include "base/fd.h"
#include "tools/ctl/ctl.h"

int ctl_add(const struct ctl *ctl, int argc, char **argv)
{
	struct json_object *q = ctl_named("tenant-add", argv[1]);
	int status;

	if (ctl_keys(q, argc - 2, argv + 2) < 0) {
		json_object_put(q);
		return CTL_USAGE;
	}
	_cleanup_(ctl_putp) struct json_object *a = ctl_ask(ctl, q, &status);
	if (!a)
		return status;
	if (json_object_get_boolean(json_get(a, "existed")))
		fprintf(stderr, "weftctl: tenant %s was there: nothing has changed\n",
			argv[1]);
	printf("%s\n", json_str(json_get(a, "tenant"), "socket"));
	return 0;
}

int ctl_remove(const struct ctl *ctl, int argc, char **argv)
{
	int status;

	json_object_put(ctl_ask(ctl, ctl_named("tenant-remove", argv[1]), &status));
	return status;
}

int ctl_reclaim(const struct ctl *ctl, int argc, char **argv)
{
	struct json_object *q = ctl_named("reclaim", argv[1]);
	char buf[32];
	int status;

	json_object_object_add(q, "bytes", json_object_new_string(argv[2]));
	_cleanup_(ctl_putp) struct json_object *a = ctl_ask(ctl, q, &status);
	if (!a)
		return status;
	printf("%s moved\n", ctl_size(ctl, a, "bytes", buf, sizeof(buf)));
	return 0;
}
