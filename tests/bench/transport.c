/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round trips, asynchronous posts and bandwidth of every carrier.
 *
 *	bench_transport                      local: serves itself from a second process
 *	bench_transport --serve PATH [FILE]  the worker's half on a Unix socket; FILE is a
 *	                                     VM's window (ivshmem), else each gets a memfd
 *	bench_transport --connect ADDRESS    the guest's half; runs inside a VM
 *
 * Locally, each number stands beside what the machine would allow: the same bytes moved
 *by the barest loop that could (see struct floor).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/fd.h"
#include "host.h"
#include "link.h"

#define SAMPLES        20000
#define POST_BATCH     1000 /* of about 128 bytes: they fit the ring, so no waiting */
#define POST_BATCHES   100
#define POST_BODY      96 /* a kernel launch with a few parameters */
#define BULK_BYTES     (512ull << 20)
#define BULK_NS_MAX    (700 * NSEC_PER_MSEC) /* a slow carrier stops here */
#define SLEEPS         200
#define WINDOW_BYTES   (32u << 20)
#define WORKER_SPIN_US 50u

enum bench_op {
	OP_ECHO,   /* call: answers at once */
	OP_SINK,   /* post: payload is copied out */
	OP_SOURCE, /* call: as many reply records of a payload each as the body says */
};

struct source_req {
	uint32_t piece, count;
};

/* ---- the worker's half ---- */

static int answer_source(struct lane *l, const struct lane_msg *m, const char *from)
{
	struct source_req q;

	memcpy(&q, m->body, sizeof(q));
	for (uint32_t i = 0; i < q.count; i++) {
		void *to;

		if (!lane_reply_begin(l, i + 1 < q.count ? WIRE_F_MORE : 0,
				      sizeof(struct wire_result), q.piece, &to))
			return -EPIPE;
		memcpy(to, from, q.piece);
		if (lane_reply(l) < 0)
			return -EPIPE;
	}
	return 0;
}

static void serve_lane(struct lane *l)
{
	static char device[WIRE_PAYLOAD_MAX]; /* stands for the GPU's memory */
	struct lane_msg m;

	memset(device, 1, sizeof(device));
	while (lane_recv(l, &m) == 0) {
		if (m.payload_size)
			memcpy(device, m.payload, m.payload_size);
		if (m.hdr.flags & WIRE_F_ASYNC)
			continue;
		if (m.hdr.op == OP_SOURCE && m.body_size >= sizeof(struct source_req)) {
			if (answer_source(l, &m, device) < 0)
				return;
			continue;
		}
		if (!lane_reply_begin(l, 0, sizeof(struct wire_result), 0, NULL) ||
		    lane_reply(l) < 0)
			return;
	}
}

static void serve_one(int sock, const char *window_file)
{
	struct host_window w = {.pass_fd = !window_file, .size = WINDOW_BYTES};
	struct wire_welcome base = {.session = 1, .token = {1}};
	struct wire_hello hello;
	struct host_lane_opts o = {
		.hello = &hello, .base = &base, .window = &w, .spin_us = WORKER_SPIN_US};
	struct lane *l;
	int r;

	w.fd = window_file ? open(window_file, O_RDWR | O_CLOEXEC)
			   : fd_memfd("bench-window", WINDOW_BYTES);
	if (w.fd < 0)
		return;
	if (window_file) {
		struct wire_window_id id = {.magic = WIRE_MAGIC,
					    .version = WIRE_WINDOW_VERSION,
					    .key = 1 + (uint32_t)getppid()};
		struct stat st;

		if (fstat(w.fd, &st) < 0)
			return;
		id.size = (uint64_t)st.st_size;
		w.key = id.key;
		w.offset = 4096;
		w.size = MIN(ALIGN_DOWN(id.size, 4096ull) - 4096, (uint64_t)WINDOW_BYTES);
		if (pwrite(w.fd, &id, sizeof(id), 0) != sizeof(id))
			return;
	}
	r = host_window_map(&w);
	if (r == 0)
		r = host_hello(sock, 5000, &hello);
	if (r == 0)
		r = host_lane_new(sock, &o, &l);
	if (r < 0) {
		fprintf(stderr, "bench: a guest failed: %s\n", strerror(-r));
		return;
	}
	serve_lane(l);
	lane_free(l);
	host_window_fini(&w);
}

static int listen_at(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (s < 0 || strlen(path) >= sizeof(a.sun_path))
		return -EINVAL;
	strcpy(a.sun_path, path);
	unlink(path);
	if (bind(s, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s, 8) < 0)
		return -errno;
	return s;
}

