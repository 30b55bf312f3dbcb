/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gl_frames N: draws N frames that take a while each, waits for each, and says so; then again for
 * each line of its input.
 */
#define GL_GLEXT_PROTOTYPES
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/glcorearb.h>
#include <stdio.h>
#include <stdlib.h>

static const char vs[] = "#version 430\nvoid main() { gl_Position = vec4(gl_VertexID & "
			 "1, gl_VertexID >> 1, 0, "
			 "0.5) * 2.0 - 1.0; }";
static const char fs[] = "#version 430\nout vec4 c; void main() { float s = "
			 "gl_FragCoord.x; for (int i = 0; i < "
			 "500; i++) s = sin(s + gl_FragCoord.y); c = vec4(s); }";

static void compile(GLuint p, GLenum kind, const char *text)
{
	GLuint s = glCreateShader(kind);

	glShaderSource(s, 1, &text, NULL);
	glCompileShader(s);
	glAttachShader(p, s);
}

static void begin(void)
{
	static const EGLint want[] = {EGL_CONTEXT_MAJOR_VERSION, 4,
				      EGL_CONTEXT_MINOR_VERSION, 3, EGL_NONE};
	EGLDisplay d = eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA,
					     EGL_DEFAULT_DISPLAY, NULL);
	GLuint fb, vao, t, p;

	if (!eglInitialize(d, NULL, NULL) || !eglBindAPI(EGL_OPENGL_API) ||
	    !eglMakeCurrent(d, EGL_NO_SURFACE, EGL_NO_SURFACE,
			    eglCreateContext(d, EGL_NO_CONFIG_KHR, EGL_NO_CONTEXT, want)))
		exit(1);
	glGenVertexArrays(1, &vao);
	glBindVertexArray(vao);
	glGenTextures(1, &t);
	glBindTexture(GL_TEXTURE_2D, t);
	glTexStorage2D(GL_TEXTURE_2D, 1, GL_RGBA8, 256, 256);
	glGenFramebuffers(1, &fb);
	glBindFramebuffer(GL_FRAMEBUFFER, fb);
	glFramebufferTexture(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, t, 0);
	glViewport(0, 0, 256, 256);
	p = glCreateProgram();
	compile(p, GL_VERTEX_SHADER, vs);
	compile(p, GL_FRAGMENT_SHADER, fs);
	glLinkProgram(p);
	glUseProgram(p);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;

	begin();
	do {
		for (int i = 0; i < n; i++) {
			glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
			glFinish();
		}
		printf("%d frames, 0x%x\n", n, glGetError());
		fflush(stdout);
	} while (getchar() != EOF);
	return 0;
}
