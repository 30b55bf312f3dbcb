/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast memory moves out of the device and back, and how long 100 MiB take, as a share
 * of what pinned copies of the same process reach.
 *
 *	bench_move [soft|cuda] [MIB] [json]
 *
 * pieces: allocations of a piece each; extent: one allocation of all, which leaves whole
 * and returns in runs. both: two tenants have half as much each, and one's memory leaves
 * while that of the other returns.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "memory/move.h"
#include "memory/space.h"
#include "session/command.h"
#include "session/session.h"
#include "bench.h"

#define MIB       (1ull << 20)
#define TIMES     5
#define OWNER     1u
#define SETTLE_NS (20 * NSEC_PER_MSEC)

static struct session *s;
static struct space *sp;
static uint64_t total;
static double pinned[3]; /* GB/s out, in, both */
static FILE *to;         /* a real device takes what goes to the first two descriptors */
static bool json;
static const char *comma = "";

/* ---- what the link can do ---- */

static void copy(struct dev_stream *st, CUdeviceptr dst, CUdeviceptr src)
{
	struct dev_copy_2d c = {.dst = dst, .src = src, .width = total, .height = 1};

	CK(s->ops->copy.rows(s->primary->dev, st, &c));
}

static double time_of(struct dev_stream *const *st, const CUdeviceptr *dev,
		      CUdeviceptr host, bool out, bool in)
{
	struct dev_ctx *ctx = s->primary->dev;
	uint64_t t = clock_now_ns();

	if (out)
		copy(st[0], host, dev[0]);
	if (in)
		copy(st[1], dev[1], host + total);
	CK(s->ops->stream.synchronize(ctx, st[0]));
	CK(s->ops->stream.synchronize(ctx, st[1]));
	return (double)(clock_now_ns() - t);
}

static void measure_pinned(void)
{
	struct dev_ctx *ctx = s->primary->dev;
	int fd = fd_memfd("bench", 2 * total);
	double v[3][TIMES];
	struct dev_stream *st[2];
	CUdeviceptr dev[2];

	for (unsigned i = 0; i < 2; i++) {
		CK(space_alloc(sp, total, OWNER, &dev[i]));
		CK(s->ops->stream.create(ctx, CU_STREAM_NON_BLOCKING, 0, &st[i]));
	}
	CK(s->ops->memory.host_map(ctx, DEVICE_HOST_BASE, 2 * total, fd, 0));
	for (unsigned i = 0; i < TIMES; i++) {
		for (unsigned k = 0; k < 3; k++)
			v[k][i] = time_of(st, dev, DEVICE_HOST_BASE, k != 1, k != 0);
	}
	for (unsigned k = 0; k < 3; k++)
		pinned[k] = (double)total * (k == 2 ? 2 : 1) / median(v[k], TIMES);
	CK(s->ops->memory.host_unmap(ctx, DEVICE_HOST_BASE));
	close(fd);
	for (unsigned i = 0; i < 2; i++) {
		s->ops->stream.destroy(st[i]);
		CK(space_release(sp, dev[i]));
	}
	space_flush(sp);
}

/* ---- moving ---- */

static CUdeviceptr *held;
static uint64_t n_held;

static void hold(uint64_t piece, uint64_t each, uint64_t bytes)
{
	each = MAX(each, SPACE_SLAB);
	n_held = bytes / each;
	held = calloc(n_held, sizeof(*held));
	CK(space_set_piece(sp, piece));
	space_host_pool_set(sp, bytes);
	for (uint64_t i = 0; i < n_held; i++)
		CK(space_alloc(sp, each, OWNER, &held[i]));
}

static void let_go(void)
{
	for (uint64_t i = 0; i < n_held; i++)
		CK(space_release(sp, held[i]));
	free(held);
	space_flush(sp);
}

static double out(uint64_t bytes, enum placement_where where)
{
	uint64_t t = clock_now_ns();
	struct space_moved moved;

	CK(space_move_out(sp, bytes, UINT64_MAX, where, &moved));
	return (double)(clock_now_ns() - t) * (double)bytes / (double)moved.bytes;
}

