/* SPDX-License-Identifier: Apache-2.0 */
/* Says how large its device is, and again whenever that changes; a limit set on the host
 * is seen here at once. */
#include <cuda.h>
#include <stdio.h>
#include <unistd.h>

#define PAUSE_US 50000

int main(void)
{
	size_t free_bytes, total, was = 0;
	CUdevice device;
	CUcontext ctx;

	if (cuInit(0) || cuDeviceGet(&device, 0) ||
	    cuDevicePrimaryCtxRetain(&ctx, device) || cuCtxSetCurrent(ctx)) {
		puts("gpu_size: no GPU");
		return 1;
	}
	while (cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS) {
		if (total != was)
			printf("gpu_size: %zu MiB\n", total >> 20);
		fflush(stdout);
		was = total;
		usleep(PAUSE_US);
	}
	puts("gpu_size: the GPU is gone");
	return 1;
}
