/* SPDX-License-Identifier: Apache-2.0 */
/* A context of OpenGL 4.3 without a window, which draws squares into a texture. */
#ifndef WEFT_TESTS_GL_CONTEXT_H
#define WEFT_TESTS_GL_CONTEXT_H

#define GL_GLEXT_PROTOTYPES
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/glcorearb.h>
#include <stdlib.h>

static const char context_vs[] = "#version 430\nvoid main() { gl_Position = "
				 "vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * "
				 "2.0 - 1.0, 0.0, 1.0); }";

/* OpenGL without a window: by Mesa's platform for that, else by the first device of EGL's. Ends the
 * program if there is none. */
static inline EGLDisplay context_display(void)
{
	PFNEGLQUERYDEVICESEXTPROC devices =
		(PFNEGLQUERYDEVICESEXTPROC)eglGetProcAddress("eglQueryDevicesEXT");
	EGLDisplay d = eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA,
					     EGL_DEFAULT_DISPLAY, NULL);
	EGLDeviceEXT first;
	EGLint n = 0;

	if (!eglInitialize(d, NULL, NULL)) {
		if (!devices || !devices(1, &first, &n) || !n)
			exit(1);
		d = eglGetPlatformDisplay(EGL_PLATFORM_DEVICE_EXT, first, NULL);
		if (!eglInitialize(d, NULL, NULL))
			exit(1);
	}
	if (!eglBindAPI(EGL_OPENGL_API))
		exit(1);
	return d;
}

/* A context of OpenGL 4.3, which is current then; NULL if there is none. */
static inline EGLContext context_new(EGLDisplay d)
{
	static const EGLint want[] = {EGL_CONTEXT_MAJOR_VERSION, 4,
				      EGL_CONTEXT_MINOR_VERSION, 3, EGL_NONE};
	EGLContext x = eglCreateContext(d, EGL_NO_CONFIG_KHR, EGL_NO_CONTEXT, want);

	return x && eglMakeCurrent(d, EGL_NO_SURFACE, EGL_NO_SURFACE, x) ? x : NULL;
}

static inline void context_compile(GLuint p, GLenum kind, const char *text)
{
	GLuint s = glCreateShader(kind);

	glShaderSource(s, 1, &text, NULL);
	glCompileShader(s);
	glAttachShader(p, s);
}

/* Draws from now on with that fragment shader into side by side pixels; ends the program if there
 * is no such context. Returns the program of shaders. */
static inline GLuint context_begin(const char *fs, GLsizei side)
{
	GLuint fb, vao, t, p;

	if (!context_new(context_display()))
		exit(1);
	glGenVertexArrays(1, &vao);
	glBindVertexArray(vao);
	glGenTextures(1, &t);
	glBindTexture(GL_TEXTURE_2D, t);
	glTexStorage2D(GL_TEXTURE_2D, 1, GL_RGBA8, side, side);
	glGenFramebuffers(1, &fb);
	glBindFramebuffer(GL_FRAMEBUFFER, fb);
	glFramebufferTexture(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, t, 0);
	glViewport(0, 0, side, side);
	p = glCreateProgram();
	context_compile(p, GL_VERTEX_SHADER, context_vs);
	context_compile(p, GL_FRAGMENT_SHADER, fs);
	glLinkProgram(p);
	glUseProgram(p);
	return p;
}

#endif
