/* SPDX-License-Identifier: Apache-2.0 */
/* As many objects of two kinds as there can be: the call that makes one too many says so,
 * nothing fails later, and one that goes makes room. */
#include "driver.h"

#define STREAMS 1000u
#define MOST    (1u << 20)

int main(void)
{
	static CUstream streams[STREAMS];
	CUevent *events = calloc(MOST, sizeof(*events)), e;
	CUcontext ctx;
	CUresult r = CUDA_SUCCESS;
	unsigned n = 0;

	check_name = "drv_many_objects";
	REQUIRE(events);
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	for (unsigned i = 0; i < STREAMS; i++)
		CK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	while (n < MOST && !(r = cuEventCreate(&events[n], CU_EVENT_DISABLE_TIMING)))
		n++;
	if (!r) { /* as many as a driver may have */
		CK(cuCtxSynchronize());
		return pass();
	}
	REQUIRE(n > MOST / 2);
	EXPECT(r, CUDA_ERROR_OUT_OF_MEMORY);
	CK(cuCtxSynchronize());
	EXPECT(cuEventCreate(&e, 0), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuStreamCreate(&streams[0], 0), CUDA_ERROR_OUT_OF_MEMORY);
	CK(cuEventDestroy(events[--n]));
	CK(cuStreamDestroy(streams[1]));
	CK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	CK(cuEventCreate(&events[n], 0));
	CK(cuEventRecord(events[n], streams[1]));
	CK(cuEventSynchronize(events[n]));
	CK(cuCtxSynchronize());
	CK(cuDevicePrimaryCtxReset(0));
	CK(cuDevicePrimaryCtxRelease(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuEventCreate(&e, 0));
	CK(cuCtxSynchronize());
	free(events);
	return pass();
}
