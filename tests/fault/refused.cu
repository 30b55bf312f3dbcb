/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for things that are not there, some before cuInit(), and ends at once. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define CHECK(e, want)                                                                   \
	do {                                                                             \
		int got = (int)(e);                                                      \
		if (got != (want)) {                                                     \
			printf("%s: %d instead of %d\n", #e, got, (int)(want));          \
			return 1;                                                        \
		}                                                                        \
	} while (0)

typedef int (*none_fn)(void);

int main()
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	none_fn none = lib ? (none_fn)dlsym(lib, "cuDeviceGetNvSciSyncAttributes") : NULL;
	none_fn other = lib ? (none_fn)dlsym(lib, "cuCheckpointProcessLock") : NULL;
	CUctxCreateParams params;
	CUctxCigParam cig;
	const void *table;
	CUcontext ctx;
	CUuuid id;
	int value;

	if (!none || !other)
		return 2;
	memset(&id, 0xab, sizeof(id));
	memset(&params, 0, sizeof(params));
	memset(&cig, 0, sizeof(cig));
	params.cigParams = &cig;
	CHECK(none(), CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuInit(0), 0);
	for (int i = 0; i < 1000; i++)
		CHECK(none(), CUDA_ERROR_NOT_SUPPORTED);
	CHECK(other(), CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuGetExportTable(&table, &id), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxCreate_v4(&ctx, &params, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuDevicePrimaryCtxRetain(&ctx, 0), 0);
	CHECK(cuCtxSetCurrent(ctx), 0);
	CHECK(cuPointerGetAttribute(&value, (CUpointer_attribute)99, 4096),
	      CUDA_ERROR_INVALID_VALUE);
	return 0;
}