static double in(uint64_t bytes)
{
	uint64_t t = clock_now_ns();
	struct space_moved moved;

	CK(space_move_in(sp, bytes, &moved));
	if (moved.bytes != bytes)
		check(1, "not all came back");
	return (double)(clock_now_ns() - t);
}

static void tell(uint64_t piece, const char *what, const char *name, double bytes,
		 double ns, double link)
{
	double rate = bytes / ns;

	if (json)
		fprintf(to,
			"%s\n {\"device\": \"%s\", \"piece\": %llu, \"memory\": \"%s\", "
			"\"move\": \"%s\", \"bytes\": %.0f, \"ms\": %.3f, \"gbps\": "
			"%.2f, "
			"\"of_pinned\": %.3f}",
			comma, s->ops->name, (unsigned long long)piece, what, name, bytes,
			ns / 1e6, rate, rate / link);
	else
		fprintf(to, "%6llu KiB  %-7s %-12s %7.2f GB/s  %5.2f of pinned\n",
			(unsigned long long)(piece >> 10), what, name, rate, rate / link);
	comma = ",";
}

static const char *const where_name[] = {
	[PLACE_MAPPED] = "mapped", [PLACE_SWAPPED] = "swapped"};

static void one_way(uint64_t piece, const char *what, enum placement_where where)
{
	double v[2][TIMES];
	char name[32];

	for (unsigned i = 0; i < TIMES; i++) {
		v[0][i] = out(total, where);
		v[1][i] = in(total);
	}
	snprintf(name, sizeof(name), "out %s", where_name[where]);
	tell(piece, what, name, (double)total, median(v[0], TIMES), pinned[0]);
	snprintf(name, sizeof(name), "in %s", where_name[where]);
	tell(piece, what, name, (double)total, median(v[1], TIMES), pinned[1]);
}

/* ---- two tenants ---- */

/* Orders to the other tenant for its half. */
enum order {
	PEER_HOLD,
	PEER_LET_GO,
	PEER_OUT,
	PEER_IN
};

struct message {
	enum order order;
	uint64_t piece, each;
	enum placement_where where;
};

static struct {
	pid_t pid;
	int sock;
} peer;

