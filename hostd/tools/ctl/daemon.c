/* SPDX-License-Identifier: Apache-2.0 */
/* shutdown: weftd itself. */
#include "tools/ctl/ctl.h"

int ctl_shutdown(const struct ctl *ctl, int argc, char **argv)
{
	int status;

	json_object_put(ctl_ask(ctl, client_request("shutdown"), &status));
	return status;
}
