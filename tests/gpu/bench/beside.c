/* SPDX-License-Identifier: Apache-2.0 */
/* weft: seconds=60 soft */
/* Copies from the device beside another process that does nothing else. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define LARGE  (32ull << 20)
#define AHEAD  4
#define ROUNDS 400
#define WARM   20
#define BULK   32 /* large copies whose rate is taken */

struct shared {
	_Atomic int copying, stop;
	_Atomic uint64_t bytes; /* that the other has copied */
};

static CUdeviceptr dev;
static char *host;
static CUstream s;

static void open_and_allocate(void)
{
	void *p;

	bench_open();
	CK(cuMemAlloc(&dev, LARGE));
	CK(cuMemHostAlloc(&p, AHEAD * LARGE, 0));
	CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	host = p;
}

/* Large copies, some of them always under way. */
static void copy_all_the_time(struct shared *sh, int n)
{
	CUevent end[AHEAD];

	for (int i = 0; i < AHEAD; i++)
		CK(cuEventCreate(&end[i], CU_EVENT_DISABLE_TIMING));
	for (int i = 0; n ? i < n : !sh->stop; i++) {
		if (i >= AHEAD) {
			CK(cuEventSynchronize(end[i % AHEAD]));
			sh->copying = 1;
			sh->bytes += n ? 0 : LARGE;
		}
		CK(cuMemcpyDtoHAsync(host + i % AHEAD * LARGE, dev, LARGE, s));
		CK(cuEventRecord(end[i % AHEAD], s));
	}
	CK(cuStreamSynchronize(s));
}

static double one_copy_us(size_t bytes)
{
	static double t[ROUNDS];

	for (int i = -WARM; i < ROUNDS; i++) {
		double start = now_us();

		CK(cuMemcpyDtoHAsync(host, dev, bytes, s));
		CK(cuStreamSynchronize(s));
		if (i >= 0)
			t[i] = now_us() - start;
	}
	return median(t, ROUNDS);
}

int main(void)
{
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork(); /* before the driver is loaded */
	double start;
	uint64_t before;
	int status;

	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_and_allocate();
	if (!child) {
		copy_all_the_time(sh, 0);
		return 0;
	}
	while (!sh->copying && waitpid(child, &status, WNOHANG) == 0)
		usleep(100);
	if (!sh->copying)
		return 1;
	printf("beside_4k %.2f\n", one_copy_us(4096));
	printf("beside_1m %.2f\n", one_copy_us(1 << 20));
	before = sh->bytes;
	start = now_us();
	copy_all_the_time(sh, BULK);
	printf("beside_rate %.2f\n",
	       (BULK * LARGE + sh->bytes - before) / (now_us() - start) / 1e3);
	sh->stop = 1;
	waitpid(child, &status, 0);
	return !WIFEXITED(status) || WEXITSTATUS(status);
}
