/* SPDX-License-Identifier: Apache-2.0 */
/* Bad images: the code, and a JIT log that names line and instruction. */
#include "driver.h"

static CUresult load(const void *image, char *log, size_t log_size)
{
	CUjit_option opt[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
			       CU_JIT_MAX_REGISTERS };
	void *val[] = { log, (void *)log_size, (void *)32 };
	CUmodule m = NULL;
	CUresult r;

	memset(log, 0, log_size);
	r = cuModuleLoadDataEx(&m, image, 3, opt, val);
	if (r == CUDA_SUCCESS)
		cuModuleUnload(m);
	return r;
}

#define HEAD ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n"

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	char log[4096];

	check_name = "drv_jit_errors";
	CK(cuInit(0));
	CK(cuDeviceGet(&dev, 0));
	CK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CK(cuCtxSetCurrent(ctx));

	CK(load(HEAD "ret;\n}\n", log, sizeof(log)));
	EXPECT(load(HEAD "ret;\n", log, sizeof(log)), CUDA_ERROR_INVALID_PTX);
	EXPECT(load(HEAD ".reg .b32 %r<2>;\nfrobnicate.b32 %r0, %r1;\nret;\n}\n", log,
		    sizeof(log)),
	       CUDA_ERROR_INVALID_PTX);
	if (!strstr(log, "line 7") || !strstr(log, "frobnicate"))
		fail("log does not name line and instruction: %s", log);
	EXPECT(load(HEAD ".reg .b32 %r<2>;\nadd.s32 %r0, %r1, %r9;\nret;\n}\n", log,
		    sizeof(log)),
	       CUDA_ERROR_INVALID_PTX);
	if (!strstr(log, "line 7") || !strstr(log, "%r9"))
		fail("log does not name line and register: %s", log);
	EXPECT(load(HEAD "bra NOWHERE;\nret;\n}\n", log, sizeof(log)), CUDA_ERROR_INVALID_PTX);
	/* a log too small for the message is filled to the last byte and ends in NUL */
	char tiny[17];
	memset(tiny, 'x', sizeof(tiny));
	EXPECT(load(HEAD "frobnicate;\nret;\n}\n", tiny, 16), CUDA_ERROR_INVALID_PTX);
	REQUIRE(memchr(tiny, 0, 16) != NULL);
	EXPECT(load("neither text nor binary \1\2\3", log, sizeof(log)), CUDA_ERROR_INVALID_IMAGE);

	/* a container that lies about its size of entries, and an ELF with nothing in it */
	static const unsigned char fat[64] = { 0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 48 };
	CUresult r = load(fat, log, sizeof(log));
	REQUIRE(r == CUDA_ERROR_INVALID_IMAGE || r == CUDA_ERROR_NO_BINARY_FOR_GPU);
	static const unsigned char elf[256] = { 0x7f, 'E', 'L', 'F', 2, 1, 1 };
	r = load(elf, log, sizeof(log));
	REQUIRE(r == CUDA_ERROR_INVALID_IMAGE || r == CUDA_ERROR_NO_BINARY_FOR_GPU ||
		r == CUDA_ERROR_INVALID_SOURCE);
	CUmodule m;
	EXPECT(cuModuleLoadData(&m, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleLoad(&m, "/nonexistent.cubin"), CUDA_ERROR_FILE_NOT_FOUND);

	/* and the context lives on */
	CK(load(HEAD "ret;\n}\n", log, sizeof(log)));
	CK(cuDevicePrimaryCtxRelease(dev));
	return pass();
}
