/* SPDX-License-Identifier: Apache-2.0 */
/* The length of a code image from a file: within the file, and all of it readable. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t wrapper = IMAGE_WRAPPER_MAGIC;
	static volatile uint8_t sum;
	const void *part;
	size_t n, i;
	uint8_t *copy;

	/* A wrapper holds pointers of the process that made it: nothing to guess. */
	if (size >= sizeof(wrapper) && memcmp(data, &wrapper, sizeof(wrapper)) == 0)
		return 0;
	copy = malloc(size ? size : 1); /* so that reading past it is seen */
	memcpy(copy, data, size);
	if (image_part(copy, size, 0, &part, &n) == 0) {
		if (part != copy || n > size)
			abort();
		for (i = 0; i < n; i++)
			sum += copy[i];
		sum += image_needs_compiler(part, n, 9, 0);
	}
	free(copy);
	return 0;
}
