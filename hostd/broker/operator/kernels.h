/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of a session's programs, and what became of each (kernel.rewrite), as answers have them. */
#ifndef WEFT_BROKER_KERNELS_H
#define WEFT_BROKER_KERNELS_H

struct json_object;
struct worker;

/* Adds those of a session to a list. */
void kernels_add(const struct worker *w, struct json_object *list);

#endif
