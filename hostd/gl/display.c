/* SPDX-License-Identifier: Apache-2.0 */
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gl/display.h"

#ifndef EGL_CUDA_DEVICE_NV
#define EGL_CUDA_DEVICE_NV 0x323A
#endif

#define DEVICES_MAX 32

static EGLDisplay display;

static bool has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; p && (p = strstr(p, word)); p += n) {
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	}
	return false;
}

static bool is_wanted(EGLDeviceEXT dev, int ordinal)
{
	PFNEGLQUERYDEVICESTRINGEXTPROC text =
		(PFNEGLQUERYDEVICESTRINGEXTPROC)eglGetProcAddress(
			"eglQueryDeviceStringEXT");
	PFNEGLQUERYDEVICEATTRIBEXTPROC attrib =
		(PFNEGLQUERYDEVICEATTRIBEXTPROC)eglGetProcAddress(
			"eglQueryDeviceAttribEXT");
	const char *can = text ? text(dev, EGL_EXTENSIONS) : NULL;
	EGLAttrib number;

	if (ordinal < 0)
		return has(can, "EGL_MESA_device_software");
	return has(can, "EGL_NV_device_cuda") && attrib &&
	       attrib(dev, EGL_CUDA_DEVICE_NV, &number) && number == ordinal;
}

static EGLDisplay find(int ordinal)
{
	PFNEGLQUERYDEVICESEXTPROC query =
		(PFNEGLQUERYDEVICESEXTPROC)eglGetProcAddress("eglQueryDevicesEXT");
	EGLDeviceEXT devices[DEVICES_MAX];
	EGLint n = 0;

	if (!query || !query(DEVICES_MAX, devices, &n))
		return EGL_NO_DISPLAY;
	for (EGLint i = 0; i < n; i++) {
		if (is_wanted(devices[i], ordinal))
			return eglGetPlatformDisplay(EGL_PLATFORM_DEVICE_EXT, devices[i],
						     NULL);
	}
	return EGL_NO_DISPLAY;
}

/* Settings of programs are not for us, and nothing is kept in files. */
static void set_environment(int ordinal, unsigned threads)
{
	char text[12];

	unsetenv("DISPLAY");
	unsetenv("WAYLAND_DISPLAY");
	unsetenv("EGL_PLATFORM");
	setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
	setenv("__GL_SHADER_DISK_CACHE", "0", 1);
	if (ordinal >= 0)
		return;
	setenv("LIBGL_ALWAYS_SOFTWARE", "true", 1);
	setenv("GALLIUM_DRIVER", "llvmpipe", 1);
	if (!threads)
		return;
	snprintf(text, sizeof(text), "%u", threads);
	setenv("LP_NUM_THREADS", text, 1);
}

int display_open(int ordinal, unsigned threads, const char **ret_why)
{
	EGLint major, minor;
	const char *can;

	set_environment(ordinal, threads);
	display = find(ordinal);
	if (display == EGL_NO_DISPLAY) {
		*ret_why = ordinal < 0 ? "EGL has no software rasteriser"
				       : "EGL has no device for this GPU";
		return -ENODEV;
	}
	if (!eglInitialize(display, &major, &minor)) {
		*ret_why = "the EGL display does not open";
		return -ENODEV;
	}
	can = eglQueryString(display, EGL_EXTENSIONS);
	if (!has(can, "EGL_KHR_surfaceless_context") ||
	    !has(can, "EGL_KHR_no_config_context")) {
		*ret_why = "EGL makes no contexts without a surface";
		return -ENODEV;
	}
	if (!eglBindAPI(EGL_OPENGL_API)) {
		*ret_why = "EGL has no OpenGL";
		return -ENODEV;
	}
	log_debug("EGL %d.%d: %s", major, minor, eglQueryString(display, EGL_VENDOR));
	return 0;
}

void *display_context(int major, int minor, bool shared)
{
	const EGLint want[] = {
		EGL_CONTEXT_MAJOR_VERSION,
		major,
		EGL_CONTEXT_MINOR_VERSION,
		minor,
		EGL_CONTEXT_OPENGL_PROFILE_MASK,
		EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT,
		EGL_NONE,
	};
	EGLContext with = shared ? eglGetCurrentContext() : EGL_NO_CONTEXT;

	/* Each thread has an API of its own bound. */
	eglBindAPI(EGL_OPENGL_API);
	return eglCreateContext(display, EGL_NO_CONFIG_KHR, with, want);
}

void display_context_free(void *context)
{
	eglDestroyContext(display, context);
}

int display_current(void *context)
{
	eglBindAPI(EGL_OPENGL_API);
	return eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context) ? 0
										: -EIO;
}
