/* SPDX-License-Identifier: Apache-2.0 */
#include <epoxy/gl.h>

#include "gl/profile.h"

static void enable(GLenum state)
{
	glEnable(state == GL_PRIMITIVE_RESTART_NV ? GL_PRIMITIVE_RESTART : state);
}

static void disable(GLenum state)
{
	glDisable(state == GL_PRIMITIVE_RESTART_NV ? GL_PRIMITIVE_RESTART : state);
}

static void restart_at(GLuint index)
{
	glPrimitiveRestartIndex(index);
}

void profile_open(void)
{
	/* virglrenderer calls what these variables of libepoxy's point to. */
	epoxy_glEnableClientState = enable;
	epoxy_glDisableClientState = disable;
	epoxy_glPrimitiveRestartIndexNV = restart_at;
}
