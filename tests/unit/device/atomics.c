/* SPDX-License-Identifier: Apache-2.0 */
/* usage: atomics_check SM FILE...: says of each file whether its code for that compute capability has
 * atomics of system scope, "1" or "0", a line each. */
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "device/atomics.h"

static char *read_file(const char *path, size_t *ret_size)
{
	FILE *f = fopen(path, "rb");
	char *data = NULL;
	long size;

	if (!f)
		return NULL;
	if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0 &&
	    fseek(f, 0, SEEK_SET) == 0 && (data = malloc((size_t)size)))
		*ret_size = fread(data, 1, (size_t)size, f);
	fclose(f);
	return data;
}

int main(int argc, char **argv)
{
	for (int i = 2; i < argc; i++) {
		size_t size = 0;
		_cleanup_free_ char *image = read_file(argv[i], &size);

		if (!image)
			return 1;
		printf("%d\n", atomics_of_system(image, size,
						 (unsigned)strtoul(argv[1], NULL, 10)));
	}
	return 0;
}
