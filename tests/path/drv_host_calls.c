/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the program in a stream that call CUDA are told that they may not, instead
 * of waiting for themselves. */
#include "driver.h"

struct tried {
	CUstream st;
	CUdeviceptr dev;
	unsigned n;
};

static void try_all(struct tried *t)
{
	CUdeviceptr p;
	size_t a, b;
	char byte;

	EXPECT(cuStreamSynchronize(t->st), CUDA_ERROR_NOT_PERMITTED);
	EXPECT(cuStreamQuery(t->st), CUDA_ERROR_NOT_PERMITTED);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_NOT_PERMITTED);
	EXPECT(cuMemAlloc(&p, 16), CUDA_ERROR_NOT_PERMITTED);
	EXPECT(cuMemFree(t->dev), CUDA_ERROR_NOT_PERMITTED);
	EXPECT(cuMemcpyDtoH(&byte, t->dev, 1), CUDA_ERROR_NOT_PERMITTED);
	EXPECT(cuMemGetInfo(&a, &b), CUDA_ERROR_NOT_PERMITTED);
	t->n++;
}

static void CUDA_CB function(void *arg)
{
	try_all(arg);
}

static void CUDA_CB callback(CUstream st, CUresult status, void *arg)
{
	REQUIRE(status == CUDA_SUCCESS);
	try_all(arg);
}

int main(void)
{
	CUDA_HOST_NODE_PARAMS node = {.fn = function};
	struct tried t = {0};
	CUgraphNode n;
	CUgraphExec x;
	CUcontext ctx;
	CUgraph g;

	check_name = "drv_host_calls";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	CK(cuStreamCreate(&t.st, 0));
	CK(cuMemAlloc(&t.dev, 16));
	for (int i = 0; i < 3; i++) {
		CK(cuLaunchHostFunc(t.st, function, &t));
		CK(cuStreamAddCallback(t.st, callback, &t, 0));
	}
	node.userData = &t;
	CK(cuGraphCreate(&g, 0));
	CK(cuGraphAddHostNode(&n, g, NULL, 0, &node));
	CK(cuGraphInstantiate(&x, g, 0));
	CK(cuGraphLaunch(x, t.st));
	CK(cuStreamSynchronize(t.st));
	REQUIRE(t.n == 7);
	CK(cuMemFree(t.dev)); /* here it is allowed, and has not been done */
	return pass();
}
