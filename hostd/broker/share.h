/* SPDX-License-Identifier: Apache-2.0 */
/* Shares: what sessions of a tenant let each other map, by name. */
#ifndef WEFT_BROKER_SHARE_H
#define WEFT_BROKER_SHARE_H

#include <stdint.h>

struct book_share;
struct msg_has_open;
struct msg_ipc_export;
struct share_part;
struct tenant;
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

/*
 * Shares of another weftd (keep/resume.c). First share_adopt() for each that it noted,
 * with its maker if that is still there; then sessions tell what they made, *fd may be
 * taken, and what they have open; share_told() ends that of a maker, and share_adopted()
 * that of all sessions of a tenant. 0, -EPROTO or -errno.
 */
int share_adopt(struct tenant *t, struct book_share *k, struct worker *maker);
int share_tell(struct worker *w, const struct msg_ipc_export *e, int *fd);
int share_tell_open(struct worker *w, const struct msg_has_open *o);
void share_told(struct worker *w);
void share_adopted(struct tenant *t);

#endif
