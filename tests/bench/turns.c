/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wait of a process on the device while another one copies to the host, by the length of
 * the turns that both have on the copy engines.
 *
 *	bench_turns [soft|cuda] [US...]
 *
 * ours: as Weft makes them. The driver makes them 1024.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macros.h"
#include "device/cuda/rm/tsg.h"
#include "device/device.h"
#include "bench.h"

#define MIB           (1ull << 20)
#define LARGE         (32 * MIB)
#define PIECE         (8 * MIB)
#define AHEAD         4
#define ROUNDS        200
#define BULK          32

#define SET_TIMESLICE 0xa06c0103u
#define OURS          UINT64_MAX

struct shared {
	_Atomic int copying, stop;
	_Atomic uint64_t bytes; /* that the other has copied */
};

static const struct device_ops *ops;
static struct device *dev;
static struct dev_ctx *ctx;
static struct dev_stream *st;
static CUdeviceptr mem;
static uint64_t turn_us;
static long (*to_kernel)(int fd, unsigned long request, void *arg);

/* Ours would set its slice: here it is this one. */
static long with_turn(int fd, unsigned long request, void *arg)
{
	struct rm_control *c = arg;
	uint64_t *us;

	if (_IOC_TYPE(request) == NV_IOCTL_MAGIC &&
	    _IOC_NR(request) == NV_ESC_RM_CONTROL && c->cmd == SET_TIMESLICE) {
		us = (uint64_t *)(uintptr_t)c->params;
		if (*us == CUDA_TSG_COPY_US && turn_us != OURS)
			*us = turn_us;
	}
	return to_kernel(fd, request, arg);
}

static CUdeviceptr allocate(uint64_t size, enum dev_memory memory)
{
	struct dev_mem *c;
	CUdeviceptr addr;

	CK(ops->memory.reserve(dev, size, 0, 0, &addr));
	CK(ops->memory.create(dev, size, memory, &c));
	CK(ops->memory.map(dev, addr, c));
	CK(ops->memory.set_access(dev, addr, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	return addr;
}

static void open_device(void)
{
	struct device_config cfg = {0};
	int fd = fd_memfd("bench", AHEAD * LARGE);

	to_kernel = cuda_rm_kernel;
	cuda_rm_kernel = with_turn;
	CK(ops->open(&cfg, &dev));
	CK(ops->ctx.create(dev, 0, &ctx));
	CK(ops->stream.create(ctx, CU_STREAM_NON_BLOCKING, 0, &st));
	CK(ops->memory.host_map(ctx, DEVICE_HOST_BASE, AHEAD * LARGE, fd, 0));
	mem = allocate(LARGE, DEV_MEMORY_DEVICE);
}

static void copy_out(uint64_t at, uint64_t bytes)
{
	struct dev_copy_2d c = {
		.dst = DEVICE_HOST_BASE + at, .src = mem, .width = bytes, .height = 1};

	CK(ops->copy.rows(ctx, st, &c));
}

/* n large copies, or until it is to stop; some are always under way. */
static double copies_ns(struct shared *sh, unsigned n)
{
	struct dev_event *end[AHEAD];
	uint64_t start;

	for (unsigned i = 0; i < AHEAD; i++)
		CK(ops->event.create(ctx, CU_EVENT_DISABLE_TIMING, &end[i]));
	start = clock_now_ns();
	for (unsigned i = 0; n ? i < n : !sh->stop; i++) {
		if (i >= AHEAD) {
			CK(ops->event.synchronize(end[i % AHEAD]));
			sh->copying = 1;
			sh->bytes += n ? 0 : LARGE;
		}
		copy_out(i % AHEAD * LARGE, LARGE);
		CK(ops->event.record(ctx, end[i % AHEAD], st));
	}
	CK(ops->stream.synchronize(ctx, st));
	return (double)(clock_now_ns() - start);
}

static double access_us(enum dev_memory memory)
{
	double v[ROUNDS];
	struct dev_mem *c;
	CUdeviceptr addr;

	CK(ops->memory.reserve(dev, PIECE, 0, 0, &addr));
	CK(ops->memory.create(dev, PIECE, memory, &c));
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t start;

		CK(ops->memory.map(dev, addr, c));
		start = clock_now_ns();
		CK(ops->memory.set_access(dev, addr, PIECE,
					  CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
		v[i] = (double)(clock_now_ns() - start);
		CK(ops->memory.unmap(dev, addr, PIECE));
		usleep(30 + i % 7 * 10); /* not in step with the turns */
	}
	ops->memory.release(dev, c);
	CK(ops->memory.unreserve(dev, addr, PIECE));
	return median(v, ROUNDS) / 1e3;
}

static double copy_us(uint64_t bytes)
{
	double v[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_now_ns();

		copy_out(0, bytes);
		CK(ops->copy.end(ctx, st));
		v[i] = (double)(clock_now_ns() - start);
	}
	return median(v, ROUNDS) / 1e3;
}

static void tell(struct shared *sh)
{
	uint64_t before;
	double ns;

	printf("%8.1f  %8.1f  %8.1f  %8.1f", access_us(DEV_MEMORY_DEVICE),
	       access_us(DEV_MEMORY_HOST), copy_us(4096), copy_us(MIB));
	before = sh->bytes;
	ns = copies_ns(sh, BULK);
	printf("  %8.1f\n", (double)(BULK * LARGE + sh->bytes - before) / ns);
	fflush(stdout);
}

/* In a process of its own: turns are made once, and are the process's. */
static void measure(uint64_t us, bool beside)
{
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;
	int status;

	turn_us = us;
	child = beside ? fork() : 0;
	if (beside && !child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		open_device();
		copies_ns(sh, 0);
		_exit(0);
	}
	open_device();
	while (beside && !sh->copying) {
		if (waitpid(child, &status, WNOHANG) != 0)
			exit(1);
		usleep(100);
	}
	if (us == OURS)
		printf("%8s", "ours");
	else
		printf("%8llu", (unsigned long long)us);
	printf("  %-6s", beside ? "yes" : "no");
	tell(sh);
	sh->stop = 1;
	if (beside)
		waitpid(child, &status, 0);
}

static bool measured(uint64_t us, bool beside)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		measure(us, beside);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       !WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	static const uint64_t usual[] = {1024, 100, 50, 20, 10, 5};
	unsigned n = argc > 2 ? (unsigned)argc - 2 : ARRAY_SIZE(usual);
	bool good;

	ops = device_ops_by_name(argc > 1 ? argv[1] : "soft");
	if (!ops)
		check(1, "usage: bench_turns [soft|cuda] [US...]");
	printf("turns us  copies  access 8M   host 8M  copy 4K    copy 1M  GB/s of "
	       "both\n");
	fflush(stdout);
	good = measured(OURS, false) && measured(OURS, true);
	for (unsigned i = 0; i < n && good; i++)
		good = measured(argc > 2 ? strtoull(argv[i + 2], NULL, 10) : usual[i],
				true);
	return good ? 0 : 1;
}
