/* SPDX-License-Identifier: Apache-2.0 */
/* A guest with one lane: commands, one after the other (fuzz_session.h). */
#include "fuzz_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_session f;

	fuzz_session_open(&f, 1, size & 1 ? WIRE_CARRIER_WINDOW : WIRE_CARRIER_STREAM);
	fuzz_session_play(&f, 0, data, size);
	fuzz_session_close(&f);
	return 0;
}
