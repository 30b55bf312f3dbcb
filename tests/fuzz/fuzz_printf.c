/* SPDX-License-Identifier: Apache-2.0 */
/* A record of device printf, as a kernel that may write anywhere would leave it. */
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "simt/simt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t caps[] = {0, 1, 20, 4096};
	int lens[ARRAY_SIZE(caps)];

	for (unsigned i = 0; i < ARRAY_SIZE(caps); i++) {
		char *buf = malloc(caps[i] ? caps[i] : 1);

		lens[i] = simt_printf_text(data, size, buf, caps[i]);
		/* As much text whatever has room, and an end to it. */
		if (lens[i] != lens[0])
			abort();
		if (lens[i] >= 0 && caps[i] &&
		    strnlen(buf, caps[i]) > MIN((size_t)lens[i], caps[i] - 1))
			abort();
		free(buf);
	}
	return 0;
}
