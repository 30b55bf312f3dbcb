/* SPDX-License-Identifier: Apache-2.0 */
/* Containers as a guest hands them over; every entry that unpacks is also read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/fatbin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static volatile uint8_t sum;
	struct fatbin_entry e;
	char *text = NULL, targets[32];
	size_t n, pos = 0;

	while (fatbin_next(data, size, &pos, &e) == 1) {
		for (size_t i = 0; i < e.payload_bytes; i++)
			sum += e.payload[i];
	}
	if (fatbin_ptx(data, size, 90, &text, &n) == 0 && text[n])
		abort();
	free(text);
	text = NULL;
	if (fatbin_elf(data, size, 90, &text, &n) == 0)
		sum += n;
	free(text);
	sum += fatbin_may_name(data, size, 90, "vprintf");
	fatbin_targets(data, size, targets, sizeof(targets));
	if (strlen(targets) >= sizeof(targets))
		abort();
	return 0;
}