/* One process a guest, as weftd has it. */
static void serve_loop(int listener, const char *window_file)
{
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (sock < 0)
			continue;
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			serve_one(sock, window_file);
			_exit(0);
		}
		close(sock);
	}
}

/* ---- the guest's half ---- */

struct result {
	double rtt_p50, rtt_p99; /* us */
	double asleep_p50;       /* us, the worker parked */
	double post_ns;          /* guest's time, worker keeping up beside it */
	double sustained_ns;     /* a flood of them, as fast as the worker takes them */
	double up[3], down[3];   /* GB/s for each of pieces[] */
};

static const uint32_t pieces[3] = {64u << 10, 256u << 10, 1u << 20};

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static int call_echo(struct lane *l)
{
	struct lane_reply rep;
	uint64_t *b = lane_begin(l, OP_ECHO, 32, 0, NULL);

	if (!b)
		return -EPIPE;
	memset(b, 0, 32);
	return lane_call(l, &rep);
}

/* Times n calls, each after a pause; fills in the median and the 99th percentile. */
static int measure_rtt(struct lane *l, unsigned n, unsigned pause_us, double *ret_p50,
		       double *ret_p99)
{
	static uint32_t ns[SAMPLES];
	int r;

	for (unsigned i = 0; i < n; i++) {
		uint64_t t;

		if (pause_us)
			usleep(pause_us);
		t = clock_now_ns();
		r = call_echo(l);
		if (r < 0)
			return r;
		ns[i] = (uint32_t)MIN(clock_now_ns() - t, (uint64_t)UINT32_MAX);
	}
	qsort(ns, n, sizeof(ns[0]), cmp_u32);
	*ret_p50 = ns[n / 2] / 1e3;
	*ret_p99 = ns[n / 100 * 99] / 1e3;
	return 0;
}

static int post(struct lane *l, uint32_t body, uint32_t payload, const void *from)
{
	void *to, *b = lane_begin(l, payload ? OP_SINK : OP_ECHO, body, payload, &to);

	if (!b)
		return -EPIPE;
	memset(b, 0, body);
	if (payload)
		memcpy(to, from, payload);
	return lane_post(l);
}

static int measure_posts(struct lane *l, struct result *res)
{
	uint64_t t, busy = 0;
	int r = 0;

	for (unsigned i = 0; i < POST_BATCHES && r == 0; i++) {
		t = clock_now_ns();
		for (unsigned j = 0; j < POST_BATCH && r == 0; j++)
			r = post(l, POST_BODY, 0, NULL);
		busy += clock_now_ns() - t;
		if (r == 0)
			r = call_echo(l);
	}
	res->post_ns = (double)busy / POST_BATCH / POST_BATCHES;
	t = clock_now_ns();
	for (unsigned i = 0; i < POST_BATCH * POST_BATCHES && r == 0; i++)
		r = post(l, POST_BODY, 0, NULL);
	if (r == 0)
		r = call_echo(l);
	res->sustained_ns = (double)(clock_now_ns() - t) / POST_BATCH / POST_BATCHES;
	return r;
}

static int measure_up(struct lane *l, uint32_t piece, double *ret_gbs)
{
	static char program[WIRE_PAYLOAD_MAX];
	uint64_t t, done = 0;
	int r = 0;

	memset(program, 1, sizeof(program));
	t = clock_now_ns();
	while (done < BULK_BYTES && clock_now_ns() - t < BULK_NS_MAX && r == 0) {
		r = post(l, 8, piece, program);
		done += piece;
	}
	if (r == 0)
		r = call_echo(l);
	*ret_gbs = (double)done / (double)(clock_now_ns() - t);
	return r;
}

static int measure_down(struct lane *l, uint32_t piece, double *ret_gbs)
{
	static char program[WIRE_PAYLOAD_MAX];
	struct source_req q = {piece, (16u << 20) / piece};
	uint64_t t = clock_now_ns(), done = 0;
	struct lane_reply rep = {0};
	int r = 0;

	while (done < BULK_BYTES && clock_now_ns() - t < BULK_NS_MAX && r == 0) {
		struct source_req *b = lane_begin(l, OP_SOURCE, sizeof(q), 0, NULL);

		if (!b)
			return -EPIPE;
		*b = q;
		for (r = lane_call(l, &rep); r == 0; r = lane_next(l, &rep)) {
			if (rep.payload_size != piece)
				return -EPROTO;
			memcpy(program, rep.payload, piece);
			done += piece;
			if (!rep.more)
				break;
		}
	}
	*ret_gbs = (double)done / (double)(clock_now_ns() - t);
	return r;
}

