/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends garbage to weftd until killed: over connection after connection to its vsock
 * port, some beginning like an honest hello, and all over the shared window.
 */
#include <fcntl.h>
#include <glob.h>
#include <linux/vm_sockets.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire.h"

#define OPEN_AT_ONCE 64

static uint64_t rng = 88172645463325252ull;

static uint64_t next(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static void garbage(void *buf, size_t n)
{
	for (size_t i = 0; i + 8 <= n; i += 8)
		memcpy((char *)buf + i, &(uint64_t){next()}, 8);
}

static int dial(void)
{
	struct sockaddr_vm a = {.svm_family = AF_VSOCK,
				.svm_cid = VMADDR_CID_HOST,
				.svm_port = WIRE_VSOCK_PORT};
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The window of this VM, or NULL. */
static void *map_window(size_t *ret_size)
{
	glob_t g = {0};
	void *p = NULL;

	glob("/sys/bus/pci/devices/*/resource2_wc", 0, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc && !p; i++) {
		int fd = open(g.gl_pathv[i], O_RDWR);
		struct stat st;

		if (fd < 0)
			continue;
		if (fstat(fd, &st) == 0 && st.st_size >= 1 << 20) {
			p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
				 MAP_SHARED, fd, 0);
			if (p == MAP_FAILED)
				p = NULL;
			*ret_size = (size_t)st.st_size;
		}
		close(fd);
	}
	globfree(&g);
	return p;
}

int main(void)
{
	static char buf[64 << 10];
	int fd[OPEN_AT_ONCE];
	size_t size = 0;
	char *window = map_window(&size);

	for (unsigned i = 0; i < OPEN_AT_ONCE; i++)
		fd[i] = -1;
	printf("flooding, %s window\n", window ? "with" : "without");
	fflush(stdout);
	for (;;) {
		unsigned i = (unsigned)(next() % OPEN_AT_ONCE);
		size_t n = 1 + next() % sizeof(buf);

		if (fd[i] < 0) {
			fd[i] = dial();
			if (fd[i] < 0)
				continue;
		}
		garbage(buf, n);
		if (next() % 2) {
			uint32_t magic = WIRE_MAGIC, version = WIRE_VERSION;

			memcpy(buf, &magic, sizeof(magic));
			memcpy(buf + 4, &version, sizeof(version));
		}
		if (send(fd[i], buf, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ||
		    next() % 16 == 0) {
			close(fd[i]);
			fd[i] = -1;
		}
		if (window)
			garbage(window + (next() % (size - 4096) & ~7ull), 4096);
	}
}
