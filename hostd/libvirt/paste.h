/* SPDX-License-Identifier: Apache-2.0 */
/* Puts into a domain what a share of a GPU wants there, or takes it out again. */
#ifndef WEFT_LIBVIRT_PASTE_H
#define WEFT_LIBVIRT_PASTE_H

#include "libvirt/domain.h"

/*
 * An empty domain of that name, for those who paste by hand. Returns 0, -EINVAL or
 * -ENOMEM and a sentence; domain_fini() copes with either.
 */
int paste_start(const char *name, struct domain *ret, char **ret_why);

/*
 * Makes a domain have the element that d->gpu is, shared memory, the window and the vsock
 * device; what was there of ours is replaced. Likewise.
 */
int paste_apply(struct domain *d, char **ret_why);

/* Takes out all of that but the shared memory. */
void paste_remove(struct domain *d);

/* Writes the domain's XML. Returns 0 or -ENOMEM. */
int paste_print(const struct domain *d, FILE *f);

#endif
