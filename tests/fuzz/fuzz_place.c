/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where things are, as texts and files say that others may have written: input is one
 * byte that says what it is (an address, a list of forwards, a PCI device with a window,
 * the note beside a window), then that.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"
#include "bar.h"
#include "base/fd.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/window.h"
#include "forward.h"
#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top[] = "/tmp/weft-fuzz-XXXXXX", dir[40];
static const char *const names[] = {"vendor", "device", "resource2"};

static const char *in_dir(const char *name)
{
	static char path[80];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void clean(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		unlink(in_dir(names[i]));
	rmdir(dir);
	rmdir(top);
}

static void make_dir(void)
{
	if (*dir)
		return;
	if (!mkdtemp(top) || atexit(clean))
		abort();
	snprintf(dir, sizeof(dir), "%s/0000:00:01.0", top);
	if (mkdir(dir, 0700) < 0)
		abort();
}

static const char *write_file(const char *name, const void *data, size_t size,
			      off_t total)
{
	const char *path = in_dir(name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (write(fd, data, size) != (ssize_t)size ||
	    ((off_t)size < total && ftruncate(fd, total) < 0))
		abort();
	close(fd);
	return path;
}

static void forwards(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	static struct forward f;

	f = (struct forward){0};
	for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n"))
		(void)forward_add(&f, line);
	for (unsigned i = 0; i < f.n; i++) {
		if (!*f.e[i].path || strlen(f.e[i].path) >= sizeof(f.e[i].path))
			abort();
		for (unsigned k = 0; k < i; k++)
			if (f.e[k].port == f.e[i].port)
				abort();
	}
}

/* The window's beginning, in a device of 64 KiB at most. */
static void device(const uint8_t *data, size_t size)
{
	char why[BAR_WHY_MAX];
	struct bar b = {0};

	if (!size)
		return;
	write_file("vendor", "0x1af4\n", 7, 0);
	write_file("device", "0x1110\n", 7, 0);
	write_file("resource2", data + 1, MIN(size - 1, (size_t)4096), data[0] << 8);
	if (bar_find(top, &b, why) == 0) {
		if (!b.key || b.size > (uint64_t)data[0] << 8 || !b.map)
			abort();
		bar_fini(&b);
	} else if (strnlen(why, sizeof(why)) == sizeof(why)) {
		abort();
	}
}

static void note(const char *text, size_t size)
{
	struct window_note n;

	if (window_note_read(write_file("vendor", text, size, 0), &n) == 0 && !n.key)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = NULL;
	struct address a;

	if (!size)
		return 0;
	make_dir();
	text = strndup((const char *)data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		if (address_parse(text, &a) == 0 && a.len > sizeof(a.sa))
			abort();
		break;
	case 1:
		forwards(text);
		break;
	case 2:
		device(data + 1, size - 1);
		break;
	default:
		note(text, strlen(text));
	}
	return 0;
}
