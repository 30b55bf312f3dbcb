# SPDX-License-Identifier: Apache-2.0
# Login shells have the host draw, where it does (weft-guest-gl(8)).
if [ -r /run/environment.d/70-weft-gl.conf ]; then
	set -a
	. /run/environment.d/70-weft-gl.conf
	set +a
	# Off-screen, where there is no screen.
	[ -n "$DISPLAY$WAYLAND_DISPLAY" ] || export EGL_PLATFORM=surfaceless
fi