/* Runs everything against the worker at an address. */
static int measure(const char *address, uint32_t carriers, struct result *ret,
		   char name[32])
{
	struct link_opts o = {.address = address, .carriers = carriers};
	struct lane *l = NULL;
	struct link *k;
	char *why = NULL;
	double p99;
	int r = link_connect(&o, &k, &why);

	if (r < 0) {
		fprintf(stderr, "bench: %s\n", why ? why : strerror(-r));
		free(why);
		return r;
	}
	snprintf(name, 32, "%s", link_carrier_name(k));
	r = link_lane(k, &l);
	if (r == 0)
		r = measure_rtt(l, SAMPLES / 10, 0, &ret->rtt_p50, &ret->rtt_p99);
	if (r == 0)
		r = measure_rtt(l, SAMPLES, 0, &ret->rtt_p50, &ret->rtt_p99);
	if (r == 0)
		r = measure_posts(l, ret);
	for (unsigned i = 0; i < ARRAY_SIZE(pieces) && r == 0; i++) {
		r = measure_up(l, pieces[i], &ret->up[i]);
		if (r == 0)
			r = measure_down(l, pieces[i], &ret->down[i]);
	}
	if (r == 0)
		r = measure_rtt(l, SLEEPS, 2000, &ret->asleep_p50, &p99);
	lane_free(l);
	link_free(k);
	return r;
}

/* ---- what the machine would allow ---- */

struct floor {
	double line_rtt;    /* us: one word to the other processor and back */
	double socket_rtt;  /* us: 48 bytes over a socket pair and back, both polling */
	double socket_post; /* ns: one send of 112 bytes */
	double socket_copy; /* GB/s: 256 KiB sends, read whole on the other side */
	double copy;        /* GB/s: memcpy of 1 MiB pieces into a bulk ring's worth */
};

static bool one_cpu;

static void relax(void)
{
	if (one_cpu)
		sched_yield();
	else
		cpu_relax();
}

static void floor_line(struct floor *f)
{
	struct {
		_Alignas(64) _Atomic uint32_t ping;
		_Alignas(64) _Atomic uint32_t pong;
	} *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	const unsigned n = 50000;
	uint64_t t;
	pid_t pid = fork();

	if (pid == 0) {
		for (unsigned i = 0; i <= n; i++) {
			while (atomic_load_explicit(&s->ping, memory_order_acquire) != i)
				relax();
			atomic_store_explicit(&s->pong, i + 1, memory_order_release);
		}
		_exit(0);
	}
	while (atomic_load_explicit(&s->pong, memory_order_acquire) != 1)
		usleep(1000); /* until it runs */
	t = clock_now_ns();
	for (unsigned i = 1; i <= n; i++) {
		atomic_store_explicit(&s->ping, i, memory_order_release);
		while (atomic_load_explicit(&s->pong, memory_order_acquire) != i + 1)
			relax();
	}
	f->line_rtt = (double)(clock_now_ns() - t) / n / 1e3;
	waitpid(pid, NULL, 0);
	munmap(s, 4096);
}

static void recv_polling(int fd, char *buf, size_t len)
{
	while (recv(fd, buf, len, MSG_DONTWAIT) < 0 && errno == EAGAIN)
		relax();
}

