/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/device_visible.h"

/* "GPU-" and at least one digit of the UUID. */
#define UUID_PREFIX_MIN 5

void device_uuid_text(const uint8_t u[16], char ret_text[DEVICE_UUID_TEXT])
{
	snprintf(ret_text, DEVICE_UUID_TEXT,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%"
		 "02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
		 u[12], u[13], u[14], u[15]);
}

/* True if the entry of len characters names device 0. */
static bool names_device(const char *entry, size_t len, const char *uuid_text)
{
	char *end;
	long ordinal;

	if (len >= UUID_PREFIX_MIN && strncasecmp(entry, "GPU-", 4) == 0)
		return len < DEVICE_UUID_TEXT && strncasecmp(entry, uuid_text, len) == 0;
	errno = 0;
	ordinal = strtol(entry, &end, 10);
	/* As strtol: what follows the digits is ignored, "0x" is device 0. */
	return end != entry && errno == 0 && ordinal == 0;
}

unsigned device_visible(const char *spec, const uint8_t uuid[16])
{
	char text[DEVICE_UUID_TEXT];
	size_t len;

	if (!spec)
		return 1;
	while (*spec == ' ')
		spec++;
	device_uuid_text(uuid, text);
	len = strcspn(spec, ", ");
	/* One device: the list goes on only if its first entry names it. */
	return len && names_device(spec, len, text) ? 1 : 0;
}
