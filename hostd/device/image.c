/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "device/image.h"
#include "ptx/fatbin.h"

/* Offsets in a container's header: its own size, and that of the rest. */
#define HDR_SIZE_AT  6
#define BODY_SIZE_AT 8

static int is_container(const char *p, size_t left)
{
	uint32_t magic;

	if (left < FATBIN_HDR_BYTES)
		return 0;
	memcpy(&magic, p, sizeof(magic));
	return magic == FATBIN_MAGIC;
}

int image_next(const void *image, size_t size, size_t *pos, struct image_part *ret)
{
	const char *p = (const char *)image + *pos;
	size_t left = size - *pos;
	uint64_t body;
	uint16_t hdr;

	if (!left)
		return 0;
	if (!is_container(p, left)) {
		if (*pos)
			return -EBADMSG;
		*pos = size;
		*ret = (struct image_part){image, size};
		return 1;
	}
	memcpy(&hdr, p + HDR_SIZE_AT, sizeof(hdr));
	memcpy(&body, p + BODY_SIZE_AT, sizeof(body));
	if (hdr < FATBIN_HDR_BYTES || hdr > left || body > left - hdr)
		return -EBADMSG;
	*ret = (struct image_part){p, hdr + (size_t)body};
	*pos += ret->size;
	return 1;
}
