/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gl_picture [FILE]: draws a piece of cloth, compares each pixel with what the processor makes of
 * it, and prints its checksum, who drew, and PASS or FAIL. FILE gets it as SVG.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "context.h"

#define W    96
#define H    54
#define SIDE 96 /* of the square that is drawn */

/* clang-format off */
/* Integers alone, so that every device draws the same; both C and a shader's language. */
#define CLOTH                                                            \
	int cloth(int x, int y)                                             \
	{                                                                   \
		int u = x % 8, v = y % 8, a = x / 8, b = y / 8;             \
		int up = u > 0 && u < 7 ? 1 : 0, across = v > 0 && v < 7 ? 1 : 0;\
		int top = up == 1 && (across == 0 || (a + b) % 2 == 0) ? 1 : 0;\
		int d = top == 1 ? u : v, e = top == 1 ? v : u;             \
		int shade = d < 4 ? d : 7 - d;                              \
                                                                            \
		if (up + across == 0)                                       \
			return 0;                                           \
		if (e == 0 || e == 7)                                       \
			shade = shade > 1 ? 1 : shade;                      \
		return (top == 1 ? 1 : 2 + b % 2) * 4 + shade;              \
	}
#define AS_TEXT(...) #__VA_ARGS__
#define TEXT(...)    AS_TEXT(__VA_ARGS__)

static CLOTH

static const char fs[] =
	"#version 430\nuniform int colours[16]; out vec4 c;\n" TEXT(CLOTH)
	"void main() { int k = colours[cloth(int(gl_FragCoord.x), int(gl_FragCoord.y))];\n"
	"c = vec4(k >> 16, k >> 8 & 255, k & 255, 255) / 255.0; }";
/* clang-format on */

/* Between threads; threads that go up; those that go across, in two colours: dark to light. */
static const GLint colours[16] = {
	0x101018, 0x101018, 0x101018, 0x101018, 0x101018, 0x1f3a6e, 0x2f5aa8, 0x4a7fd6,
	0x101018, 0x8a4a10, 0xc87018, 0xf2a03c, 0x101018, 0x7a1e2a, 0xb03040, 0xe05a60};

/* FNV-1a, 64 bits. */
static uint64_t checksum(const unsigned char *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325;

	while (n--)
		h = (h ^ *p++) * 0x100000001b3;
	return h;
}

static unsigned wrong(const unsigned char *pixels)
{
	unsigned n = 0;

	for (int y = 0; y < H; y++) {
		for (int x = 0; x < W; x++) {
			const unsigned char *p = pixels + 4l * (y * W + x);

			n += (p[0] << 16 | p[1] << 8 | p[2]) != colours[cloth(x, y)] ||
			     p[3] != 255;
		}
	}
	return n;
}

static int at(const unsigned char *pixels, int x, int y)
{
	const unsigned char *p = pixels + 4l * (y * W + x);

	return p[0] << 16 | p[1] << 8 | p[2];
}

/* A path for each colour, of runs of its pixels. */
static int write_svg(const char *path, const unsigned char *pixels)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return -1;
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
		"width=\"%d\" shape-rendering=\"crispEdges\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#%06x\"/>\n",
		W, H, W * 5, colours[0]);
	for (unsigned i = 5; i < 16; i++) {
		if (colours[i] == colours[0])
			continue;
		fprintf(f, "<path stroke=\"#%06x\" d=\"", colours[i]);
		for (int y = 0; y < H; y++) {
			const char *before = "\n";

			for (int x = 0, n; x < W; x += n) {
				n = 1;
				if (at(pixels, x, y) != colours[i])
					continue;
				while (x + n < W && at(pixels, x + n, y) == colours[i])
					n++;
				fprintf(f, "%sM%d %d.5h%d", before, x, H - 1 - y, n);
				before = "";
			}
		}
		fprintf(f, "\"/>\n");
	}
	fprintf(f, "</svg>\n");
	return fclose(f);
}

int main(int argc, char **argv)
{
	static unsigned char pixels[W * H * 4];
	GLuint p = context_begin(fs, SIDE);
	unsigned bad;

	glUniform1iv(glGetUniformLocation(p, "colours"), 16, colours);
	glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
	glReadPixels(0, 0, W, H, GL_RGBA, GL_UNSIGNED_BYTE, pixels);
	bad = wrong(pixels);
	printf("%dx%d, checksum %016" PRIx64 ", by %s: %s\n", W, H,
	       checksum(pixels, sizeof(pixels)), (const char *)glGetString(GL_RENDERER),
	       bad ? "FAIL" : "PASS");
	if (argc > 1 && write_svg(argv[1], pixels)) {
		perror(argv[1]);
		return 1;
	}
	return bad != 0;
}
