/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what carries data between a guest and the host, and checks that it arrives.
 *
 *   carrier_probe host SOCKET [WINDOW]   serves a Unix socket (weft-vsock forwards to it)
 *   carrier_probe guest                  connects to PORT of the host, prints a table
 *   carrier_probe steady SECONDS         sends and checks echoes on one connection
 *   carrier_probe many N                 has N connections at once
 *   carrier_probe refused                connects to a port that nobody serves
 *
 * A connection begins with one struct order. 'e': every message of size bytes is sent
 * back. 'u': the guest sends size bytes, the host answers 8 bytes of checksum. 'd': the
 * host sends size bytes. 'w': the host answers in the window's two words until the
 * guest writes STOP.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/vm_sockets.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"

#define PORT        7001
#define PART        (256u << 10)
#define WINDOW_PAGE (1u << 20) /* clear of what weftd keeps at the beginning */
#define STOP        UINT32_MAX

struct order {
	uint64_t size;
	uint32_t count;
	char op;
	char padding[3];
};

static _Atomic uint32_t *words; /* [0] guest's, [16] host's: two cache lines */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void fill(uint32_t *buf, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes / 4; i++)
		buf[i] = seed = seed * 1664525 + 1013904223;
}

static uint64_t checksum(const uint32_t *buf, size_t bytes, uint64_t sum)
{
	for (size_t i = 0; i < bytes / 4; i++)
		sum = sum * 31 + buf[i];
	return sum;
}

static void serve_window(void)
{
	uint32_t last = 0;

	for (;;) {
		/* Pairs with the guest's store; the answer's store pairs with its load.
		 */
		uint32_t v = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);

		if (v == STOP)
			return;
		if (v != last) {
			last = v;
			__atomic_store_n(&words[16], v, __ATOMIC_RELEASE);
		}
		cpu_relax();
	}
}

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	uint32_t *buf = malloc(PART);
	struct order o;

	while (fd_read_full(fd, &o, sizeof(o)) == 0) {
		uint64_t sum = 0;

		for (uint32_t i = 0; o.op == 'e' && i < o.count; i++) {
			if (fd_read_full(fd, buf, o.size) < 0 ||
			    fd_write_full(fd, buf, o.size) < 0)
				break;
		}
		for (uint64_t at = 0; o.op == 'u' && at < o.size; at += PART) {
			size_t n = MIN(o.size - at, (uint64_t)PART);

			if (fd_read_full(fd, buf, n) < 0)
				break;
			sum = checksum(buf, n, sum);
		}
		if (o.op == 'u' && fd_write_full(fd, &sum, sizeof(sum)) < 0)
			break;
		fill(buf, PART, 7);
		for (uint64_t at = 0; o.op == 'd' && at < o.size; at += PART) {
			if (fd_write_full(fd, buf, MIN(o.size - at, (uint64_t)PART)) < 0)
				break;
		}
		if (o.op == 'w' && words)
			serve_window();
	}
	free(buf);
	close(fd);
	return NULL;
}

_Noreturn static void host(const char *path, const char *window)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	if (window) {
		int fd = open(window, O_RDWR);
		void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			       WINDOW_PAGE);

		if (p == MAP_FAILED)
			die(window);
		words = p;
	}
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (bind(s, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s, SOMAXCONN) < 0)
		die(path);
	for (;;) {
		int fd = accept(s, NULL, NULL);
		pthread_t t;

		if (fd >= 0 && pthread_create(&t, NULL, serve, (void *)(intptr_t)fd) == 0)
			pthread_detach(t);
	}
}

static int dial(void)
{
	struct sockaddr_vm a = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = PORT};
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect");
	return fd;
}

