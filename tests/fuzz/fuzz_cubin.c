/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code as a guest hands it over: its variables in managed memory are listed, placed, and
 * then there are none of them any more. Any code: it is looked through for atomics. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/atomics.h"
#include "device/cubin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static volatile uint8_t sum;
	struct dev_managed *v = NULL, *left = NULL;
	uint8_t *copy = malloc(size + 1);
	unsigned n = 0, n_left = 0;

	memcpy(copy, data, size);
	sum += atomics_of_system(copy, size, 90);
	if (cubin_managed(copy, size, &v, &n) == 0) {
		for (unsigned i = 0; i < n; i++) {
			const uint8_t *value = cubin_value(copy, size, &v[i]);

			for (uint64_t k = 0; value && k < v[i].bytes; k++)
				sum += value[k];
			v[i].addr = 0x260000000000 + 256 * i;
		}
		/* Addresses lie where relocations say, even in tables themselves. */
		if (cubin_place(copy, size, v, n) == 0 &&
		    cubin_managed(copy, size, &left, &n_left) == 0)
			sum += n_left;
	}
	free(left);
	free(v);
	free(copy);
	return 0;
}