static void floor_socket(struct floor *f)
{
	static char big[256u << 10];
	const unsigned n = 20000;
	char buf[4096] = {0};
	uint64_t t = 0;
	int s[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		return;
	memset(big, 1, sizeof(big));
	pid = fork();
	if (pid == 0) {
		close(s[0]);
		for (unsigned i = 0; i <= n; i++) {
			recv_polling(s[1], buf, 48);
			if (send(s[1], buf, 48, MSG_NOSIGNAL) < 0)
				break;
		}
		while (recv(s[1], big, sizeof(big), 0) > 0)
			;
		_exit(0);
	}
	close(s[1]);
	for (unsigned i = 0; i <= n; i++) {
		if (i == 1)
			t = clock_now_ns(); /* now it runs */
		if (send(s[0], buf, 48, MSG_NOSIGNAL) < 0)
			break;
		recv_polling(s[0], buf, 48);
	}
	f->socket_rtt = (double)(clock_now_ns() - t) / n / 1e3;
	t = clock_now_ns();
	for (unsigned i = 0; i < n; i++)
		if (send(s[0], buf, 112, MSG_NOSIGNAL) < 0)
			break;
	f->socket_post = (double)(clock_now_ns() - t) / n;
	t = clock_now_ns();
	for (uint64_t done = 0; done < BULK_BYTES; done += sizeof(big))
		if (fd_write_full(s[0], big, sizeof(big)) < 0)
			break;
	f->socket_copy = (double)BULK_BYTES / (double)(clock_now_ns() - t);
	close(s[0]);
	waitpid(pid, NULL, 0);
}

static void floor_copy(struct floor *f)
{
	static char from[WIRE_PAYLOAD_MAX];
	const size_t size = 4u << 20;
	char *to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	uint64_t t;

	memset(from, 1, sizeof(from)); /* else it is the zero page, 64 lines of cache */
	memset(to, 1, size);
	t = clock_now_ns();
	for (uint64_t done = 0; done < BULK_BYTES; done += sizeof(from))
		memcpy(to + done % size, from, sizeof(from));
	f->copy = (double)BULK_BYTES / (double)(clock_now_ns() - t);
	munmap(to, size);
}

/* ---- tables ---- */

static void row(const char *what, const char *unit, double floor, double got)
{
	char limit[16] = "-";

	if (floor > 0)
		snprintf(limit, sizeof(limit), "%.2f", floor);
	printf("  %-38s %10s %10.2f  %s\n", what, limit, got, unit);
}

/*
 * Predictions. Window: a round trip is that of one word, when the record's lines travel
 * while its tail does; a post is half of it, one line taken from the other processor; and
 * the two copies of bulk data run side by side. Stream: the bare socket.
 */
static void print(const char *name, const struct result *r, const struct floor *f,
		  bool window)
{
	char what[64];

	printf("%s\n  %-38s %10s %10s\n", name, "", f ? "predicted" : "", "measured");
	row("round trip, median", "us",
	    !f       ? 0
	    : window ? f->line_rtt
		     : f->socket_rtt,
	    r->rtt_p50);
	row("round trip, 99th percentile", "us", 0, r->rtt_p99);
	row("round trip, worker asleep, median", "us", 0, r->asleep_p50);
	row("asynchronous post, guest's time", "ns",
	    !f       ? 0
	    : window ? 500 * f->line_rtt
		     : f->socket_post,
	    r->post_ns);
	row("asynchronous post, sustained", "ns", 0, r->sustained_ns);
	for (unsigned i = 0; i < ARRAY_SIZE(pieces); i++) {
		double limit = !f ? 0 : window ? f->copy : f->socket_copy;

		snprintf(what, sizeof(what), "to the host, pieces of %u KiB",
			 pieces[i] >> 10);
		row(what, "GB/s", limit, r->up[i]);
		snprintf(what, sizeof(what), "to the guest, pieces of %u KiB",
			 pieces[i] >> 10);
		row(what, "GB/s", limit, r->down[i]);
	}
	fflush(stdout);
}

static int run_local(void)
{
	char dir[] = "/tmp/weft-bench-XXXXXX", path[64], address[80], name[32];
	struct floor f = {0};
	struct result r;
	int listener, rc = 0;
	pid_t pid;

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/sock", dir);
	snprintf(address, sizeof(address), "unix:%s", path);
	listener = listen_at(path);
	if (listener < 0)
		return 1;
	one_cpu = cpus_allowed() < 2;
	floor_line(&f);
	floor_socket(&f);
	floor_copy(&f);
	printf("%ld processors; one word there and back %.2f us; copying %.1f GB/s\n\n",
	       sysconf(_SC_NPROCESSORS_ONLN), f.line_rtt, f.copy);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve_loop(listener, NULL);
	}
	close(listener);
	for (uint32_t c = 0; c < WIRE_NUM_CARRIERS; c++) {
		if (measure(address, 1u << c, &r, name) < 0)
			rc = 1;
		else
			print(name, &r, &f, c == WIRE_CARRIER_WINDOW);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
	rmdir(dir);
	return rc;
}

static int run_connect(const char *address)
{
	struct result r;
	char name[32];
	int rc = 0;

	for (uint32_t c = 0; c < WIRE_NUM_CARRIERS; c++) {
		if (measure(address, 1u << c, &r, name) < 0)
			rc = 1;
		else
			print(name, &r, NULL, c == WIRE_CARRIER_WINDOW);
	}
	return rc;
}

int main(int argc, char **argv)
{
	if (argc == 1)
		return run_local();
	if (argc == 3 && strcmp(argv[1], "--connect") == 0)
		return run_connect(argv[2]);
	if ((argc == 3 || argc == 4) && strcmp(argv[1], "--serve") == 0) {
		int listener = listen_at(argv[2]);

		if (listener < 0) {
			fprintf(stderr, "bench: %s: %s\n", argv[2], strerror(-listener));
			return 1;
		}
		serve_loop(listener, argv[3]);
	}
	fprintf(stderr, "usage: %s [--serve PATH [WINDOW] | --connect ADDRESS]\n",
		argv[0]);
	return 2;
}
