/* SPDX-License-Identifier: Apache-2.0 */
/* kill: sessions. */
#include <inttypes.h>
#include <stdio.h>

#include "base/fd.h"
#include "tools/ctl/ctl.h"

int ctl_kill(const struct ctl *ctl, int argc, char **argv)
{
	int status;
	_cleanup_(ctl_putp) struct json_object *a =
		ctl_ask(ctl, ctl_about("kill", argv[1]), &status);

	if (!a)
		return status;
	if (json_u64(a, "killed"))
		printf("%" PRIu64 " ended\n", json_u64(a, "killed"));
	else
		printf("%s has no sessions\n", argv[1]);
	return 0;
}
