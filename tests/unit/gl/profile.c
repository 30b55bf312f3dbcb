/* SPDX-License-Identifier: Apache-2.0 */
/* Primitive restart as a core profile has it (gl/profile.h). libepoxy's variables are our own. */
#include <criterion/criterion.h>
#include <epoxy/gl.h>

#include "gl/profile.h"

static GLenum enabled, disabled;
static GLuint index_;

static void enable(GLenum what)
{
	enabled = what;
}

static void disable(GLenum what)
{
	disabled = what;
}

static void restart_at(GLuint index)
{
	index_ = index;
}

PFNGLENABLEPROC epoxy_glEnable = enable;
PFNGLDISABLEPROC epoxy_glDisable = disable;
PFNGLPRIMITIVERESTARTINDEXPROC epoxy_glPrimitiveRestartIndex = restart_at;
PFNGLENABLECLIENTSTATEPROC epoxy_glEnableClientState;
PFNGLDISABLECLIENTSTATEPROC epoxy_glDisableClientState;
PFNGLPRIMITIVERESTARTINDEXNVPROC epoxy_glPrimitiveRestartIndexNV;

Test(profile, primitive_restart)
{
	profile_open();
	glEnableClientState(GL_PRIMITIVE_RESTART_NV);
	cr_expect_eq(enabled, GL_PRIMITIVE_RESTART);
	glPrimitiveRestartIndexNV(0xffff);
	cr_expect_eq(index_, 0xffff);
	glDisableClientState(GL_PRIMITIVE_RESTART_NV);
	cr_expect_eq(disabled, GL_PRIMITIVE_RESTART);
}