static void peer_order(struct message m)
{
	if (send(peer.sock, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
		check(-errno, "peer");
}

/* When it had done it, on this machine's clock. */
static uint64_t peer_done(void)
{
	uint64_t ns;

	if (recv(peer.sock, &ns, sizeof(ns), 0) != sizeof(ns))
		check(1, "the peer has ended");
	return ns;
}

static void peer_do(struct message m)
{
	peer_order(m);
	peer_done();
}

static void peer_main(int sock)
{
	struct message m;
	uint64_t ns;

	while (recv(sock, &m, sizeof(m), 0) == sizeof(m)) {
		if (m.order == PEER_HOLD)
			hold(m.piece, m.each, total / 2);
		else if (m.order == PEER_LET_GO)
			let_go();
		else if (m.order == PEER_OUT)
			out(total / 2, m.where);
		else
			in(total / 2);
		ns = clock_now_ns();
		if (send(sock, &ns, sizeof(ns), MSG_NOSIGNAL) != sizeof(ns))
			break;
	}
}

/* One tenant's memory leaves while the other's returns, and then the other way round. */
static void exchange(uint64_t piece, const char *what, enum placement_where where)
{
	uint64_t half = total / 2;
	double v[2 * TIMES];
	char name[32];

	out(half, where);
	for (unsigned i = 0; i < 2 * TIMES; i++) {
		uint64_t start = clock_now_ns(), end;

		if (i % 2) {
			peer_order((struct message){.order = PEER_IN});
			out(half, where);
		} else {
			peer_order((struct message){.order = PEER_OUT, .where = where});
			in(half);
		}
		end = clock_now_ns();
		v[i] = (double)(MAX(end, peer_done()) - start);
	}
	in(half);
	snprintf(name, sizeof(name), "both %s", where_name[where]);
	tell(piece, what, name, 2 * (double)half, median(v, 2 * TIMES), pinned[2]);
}

/* How long somebody waits who needs 100 MiB, as far as the moving goes. */
static void delay(uint64_t piece, const char *what, enum placement_where where)
{
	uint64_t bytes = MIN(100 * MIB, total / 2);
	double v[TIMES];
	char name[32];

	for (unsigned i = 0; i < TIMES; i++) {
		v[i] = out(bytes, where) * 100 * MIB / (double)bytes;
		in(ALIGN_UP(bytes, piece));
	}
	snprintf(name, sizeof(name), "%s", where_name[where]);
	if (json)
		tell(piece, what, name, 100.0 * MIB, median(v, TIMES), pinned[0]);
	else
		fprintf(to, "%6llu KiB  %-7s %-12s %7.2f ms for 100 MiB\n",
			(unsigned long long)(piece >> 10), what, name,
			median(v, TIMES) / 1e6);
}

static void measure(uint64_t piece, const char *what, uint64_t each)
{
	bool pieces = each == piece;

	hold(piece, each, total);
	one_way(piece, what, PLACE_SWAPPED); /* the first one makes host memory */
	one_way(piece, what, PLACE_MAPPED);
	if (pieces) {
		delay(piece, what, PLACE_SWAPPED);
		delay(piece, what, PLACE_MAPPED);
	}
	let_go();
	each = MIN(each, total / 2);
	hold(piece, each, total / 2);
	peer_do((struct message){.order = PEER_HOLD, .piece = piece, .each = each});
	exchange(piece, what, PLACE_SWAPPED);
	exchange(piece, what, PLACE_MAPPED);
	peer_do((struct message){.order = PEER_LET_GO});
	let_go();
}

static void start(const struct device_ops *ops)
{
	static const struct accounts nobody;
	struct device_config cfg = {0};

	if (ops == &device_soft_ops) {
		cfg.memory_bytes = 4 * total;
		cfg.granularity = MIB / 8;
	}
	CK(sess_new(ops, &cfg, &nobody, &s));
	sp = s->space;
}

/* Before the device is opened: it does not survive a fork. */
static void peer_start(const struct device_ops *ops)
{
	int sock[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
		check(-errno, "socketpair");
	peer.pid = fork();
	if (peer.pid < 0)
		check(-errno, "fork");
	if (!peer.pid) {
		close(sock[0]);
		start(ops);
		peer_main(sock[1]);
		sess_free(s);
		_exit(0);
	}
	close(sock[1]);
	peer.sock = sock[0];
}

int main(int argc, char **argv)
{
	const struct device_ops *ops = device_ops_by_name(argc > 1 ? argv[1] : "soft");
	static const uint64_t on_soft[] = {MIB / 8, MIB / 2, 2 * MIB};
	static const uint64_t on_cuda[] = {2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB};
	bool soft = ops == &device_soft_ops;
	const uint64_t *size = soft ? on_soft : on_cuda;
	unsigned n = soft ? ARRAY_SIZE(on_soft) : ARRAY_SIZE(on_cuda);

	total = (argc > 2 ? strtoull(argv[2], NULL, 10) : soft ? 64 : 1024) * MIB;
	json = argc > 3 && !strcmp(argv[3], "json");
	if (!ops || !total)
		check(1, "usage: bench_move [soft|cuda] [MIB] [json]");
	to = fdopen(dup(STDOUT_FILENO), "w");
	if (!to)
		check(-errno, "stdout");
	peer_start(ops);
	start(ops);
	measure_pinned();
	if (json)
		fprintf(to, "[");
	else
		fprintf(to,
			"pinned copies of %llu MiB: out %.2f, in %.2f, both %.2f GB/s\n",
			(unsigned long long)(total / MIB), pinned[0], pinned[1],
			pinned[2]);
	for (unsigned i = 0; i < n; i++) {
		measure(size[i], "pieces", size[i]);
		measure(size[i], "extent", total);
	}
	if (json)
		fprintf(to, "\n]\n");
	sess_free(s);
	close(peer.sock);
	waitpid(peer.pid, NULL, 0);
	return fclose(to) ? 1 : 0;
}
