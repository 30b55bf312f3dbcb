/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gl_frames N [ROUNDS]: draws N frames that take a while each, or ROUNDS times as long, waits for
 * each, and says so; then again for each line of its input. Before the first it says "begun".
 */
#include <stdio.h>

#include "context.h"

static const char fs[] = "#version 430\nout vec4 c; void main() { float s = "
			 "gl_FragCoord.x; for (int i = 0; i < "
			 "500; i++) s = sin(s + gl_FragCoord.y); c = vec4(s); }";

int main(int argc, char **argv)
{
	int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
	GLsizei rounds = argc > 2 ? (GLsizei)strtol(argv[2], NULL, 10) : 1;

	context_begin(fs, 256);
	printf("begun\n");
	do {
		fflush(stdout);
		for (int i = 0; i < n; i++) {
			/* A rasteriser ends a loop after some ten thousand rounds: so all again. */
			glDrawArraysInstanced(GL_TRIANGLE_STRIP, 0, 4, rounds);
			glFinish();
		}
		printf("%d frames, 0x%x\n", n, glGetError());
		fflush(stdout);
	} while (getchar() != EOF);
	return 0;
}
