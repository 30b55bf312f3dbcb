/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: images on their way
 *
 * An image goes to the host as it is, cut into pieces that are posted; the command that
 * needs it waits.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "calls.h"
#include "code/image_send.h"
#include "core/image.h"

static _Atomic uint64_t next_image = 1;

static CUresult send_piece(struct guest_thread *t, uint64_t image, uint64_t offset,
			   uint64_t total, const void *data, uint32_t size)
{
	void *payload;
	struct image_data_cmd *cmd = begin_image_data(t, size, &payload);

	if (!cmd)
		return guest_lost(t);
	cmd->image = image;
	cmd->offset = offset;
	cmd->total = total;
	memcpy(payload, data, size);
	return guest_post(t);
}

static CUresult send_part(struct guest_thread *t, uint64_t image, uint64_t *offset,
			  uint64_t total, const void *data, size_t size)
{
	const char *p = data;

	while (size) {
		uint32_t n = (uint32_t)MIN(size, (size_t)WIRE_PAYLOAD_MAX);
		CUresult r = send_piece(t, image, *offset, total, p, n);

		if (r)
			return r;
		*offset += n;
		p += n;
		size -= n;
	}
	return CUDA_SUCCESS;
}

CUresult image_send_bytes(struct guest_thread *t, const void *data, size_t size,
			  uint64_t *ret_image)
{
	uint64_t offset = 0;

	if (!size || size > IMAGE_SIZE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_image = atomic_fetch_add(&next_image, 1);
	return send_part(t, *ret_image, &offset, size, data, size);
}

CUresult image_send(struct guest_thread *t, const void *image, size_t max,
		    uint64_t *ret_image)
{
	uint64_t offset = 0, total = 0, number;
	const void *data;
	size_t size;
	unsigned i;
	int r;

	for (i = 0; (r = image_part(image, max, i, &data, &size)) == 0; i++)
		total += size;
	if (r != -ENOENT || total > IMAGE_SIZE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	number = atomic_fetch_add(&next_image, 1);
	for (i = 0; image_part(image, max, i, &data, &size) == 0; i++) {
		CUresult res = send_part(t, number, &offset, total, data, size);

		if (res)
			return res;
	}
	*ret_image = number;
	return CUDA_SUCCESS;
}