static void order(int fd, char op, uint64_t size, uint32_t count)
{
	struct order o = {.size = size, .count = count, .op = op};

	if (fd_write_full(fd, &o, sizeof(o)) < 0)
		die("order");
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print_times(const char *what, uint64_t *ns, unsigned n)
{
	qsort(ns, n, sizeof(*ns), cmp_u64);
	printf("%-28s p50 %.2f us, p99 %.2f us, min %.2f us\n", what, ns[n / 2] / 1e3,
	       ns[n * 99 / 100] / 1e3, ns[0] / 1e3);
}

static void echo(int fd, size_t size, unsigned n)
{
	uint64_t *ns = calloc(n, sizeof(*ns));
	char *out = malloc(size), *in = malloc(size), name[64];

	order(fd, 'e', size, n);
	for (unsigned i = 0; i < n; i++) {
		uint64_t t;

		fill((uint32_t *)out, size, i);
		t = clock_now_ns();
		if (fd_write_full(fd, out, size) < 0 || fd_read_full(fd, in, size) < 0)
			die("echo");
		ns[i] = clock_now_ns() - t;
		if (memcmp(in, out, size)) {
			printf("echo: wrong bytes\n");
			exit(1);
		}
	}
	snprintf(name, sizeof(name), "vsock echo %zu B", size);
	print_times(name, ns, n);
	free(ns);
	free(out);
	free(in);
}

static void bulk(int fd, char op, uint64_t size, unsigned rounds)
{
	uint32_t *buf = malloc(PART), *want = malloc(PART);
	uint64_t t = clock_now_ns(), sum = 0, got;

	fill(want, PART, 7);
	for (unsigned i = 0; i < rounds; i++) {
		order(fd, op, size, 0);
		for (uint64_t at = 0; at < size; at += PART) {
			size_t n = MIN(size - at, (uint64_t)PART);
			int r = op == 'u' ? fd_write_full(fd, want, n)
					  : fd_read_full(fd, buf, n);

			if (r < 0 || (op == 'd' && i == 0 && memcmp(buf, want, n)))
				die("bulk");
		}
		if (op == 'u' && fd_read_full(fd, &got, sizeof(got)) < 0)
			die("bulk");
		for (uint64_t at = 0, s = 0; op == 'u' && i == 0 && at < size;
		     at += PART) {
			s = checksum(want, MIN(size - at, (uint64_t)PART), s);
			sum = s;
		}
		if (op == 'u' && i == 0 && got != sum) {
			printf("upload: wrong bytes\n");
			exit(1);
		}
		if (i == 0)
			t = clock_now_ns();
	}
	t = (clock_now_ns() - t) / (rounds - 1);
	printf("vsock %s %4llu KiB          %.2f ms, %.0f MiB/s\n",
	       op == 'u' ? "guest->host" : "host->guest", (unsigned long long)size >> 10,
	       t / 1e6, (double)size / (1 << 20) / (t / 1e9));
	free(buf);
	free(want);
}

static void window(int fd, unsigned n)
{
	uint64_t *ns = calloc(n, sizeof(*ns));
	glob_t g = {0};

	for (unsigned i = 0;
	     i < (glob("/sys/bus/pci/devices/*", 0, NULL, &g), g.gl_pathc); i++) {
		char path[256], id[16] = "";
		int f, map;

		snprintf(path, sizeof(path), "%s/device", g.gl_pathv[i]);
		f = open(path, O_RDONLY);
		if (f < 0 || read(f, id, sizeof(id) - 1) < 0 ||
		    strncmp(id, "0x1110", 6)) {
			close(f);
			continue;
		}
		close(f);
		snprintf(path, sizeof(path), "%s/resource2_wc", g.gl_pathv[i]);
		map = open(path, O_RDWR);
		if (map < 0)
			die(path);
		words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, map,
			     WINDOW_PAGE);
		if (words == MAP_FAILED)
			die("mmap");
		break;
	}
	if (!words) {
		printf("no window\n");
		return;
	}
	__atomic_store_n(&words[0], 0, __ATOMIC_RELEASE);
	order(fd, 'w', 0, 0);
	for (unsigned i = 0; i < n; i++) {
		uint64_t t = clock_now_ns();

		__atomic_store_n(&words[0], i + 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&words[16], __ATOMIC_ACQUIRE) != i + 1)
			cpu_relax();
		ns[i] = clock_now_ns() - t;
	}
	__atomic_store_n(&words[0], STOP, __ATOMIC_RELEASE);
	print_times("window polled 4 B", ns, n);
	free(ns);
}

/* One message there and back; false if it came back wrong or not at all. */
static bool echo_once(int fd, char *out, char *in, size_t size, uint32_t seed)
{
	fill((uint32_t *)out, size, seed);
	order(fd, 'e', size, 1);
	return fd_write_full(fd, out, size) == 0 && fd_read_full(fd, in, size) == 0 &&
	       memcmp(in, out, size) == 0;
}

static int steady(unsigned seconds)
{
	static char out[8192], in[8192];
	uint64_t end = clock_now_ns() + seconds * NSEC_PER_SEC, worst = 0;
	int fd = dial();
	unsigned n = 0;

	printf("connected\n");
	fflush(stdout);
	for (; clock_now_ns() < end; n++) {
		uint64_t t = clock_now_ns();

		if (!echo_once(fd, out, in, 4 + n % 2000 * 4, n)) {
			printf("echo %u failed: %m\n", n);
			return 1;
		}
		worst = MAX(worst, clock_now_ns() - t);
	}
	printf("%u echoes, the slowest took %.1f ms\n", n, worst / 1e6);
	return 0;
}

static int many(unsigned n)
{
	char out[256], in[256];
	int *fd = calloc(n, sizeof(*fd));

	for (unsigned i = 0; i < n; i++)
		fd[i] = dial();
	for (unsigned i = 0; i < n; i++) {
		if (!echo_once(fd[i], out, in, sizeof(out), i)) {
			printf("connection %u failed\n", i);
			return 1;
		}
	}
	printf("%u connections\n", n);
	return 0;
}

static int refused(void)
{
	struct sockaddr_vm a = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = PORT + 1};
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);
	uint64_t t = clock_now_ns();
	int r = connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? errno : 0;

	t = clock_now_ns() - t;
	printf("%s after %.1f ms\n", strerror(r), t / 1e6);
	return r == ECONNRESET && t < 10 * NSEC_PER_SEC ? 0 : 1;
}

static int guest(void)
{
	int fd = dial();

	echo(fd, 64, 2000);
	echo(fd, 4000, 500);
	bulk(fd, 'u', 1 << 20, 16);
	bulk(fd, 'd', 1 << 20, 16);
	bulk(fd, 'u', 32 << 20, 3);
	bulk(fd, 'd', 32 << 20, 3);
	window(fd, 20000);
	printf("ok\n");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 3 && !strcmp(argv[1], "host"))
		host(argv[2], argc > 3 ? argv[3] : NULL);
	if (argc == 2 && !strcmp(argv[1], "guest"))
		return guest();
	if (argc == 3 && !strcmp(argv[1], "steady"))
		return steady((unsigned)atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "many"))
		return many((unsigned)atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "refused"))
		return refused();
	fprintf(stderr, "carrier_probe host SOCKET [WINDOW] | guest | steady S | many N "
			"| refused\n");
	return 2;
}
