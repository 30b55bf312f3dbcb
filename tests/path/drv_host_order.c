/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function of the program in a stream fills memory that a later copy of the stream
 * sends to the device (how XLA stages its inputs): the copy must see what was written.
 * Pinned memory, registered memory that can be shared and such that cannot, and a
 * pageable source of a copy that waits.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

#define N      1024
#define ROUNDS 20

struct fill {
	unsigned *at, value;
};

/* Not anonymous memory: a device of a virtual machine cannot be shown these pages. */
static unsigned in_file[N] __attribute__((aligned(4096))) = {1};

static void CUDA_CB fill(void *arg)
{
	struct fill *f = arg;

	usleep(2000);
	for (int i = 0; i < N; i++)
		f->at[i] = f->value;
}

static void rounds(CUstream st, CUdeviceptr dev, unsigned *from, int async,
		   const char *what)
{
	unsigned out[N];

	for (unsigned k = 1; k <= ROUNDS; k++) {
		struct fill f = {from, k};

		CK(cuLaunchHostFunc(st, fill, &f));
		if (async)
			CK(cuMemcpyHtoDAsync(dev, from, sizeof(out), st));
		else
			CK(cuMemcpyHtoD(dev, from, sizeof(out)));
		CK(cuStreamSynchronize(st));
		CK(cuMemcpyDtoH(out, dev, sizeof(out)));
		if (out[0] != k || out[N - 1] != k)
			fail("%s: round %u gave %u", what, k, out[0]);
	}
}

int main(void)
{
	unsigned *pinned, *shared, *plain = malloc(N * 4);
	CUdeviceptr dev;
	CUcontext ctx;
	CUstream st;

	check_name = "drv_host_order";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamCreate(&st, CU_STREAM_DEFAULT));
	CK(cuMemAlloc(&dev, N * 4));

	CK(cuMemHostAlloc((void **)&pinned, N * 4, 0));
	rounds(st, dev, pinned, 1, "pinned");
	CK(cuMemFreeHost(pinned));

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	REQUIRE(shared != MAP_FAILED);
	CK(cuMemHostRegister(shared, 4096, 0));
	rounds(st, dev, shared, 1, "registered");
	CK(cuMemHostUnregister(shared));

	CK(cuMemHostRegister(in_file, sizeof(in_file), 0));
	rounds(st, dev, in_file, 1, "registered, of a file");
	CK(cuMemHostUnregister(in_file));

	REQUIRE(plain);
	rounds(st, dev, plain, 0, "pageable");
	CK(cuMemFree(dev));
	return pass();
}
