/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates and frees device memory as it is told, a line each, and answers with the
 * CUDA error and what cuMemGetInfo() says:
 *	a SLOT BYTES	cuMemAlloc		p SLOT BYTES	cuMemAllocAsync
 *	c SLOT BYTES	cuMemCreate		f SLOT		free whatever is there
 *	l LIMIT BYTES	cuCtxSetLimit		i		nothing
 *	e 0 COUNT	cuEventCreate, so often
 *	s SLOT FILE	cuIpcGetMemHandle	o SLOT FILE	cuIpcOpenMemHandle
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 64

static struct {
	char how; /* 0: empty */
	CUdeviceptr addr;
	CUmemGenericAllocationHandle handle;
} slot[SLOTS];

static CUresult grab(char how, unsigned i, unsigned long long bytes)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUresult r;

	if (how == 'a')
		r = cuMemAlloc(&slot[i].addr, bytes);
	else if (how == 'p')
		r = cuMemAllocAsync(&slot[i].addr, bytes, NULL);
	else
		r = cuMemCreate(&slot[i].handle, bytes, &prop, 0);
	if (r == CUDA_SUCCESS)
		slot[i].how = how;
	return r;
}

/* The handle is what is in the file. */
static CUresult share(char how, unsigned i, const char *path)
{
	CUresult r = CUDA_ERROR_FILE_NOT_FOUND;
	FILE *f = fopen(path, how == 's' ? "w" : "r");
	CUipcMemHandle h;

	if (!f)
		return r;
	if (how == 's') {
		r = cuIpcGetMemHandle(&h, slot[i].addr);
		if (r == CUDA_SUCCESS && fwrite(&h, sizeof(h), 1, f) != 1)
			r = CUDA_ERROR_UNKNOWN;
	} else if (fread(&h, sizeof(h), 1, f) == 1) {
		r = cuIpcOpenMemHandle(&slot[i].addr, h, 1);
		if (r == CUDA_SUCCESS)
			slot[i].how = how;
	}
	fclose(f);
	return r;
}

static CUresult make_events(unsigned long long n)
{
	CUresult r = CUDA_SUCCESS, later;
	CUevent e;

	while (n-- && r == CUDA_SUCCESS)
		r = cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
	later = cuCtxSynchronize(); /* nothing waits for an event to be made */
	return r ? r : later;
}

static CUresult drop(unsigned i)
{
	char how = slot[i].how;
	CUresult r;

	slot[i].how = 0;
	if (how == 'a')
		return cuMemFree(slot[i].addr);
	if (how == 'o')
		return cuIpcCloseMemHandle(slot[i].addr);
	if (how == 'c')
		return cuMemRelease(slot[i].handle);
	r = cuMemFreeAsync(slot[i].addr, NULL);
	return r ? r : cuStreamSynchronize(NULL);
}

int main(void)
{
	unsigned long long bytes;
	size_t left, total;
	CUcontext ctx;
	char line[256], path[200], how;
	unsigned i;
	CUresult r;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		bytes = i = 0;
		if (sscanf(line, "%c %u %llu", &how, &i, &bytes) < 1 || i >= SLOTS)
			return 2;
		if (how == 's' || how == 'o')
			r = sscanf(line, "%*c %*u %199s", path) == 1
				    ? share(how, i, path)
				    : CUDA_ERROR_INVALID_VALUE;
		else if (how == 'i')
			r = CUDA_SUCCESS;
		else if (how == 'e')
			r = make_events(bytes);
		else if (how == 'l')
			r = cuCtxSetLimit((CUlimit)i, bytes);
		else
			r = how == 'f' ? drop(i) : grab(how, i, bytes);
		if (cuMemGetInfo(&left, &total))
			return 3;
		printf("%d %zu %zu\n", (int)r, left, total);
		fflush(stdout);
	}
	return 0;
}
