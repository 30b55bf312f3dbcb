/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that virglrenderer takes for granted and a core profile of OpenGL has not. */
#ifndef WEFT_GL_PROFILE_H
#define WEFT_GL_PROFILE_H

/*
 * From now on calls by which GL_NV_primitive_restart is used in this process are those of OpenGL
 * 3.1. NVIDIA's driver names that extension in core profiles, too, where its client state is an
 * invalid operation; and one error ends a guest's context (virglrenderer 0.10.4,
 * vrend_draw_vbo()). Once, before virglrenderer is initialized.
 */
void profile_open(void);

#endif
