/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gl_scenes FILE: draws each scene off-screen in a context of its own, and writes their
 * pictures to a file: a name with its newline, SIDE x SIDE pixels of RGBA, and the next. The
 * renderer's name is printed.
 */
#include <stdio.h>

#include "context.h"
#include "scenes.h"

static EGLContext begin(EGLDisplay d)
{
	EGLContext x = context_new(d);
	GLuint fb, vao, t;

	if (!x) {
		fprintf(stderr, "no context: 0x%x\n", eglGetError());
		exit(1);
	}
	glGenVertexArrays(1, &vao);
	glBindVertexArray(vao);
	glGenTextures(1, &t);
	glBindTexture(GL_TEXTURE_2D, t);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, SIDE, SIDE, 0, GL_RGBA, GL_UNSIGNED_BYTE,
		     NULL);
	glBindTexture(GL_TEXTURE_2D, 0);
	glGenFramebuffers(1, &fb);
	glBindFramebuffer(GL_FRAMEBUFFER, fb);
	glFramebufferTexture(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, t, 0);
	glViewport(0, 0, SIDE, SIDE);
	glClear(GL_COLOR_BUFFER_BIT);
	return x;
}

int main(int argc, char **argv)
{
	static unsigned char p[SIDE * SIDE * 4];
	EGLDisplay d = context_display();
	FILE *f = argc == 2 ? fopen(argv[1], "wb") : NULL;
	int failed = 0;

	if (!f)
		return 64;
	for (const struct scene *s = scenes; s->name; s++) {
		EGLContext x = begin(d);
		GLenum e;

		if (s == scenes)
			printf("%s\n", (const char *)glGetString(GL_RENDERER));
		s->draw();
		glReadPixels(0, 0, SIDE, SIDE, GL_RGBA, GL_UNSIGNED_BYTE, p);
		e = glGetError();
		if (e) {
			fprintf(stderr, "%s: error 0x%x\n", s->name, e);
			failed = 1;
		}
		fprintf(f, "%s\n", s->name);
		fwrite(p, 1, sizeof(p), f);
		eglMakeCurrent(d, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
		eglDestroyContext(d, x);
	}
	eglTerminate(d);
	return fclose(f) ? 1 : failed;
}
