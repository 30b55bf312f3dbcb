/* SPDX-License-Identifier: Apache-2.0 */
/* A program that draws: its driver's socket on one side, its weft-gl on the other. */
#ifndef WEFT_GUEST_GL_CLIENT_H
#define WEFT_GUEST_GL_CLIENT_H

/* Serves a connection until it ends, on the calling thread. The socket is taken over. */
void client_serve(int sock);

#endif
