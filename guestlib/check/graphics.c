/* SPDX-License-Identifier: Apache-2.0 */
/* OpenGL: whether the host draws, and whether programs here have what they need for it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "check/check.h"
#include "check/report.h"
#include "gl/probe.h"

#define VTEST_SOCKET "/tmp/.virgl_test"
/* Mesa's driver, in Debian's place for it. */
#define MESA_DRIVER "/usr/lib/x86_64-linux-gnu/dri/swrast_dri.so"

static void advise(void)
{
	const char *driver = getenv("GALLIUM_DRIVER");

	if (access(MESA_DRIVER, F_OK) < 0)
		report_advice("Mesa is not here: apt install libegl1 libgl1-mesa-dri");
	if (access(VTEST_SOCKET, F_OK) < 0)
		report_advice("nobody listens for Mesa: "
			      "systemctl enable --now weft-guest-gl.socket");
	if (!driver || strcmp(driver, "virpipe") != 0)
		report_advice("programs need GALLIUM_DRIVER=virpipe "
			      "LIBGL_ALWAYS_SOFTWARE=true (weft-guest-gl(8))");
}

void check_graphics(const char *address)
{
	_cleanup_free_ char *why = NULL;
	struct probe p;

	if (probe(address, &p, &why) < 0) {
		report(VERDICT_NONE, "OpenGL", "not by the host: %s",
		       why ? why : "out of memory");
		return;
	}
	report(VERDICT_OK, "OpenGL",
	       "the host draws; reading back 1 MiB takes %llu.%02llu ms",
	       (unsigned long long)p.read_ns / 1000000,
	       (unsigned long long)p.read_ns / 10000 % 100);
	advise();
}
