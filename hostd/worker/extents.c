/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macros.h"
#include "worker/extents.h"

#define READ_MAX ((1u << 20) + 1)

/* 0 or -errno. */
static int read_file(const char *path, char *text, size_t *ret_size)
{
	FILE *f = fopen(path, "re");
	int r = 0;

	if (!f)
		return -errno;
	*ret_size = fread(text, 1, READ_MAX, f);
	if (ferror(f))
		r = -EIO;
	fclose(f);
	return r;
}

char *extents_read(const char *path, size_t *ret_size)
{
	_cleanup_free_ char *text = malloc(READ_MAX);
	int r = text ? read_file(path, text, ret_size) : -ENOMEM;

	if (r < 0) {
		log_warning("extents: %s: %s", path, strerror(-r));
		return NULL;
	}
	return steal(text);
}
