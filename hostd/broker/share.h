/* SPDX-License-Identifier: Apache-2.0 */
/* Shares: what sessions of a tenant let each other map, by name. */
#ifndef WEFT_BROKER_SHARE_H
#define WEFT_BROKER_SHARE_H

#include <stdint.h>

struct share_part;
struct worker;

/* Takes over fd (may be -1) on success. The first part gives the name, others take it.
 * Returns 0, -EINVAL, -EMFILE (too many), -ENOMEM or -EIO. */
int share_export(struct worker *w, const struct share_part *x, int fd, uint8_t *name);
/* x->kind and x->part say what; x->fd stays ours. -EDEADLK: the worker's own; -EINVAL:
 * none of its tenant's, or not all of it is there yet. */
int share_open(struct worker *w, const uint8_t *name, struct share_part *x);
/* Ends one share_open() of a first part. */
void share_close(struct worker *w, const uint8_t *name);
/* The worker has freed what it exported. Its charge for it ends here, if all parts were
 * there. */
void share_drop(struct worker *w, const uint8_t *name);
/* The worker has ended; before account_end(). */
void share_end(struct worker *w);

#endif
