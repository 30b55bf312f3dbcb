/* SPDX-License-Identifier: Apache-2.0 */
/* A file of the cache of compiled code, of any contents: found whole, or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/code_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER 40 /* magic, key, size, sum */

static char dir[64], path[160];
static struct code_key key;

static void setup(void)
{
	struct code_part name = {"fuzz", 4};
	char weft[80];

	strcpy(dir, "/dev/shm/weft-fuzz-XXXXXX");
	if (!mkdtemp(dir))
		abort();
	setenv("CUDA_CACHE_PATH", dir, 1);
	snprintf(weft, sizeof(weft), "%s/weft", dir);
	mkdir(weft, 0700);
	key = code_key_of(&name, 1);
	snprintf(path, sizeof(path), "%s/%016llx%016llx", weft,
		 (unsigned long long)key.word[1], (unsigned long long)key.word[0]);
}

static void cleanup(void)
{
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	rmdir(dir);
}

/* Half of the inputs get a header that is right but for what the input says. */
static void write_file(const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint64_t head[5] = {0, key.word[0], key.word[1], 0, 0};

	if (fd < 0)
		abort();
	if (size > 2 && data[0] & 1) {
		memcpy(head, "weftcc1", 8);
		head[3] = size - 2;
		head[4] = XXH3_64bits(data + 2, size - 2);
		((uint8_t *)head)[data[1] % HEADER] ^= data[0] & 0xfe;
		if (write(fd, head, HEADER) != HEADER)
			abort();
		data += 2;
		size -= 2;
	}
	if (write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *found;
	size_t n;
	int r;

	if (!dir[0]) {
		setup();
		atexit(cleanup);
	}
	write_file(data, size);
	r = code_cache_get(&key, &found, &n);
	if (r == 0) {
		if (!n || n > size || memcmp(found, data + size - n, n) != 0)
			abort();
		free(found);
	} else if (r != -ENOENT || access(path, F_OK) == 0) {
		abort();
	}
	code_cache_drop(&key);
	return 0;
}
