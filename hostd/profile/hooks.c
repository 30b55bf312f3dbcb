/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: between a program and the driver
 *
 * The functions of the driver that a profile has to see, under the driver's names: programs that
 * are linked to libcuda find them first since this library is preloaded, and those that look for
 * them by dlsym() or cuGetProcAddress(), as the CUDA runtime does, are given them.
 */
#include <dlfcn.h>
#include <string.h>

#include <cuda.h>

#include "profile/profile.h"

#define EXPORT __attribute__((visibility("default")))

/* Streams of their own for threads: what a program asks for, or its flag of cuGetProcAddress(). */
#define PER_THREAD 2u

typedef void *dlsym_fn(void *handle, const char *name);

static dlsym_fn *real_dlsym(void)
{
	static dlsym_fn *found;

	if (!found)
		found = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34")
				?: (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	return found;
}

void *driver_function(const char *name)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	void *f = lib ? real_dlsym()(lib, name) : NULL;

	if (!f)
		profile_end("--profile: this driver has no %s", name);
	return f;
}

/* ---- beginning, memory ---- */

EXPORT CUresult cuInit(unsigned Flags)
{
	CUresult r = DRIVER(cuInit)(Flags);

	if (!r)
		profile_begin();
	return r;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	return profile_alloc(dptr, bytesize, CU_MEM_ATTACH_GLOBAL);
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned flags)
{
	return profile_alloc(dptr, bytesize, flags);
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
				   size_t Height, unsigned ElementSizeBytes)
{
	(void)ElementSizeBytes;
	*pPitch = ALIGN_UP(WidthInBytes, 512);
	return profile_alloc(dptr, *pPitch * Height, CU_MEM_ATTACH_GLOBAL);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	CUresult r;

	return profile_free(dptr, &r) ? r : DRIVER(cuMemFree_v2)(dptr);
}

static CUresult free_async(CUdeviceptr p, CUstream stream,
			   CUresult (*driver)(CUdeviceptr, CUstream))
{
	CUresult r;

	return profile_free(p, &r) ? r : driver(p, stream);
}

/* ---- code ---- */

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	CUresult r = DRIVER(cuModuleLoadData)(module, image);

	if (!r)
		profile_code(*module, image);
	return r;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image,
				   unsigned numOptions, CUjit_option *options,
				   void **optionValues)
{
	CUresult r = DRIVER(cuModuleLoadDataEx)(module, image, numOptions, options,
						optionValues);

	if (!r)
		profile_code(*module, image);
	return r;
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	CUresult r = DRIVER(cuModuleLoadFatBinary)(module, fatCubin);

	if (!r)
		profile_code(*module, fatCubin);
	return r;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code,
				  CUjit_option *jitOptions, void **jitOptionsValues,
				  unsigned numJitOptions, CUlibraryOption *libraryOptions,
				  void **libraryOptionValues, unsigned numLibraryOptions)
{
	CUresult r = DRIVER(cuLibraryLoadData)(
		library, code, jitOptions, jitOptionsValues, numJitOptions,
		libraryOptions, libraryOptionValues, numLibraryOptions);

	if (!r)
		profile_code(*library, code);
	return r;
}

EXPORT CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	CUresult r = DRIVER(cuLibraryGetModule)(pMod, library);

	if (!r)
		profile_code_of(*pMod, library);
	return r;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	CUresult r = DRIVER(cuModuleGetFunction)(hfunc, hmod, name);

	if (!r)
		profile_function(*hfunc, hmod, name, false);
	return r;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	CUresult r = DRIVER(cuLibraryGetKernel)(pKernel, library, name);

	if (!r)
		profile_function(*pKernel, library, name, true);
	return r;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	CUresult r = DRIVER(cuKernelGetFunction)(pFunc, kernel);

	if (!r)
		profile_function_of(*pFunc, kernel);
	return r;
}

/* ---- what streams take, twice: with the program's and with a thread's default stream ---- */

/* A launch by the parameters of the function that it is in. */
#define LAUNCH(more)                                                                     \
	{                                                                                \
		f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ},    \
			hStream, kernelParams, more                                      \
	}

