/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane of a program that draws: takes its commands (gl.h), checks each and has the renderer
 * carry it out, until the program has gone.
 */
#ifndef WEFT_GL_SERVE_H
#define WEFT_GL_SERVE_H

#include <stdint.h>

#include "gl/renderer.h"
#include "ipc/page.h"
#include "lane.h"

struct serve {
	struct lane *lane;
	struct renderer *renderer;
	struct worker_page *page;
	struct meter *meter;
	/* When the command that is being carried out began, clock_now_ns(); 0: none is. */
	_Atomic uint64_t since_ns;
};

/* The renderer's thread. Returns 0 once the program has gone, or -EPROTO: it broke the
 * protocol. */
int serve(struct serve *s);

#endif
