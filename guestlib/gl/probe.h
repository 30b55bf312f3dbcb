/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the host draws for this guest, tried by a session of graphics of one's own. */
#ifndef WEFT_GUEST_GL_PROBE_H
#define WEFT_GUEST_GL_PROBE_H

#include <stdint.h>

struct probe {
	uint64_t read_ns; /* reading back 1 MiB of a texture, the median of some */
};

/* Tries at an address (NULL: as programs look for the host). Returns 0, or a negative errno and
 * *ret_why, the caller's. Waits for the host. */
int probe(const char *address, struct probe *ret, char **ret_why);

#endif
