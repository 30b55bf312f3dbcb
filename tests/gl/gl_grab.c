/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gl_grab MIB: makes textures of 1 MiB until there is no memory for one more, or it has that
 * many; draws with the last one; prints how many it has and the error. Then waits for the end
 * of its input.
 */
#include <stdio.h>

#include "context.h"

#define ROW 512

int main(int argc, char **argv)
{
	int n = 0, most = argc > 1 ? atoi(argv[1]) : 1 << 20;
	static unsigned char pixels[ROW * ROW * 4];
	GLuint t, fb;
	GLenum e = 0;

	if (!context_new(context_display()))
		return 1;
	for (; n < most && !e; n += !e) {
		glGenTextures(1, &t);
		glBindTexture(GL_TEXTURE_2D, t);
		glTexStorage2D(GL_TEXTURE_2D, 1, GL_RGBA8, ROW, ROW);
		e = glGetError();
	}
	printf("%d 0x%x\n", n, e);
	glGenTextures(1, &t);
	/* The textures that it has go on working. */
	glBindTexture(GL_TEXTURE_2D, 1);
	glGenFramebuffers(1, &fb);
	glBindFramebuffer(GL_FRAMEBUFFER, fb);
	glFramebufferTexture(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, 1, 0);
	glClearColor(0, 1, 0, 1);
	glClear(GL_COLOR_BUFFER_BIT);
	glReadPixels(0, 0, ROW, ROW, GL_RGBA, GL_UNSIGNED_BYTE, pixels);
	printf("%02x%02x%02x%02x\n", pixels[0], pixels[1], pixels[2], pixels[3]);
	fflush(stdout);
	(void)getchar();
	return 0;
}
