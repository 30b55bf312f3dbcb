/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of launches beside a profile, so that several programs, and several runs of one, add to
 * it. Text, of lines that follow one another:
 *
 *	weft-launches 1
 *	kernel HASH SEEN NAME
 *	launch GRID_X GRID_Y GRID_Z BLOCK_X BLOCK_Y BLOCK_Z PARAMETERS
 *	memory FROM TO FROM TO ...
 *	reached FROM TO FROM TO ...
 *
 * where hashes, parameters (bytes one after the other, or -) and addresses are hexadecimal.
 */
#ifndef WEFT_PROFILE_RECORD_H
#define WEFT_PROFILE_RECORD_H

#include <stdio.h>

#include "profile/launch.h"

/* Adds what a file has to k; an empty one has nothing. 0, -EINVAL (*ret_line is where) or -ENOMEM;
 * what came before stays in k. */
int record_read(FILE *f, struct kernels *k, unsigned *ret_line);
/* Writes the kernels that have launches. */
void record_write(FILE *f, const struct kernels *k);

#endif
