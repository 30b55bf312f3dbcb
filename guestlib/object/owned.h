/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that go with a context: when it ends the worker drops its own, and their
 * shadows and handles go here. Thread-safe; an object that the program destroys is
 * removed first.
 */
#ifndef WEFT_GUEST_OWNED_H
#define WEFT_GUEST_OWNED_H

#include "base/list.h"

struct guest_ctx;

struct owned {
	struct list link; /* guest_ctx.owned; empty: its context ended, or it has none */
	void (*drop)(struct owned *o); /* frees handle and object; no lock is held */
};

/* Have o end with a context (NULL: with none), by a call of drop, and no longer. */
void owned_add(struct guest_ctx *c, struct owned *o, void (*drop)(struct owned *o));
void owned_remove(struct owned *o);

/* End all objects of a context that has ended: take them out, and call their drop(). */
void owned_take_all(struct guest_ctx *c, struct list *ret_all);
void owned_drop_all(struct list *all);

#endif
