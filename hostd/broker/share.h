/* SPDX-License-Identifier: Apache-2.0 */
/* Shares: what sessions of a tenant let each other map, by name. */
#ifndef WEFT_BROKER_SHARE_H
#define WEFT_BROKER_SHARE_H

#include <stdint.h>

struct share_part;
struct worker;

/* Exports a part; takes over fd (may be -1) on success. The first part gives the name,
 * others take it. Returns 0, -EINVAL, -EMFILE (too many), -ENOMEM or -EIO. */
int share_export(struct worker *w, const struct share_part *x, int fd, uint8_t *name);
/* Opens a part, which x->kind and x->part name; x->fd stays ours. -EDEADLK: the worker's
 * own; -EINVAL: none of its tenant's, or not all of it is there yet. */
int share_open(struct worker *w, const uint8_t *name, struct share_part *x);
/* Ends one share_open() of a first part. */
void share_close(struct worker *w, const uint8_t *name);
/* Drops a share whose maker w has freed it. Its charge ends here, if all parts were
 * there. */
void share_drop(struct worker *w, const uint8_t *name);
/* Drops all that a worker has made or opened; it has ended. Before account_end(). */
void share_end(struct worker *w);

#endif
