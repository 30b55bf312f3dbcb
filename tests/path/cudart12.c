/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a kernel through a given shared CUDA runtime (libcudart.so.12 of a Python wheel)
 * on whatever driver library is there. It registers a fatbin as compiled programs do.
 *
 *	cudart12 LIBCUDART FATBIN
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct dim3 {
	unsigned x, y, z;
};

struct wrapper {
	uint32_t magic, version;
	const void *data;
	void *list;
};

static void *lib;

static void *sym(const char *name)
{
	void *p = dlsym(lib, name);

	if (!p) {
		printf("FAIL cudart12: no %s\n", name);
		exit(1);
	}
	return p;
}

#define CALL(name, types, ...)                                                           \
	do {                                                                             \
		int r = ((int(*) types)sym(#name))(__VA_ARGS__);                         \
		if (r) {                                                                 \
			printf("FAIL cudart12: %s returned %d\n", #name, r);             \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

/* The runtime knows the kernel by the address of this function. */
static void saxpy_stub(void)
{
}

int main(int argc, char **argv)
{
	enum { N = 10000, H2D = 1, D2H = 2 };
	static float x[N], y[N], want[N];
	static struct wrapper w = { .magic = 0x466243b1, .version = 1 };
	void *dx, *dy, **handle;
	float a = 1.5f;
	int n = N, version = 0, count = 0;
	FILE *f;
	long size;
	void *image;

	if (argc != 3)
		return 2;
	lib = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!lib) {
		printf("FAIL cudart12: %s\n", dlerror());
		return 1;
	}
	f = fopen(argv[2], "rb");
	if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) <= 0 || fseek(f, 0, SEEK_SET))
		return 2;
	image = aligned_alloc(64, ((size_t)size + 63) / 64 * 64);
	if (!image || fread(image, 1, (size_t)size, f) != (size_t)size)
		return 2;
	fclose(f);
	w.data = image;

	handle = ((void **(*)(void *))sym("__cudaRegisterFatBinary"))(&w);
	((void (*)(void **, const char *, char *, const char *, int, void *, void *, void *,
		   void *, int *))sym("__cudaRegisterFunction"))(
		handle, (const char *)saxpy_stub, (char *)"saxpy", "saxpy", -1, NULL, NULL,
		NULL, NULL, NULL);
	((void (*)(void **))sym("__cudaRegisterFatBinaryEnd"))(handle);

	CALL(cudaRuntimeGetVersion, (int *), &version);
	CALL(cudaGetDeviceCount, (int *), &count);
	CALL(cudaMalloc, (void **, size_t), &dx, sizeof(x));
	CALL(cudaMalloc, (void **, size_t), &dy, sizeof(y));
	for (int i = 0; i < N; i++) {
		x[i] = (float)i;
		y[i] = (float)(i % 7);
		want[i] = fmaf(a, x[i], y[i]);
	}
	CALL(cudaMemcpy, (void *, const void *, size_t, int), dx, x, sizeof(x), H2D);
	CALL(cudaMemcpy, (void *, const void *, size_t, int), dy, y, sizeof(y), H2D);
	void *args[] = { &dx, &dy, &a, &n };
	CALL(cudaLaunchKernel, (const void *, struct dim3, struct dim3, void **, size_t, void *),
	     (const void *)saxpy_stub, ((struct dim3){ (N + 255) / 256, 1, 1 }),
	     ((struct dim3){ 256, 1, 1 }), args, 0, NULL);
	CALL(cudaDeviceSynchronize, (void));
	CALL(cudaMemcpy, (void *, const void *, size_t, int), y, dy, sizeof(y), D2H);
	for (int i = 0; i < N; i++) {
		if (y[i] != want[i]) {
			printf("FAIL cudart12: element %d: %g, not %g\n", i, y[i], want[i]);
			return 1;
		}
	}
	CALL(cudaFree, (void *), dx);
	CALL(cudaFree, (void *), dy);
	printf("PASS cudart %d.%d\n", version / 1000, version % 1000 / 10);
	return 0;
}
