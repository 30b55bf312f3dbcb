/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "broker/uuid.h"
#include "util/siphash.h"

/* Reads the machine's id, which is to stay on the machine; see machine-id(5). */
static int machine_id(const char *path, uint8_t *ret_id)
{
	FILE *f = fopen(path, "re");
	unsigned n = 0;

	/* NOLINTNEXTLINE(cert-err34-c): two digits fit */
	while (f && n < 16 && fscanf(f, "%2hhx", &ret_id[n]) == 1)
		n++;
	if (f)
		fclose(f);
	return n == 16 ? 0 : -1;
}

void uuid_make(const char *path, uint8_t *ret_uuid)
{
	uint8_t id[16];
	uint64_t h[2];

	if (machine_id(path, id) < 0 && getrandom(id, sizeof(id), 0) != sizeof(id))
		memset(id, 'w', sizeof(id));
	h[0] = siphash(id, "weft software GPU 0", 19);
	h[1] = siphash(id, "weft software GPU 1", 19);
	memcpy(ret_uuid, h, 16);
	ret_uuid[6] = (ret_uuid[6] & 0x0f) | 0x80; /* version 8: our own */
	ret_uuid[8] = (ret_uuid[8] & 0x3f) | 0x80;
}
