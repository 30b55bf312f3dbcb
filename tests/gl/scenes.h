/* SPDX-License-Identifier: Apache-2.0 */
/* Scenes: small pictures, each of which needs another part of OpenGL. */
#ifndef WEFT_TEST_SCENES_H
#define WEFT_TEST_SCENES_H

#define GL_GLEXT_PROTOTYPES
#include <GL/glcorearb.h>

/* Side of the picture, in pixels. */
#define SIDE 64

struct scene {
	const char *name;
	void (*draw)(void); /* into the framebuffer that is bound, of SIDE x SIDE */
};

/* A name of NULL ends the list. */
extern const struct scene scenes[];

#endif