#define BOTH(suffix)                                                                     \
	EXPORT CUresult cuMemAllocAsync##suffix(CUdeviceptr *dptr, size_t bytesize,      \
						CUstream hStream)                        \
	{                                                                                \
		(void)hStream;                                                           \
		return profile_alloc(dptr, bytesize, CU_MEM_ATTACH_GLOBAL);              \
	}                                                                                \
	EXPORT CUresult cuMemAllocFromPoolAsync##suffix(                                 \
		CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) \
	{                                                                                \
		(void)pool, (void)hStream;                                               \
		return profile_alloc(dptr, bytesize, CU_MEM_ATTACH_GLOBAL);              \
	}                                                                                \
	EXPORT CUresult cuMemFreeAsync##suffix(CUdeviceptr dptr, CUstream hStream)       \
	{                                                                                \
		return free_async(dptr, hStream, DRIVER(cuMemFreeAsync##suffix));        \
	}                                                                                \
	EXPORT CUresult cuLaunchKernel##suffix(                                          \
		CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,   \
		unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,              \
		unsigned sharedMemBytes, CUstream hStream, void **kernelParams,          \
		void **extra)                                                            \
	{                                                                                \
		const struct profile_launch l = LAUNCH(extra);                           \
		CUresult r;                                                              \
                                                                                         \
		profile_launch_begin(&l);                                                \
		r = DRIVER(cuLaunchKernel##suffix)(                                      \
			f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,           \
			blockDimZ, sharedMemBytes, hStream, kernelParams, extra);        \
		profile_launch_end(r);                                                   \
		return r;                                                                \
	}                                                                                \
	EXPORT CUresult cuLaunchKernelEx##suffix(const CUlaunchConfig *config,           \
						 CUfunction f, void **kernelParams,      \
						 void **extra)                           \
	{                                                                                \
		const struct profile_launch l = {                                        \
			f,                                                               \
			{config->gridDimX, config->gridDimY, config->gridDimZ},          \
			{config->blockDimX, config->blockDimY, config->blockDimZ},       \
			config->hStream,                                                 \
			kernelParams,                                                    \
			extra};                                                          \
		CUresult r;                                                              \
                                                                                         \
		profile_launch_begin(&l);                                                \
		r = DRIVER(cuLaunchKernelEx##suffix)(config, f, kernelParams, extra);    \
		profile_launch_end(r);                                                   \
		return r;                                                                \
	}                                                                                \
	EXPORT CUresult cuLaunchCooperativeKernel##suffix(                               \
		CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,   \
		unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,              \
		unsigned sharedMemBytes, CUstream hStream, void **kernelParams)          \
	{                                                                                \
		const struct profile_launch l = LAUNCH(NULL);                            \
		CUresult r;                                                              \
                                                                                         \
		profile_launch_begin(&l);                                                \
		r = DRIVER(cuLaunchCooperativeKernel##suffix)(                           \
			f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,           \
			blockDimZ, sharedMemBytes, hStream, kernelParams);               \
		profile_launch_end(r);                                                   \
		return r;                                                                \
	}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *, size_t, CUstream);
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
CUresult cuMemFreeAsync_ptsz(CUdeviceptr, CUstream);
CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
			     unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *, CUfunction, void **, void **);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction, unsigned, unsigned, unsigned,
					unsigned, unsigned, unsigned, unsigned, CUstream,
					void **);

BOTH()
BOTH(_ptsz)

/* ---- looking for functions ---- */

static const struct hook {
	const char *name, *exported; /* by cuGetProcAddress(), and by dlsym() */
	void *own, *per_thread;      /* NULL: one for both */
} hooks[] = {
#define PLAIN(f)       #f, #f, (void *)(f), NULL
#define WITH_STREAM(f) #f, #f, (void *)(f), (void *)(f##_ptsz)
	{PLAIN(cuInit)},
	{"cuMemAlloc", "cuMemAlloc_v2", (void *)cuMemAlloc_v2, NULL},
	{"cuMemAllocPitch", "cuMemAllocPitch_v2", (void *)cuMemAllocPitch_v2, NULL},
	{"cuMemFree", "cuMemFree_v2", (void *)cuMemFree_v2, NULL},
	{PLAIN(cuMemAllocManaged)},
	{PLAIN(cuModuleLoadData)},
	{PLAIN(cuModuleLoadDataEx)},
	{PLAIN(cuModuleLoadFatBinary)},
	{PLAIN(cuLibraryLoadData)},
	{PLAIN(cuLibraryGetModule)},
	{PLAIN(cuModuleGetFunction)},
	{PLAIN(cuLibraryGetKernel)},
	{PLAIN(cuKernelGetFunction)},
	{WITH_STREAM(cuMemAllocAsync)},
	{WITH_STREAM(cuMemAllocFromPoolAsync)},
	{WITH_STREAM(cuMemFreeAsync)},
	{WITH_STREAM(cuLaunchKernel)},
	{WITH_STREAM(cuLaunchKernelEx)},
	{WITH_STREAM(cuLaunchCooperativeKernel)},
};

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *, void **, int, cuuint64_t);
CUresult cuGetProcAddress_v2(const char *, void **, int, cuuint64_t,
			     CUdriverProcAddressQueryResult *);

static void *own_of(const char *name, int version, cuuint64_t flags, void *found)
{
	if (strcmp(name, "cuGetProcAddress") == 0)
		return version >= 12000 ? (void *)cuGetProcAddress_v2
					: (void *)cuGetProcAddress;
	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		const struct hook *h = &hooks[i];

		if (strcmp(name, h->name) == 0)
			return flags & PER_THREAD && h->per_thread ? h->per_thread
								   : h->own;
	}
	return found;
}

EXPORT CUresult cuGetProcAddress(const char *name, void **ret, int version,
				 cuuint64_t flags)
{
	CUresult r = DRIVER(cuGetProcAddress)(name, ret, version, flags);

	if (!r && *ret)
		*ret = own_of(name, version, flags, *ret);
	return r;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
				    cuuint64_t flags,
				    CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult r = DRIVER(cuGetProcAddress_v2)(symbol, pfn, cudaVersion, flags,
						 symbolStatus);

	if (!r && *pfn)
		*pfn = own_of(symbol, cudaVersion, flags, *pfn);
	return r;
}

EXPORT void *dlsym(void *handle, const char *name)
{
	void *found = real_dlsym()(handle, name);

	/* RTLD_NEXT depends on who asks. */
	if (!found || handle == RTLD_NEXT || strncmp(name, "cu", 2) != 0)
		return found;
	if (strcmp(name, "cuGetProcAddress_v2") == 0)
		return (void *)cuGetProcAddress_v2;
	if (strcmp(name, "cuGetProcAddress") == 0)
		return (void *)cuGetProcAddress;
	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		const struct hook *h = &hooks[i];
		size_t n = strlen(h->exported);

		if (strcmp(name, h->exported) == 0)
			return h->own;
		if (h->per_thread && strncmp(name, h->exported, n) == 0 &&
		    strcmp(name + n, "_ptsz") == 0)
			return h->per_thread;
	}
	return found;
}
