/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code images on their way from the guest, in pieces, until a command uses them. Numbered
 * by the guest; bounded in number and in bytes. Thread-safe.
 */
#ifndef WEFT_SESS_IMAGE_H
#define WEFT_SESS_IMAGE_H

#include <stdint.h>

struct images;
struct accounts;

#define IMAGES_MAX       64           /* at once */
#define IMAGES_BYTES_MAX (4ull << 30) /* the largest library seen has 1.6 GiB */
#define IMAGES_KEPT_MAX  (8ull << 30) /* bytes of what libraries and links hold on to */

struct image {
	void *data; /* malloced, one NUL beyond size */
	uint64_t size;
	uint64_t charged; /* worker memory */
};

/* The broker outlives it. */
int images_new(const struct accounts *broker, struct images **ret_i);
/* Accepts NULL. */
void images_free(struct images *i);

/*
 * Adds a piece; offset is where the one before ended, total the same in each. Returns 0,
 * -EPROTO (out of order) or -ENOMEM (a limit; the image is dropped). The first piece
 * charges all of it, and may wait for that.
 */
int images_add(struct images *i, uint64_t id, uint64_t offset, uint64_t total,
	       const void *data, uint32_t size);

/* Takes a complete image out; image_free() after use. Returns 0 or -ENOENT. */
int images_take(struct images *i, uint64_t id, struct image *ret_image);

/* Frees what was taken, or what was made elsewhere. Accepts an empty one. */
void image_free(struct images *i, struct image *img);

void images_drop(struct images *i, uint64_t id);

/*
 * Moves an image that was taken to where it stays; *img is then empty. Returns 0 or
 * -ENOMEM: too much is kept already, or the tenant has no worker memory left.
 * images_unkeep() frees it; accepts an empty one.
 */
int images_keep(struct images *i, struct image *img, struct image *ret_image);
void images_unkeep(struct images *i, struct image *img);

/* Counts what somebody else, the driver, keeps. Returns 0 or -ENOMEM. */
int images_charge(struct images *i, uint64_t bytes);
void images_uncharge(struct images *i, uint64_t bytes);

#endif
