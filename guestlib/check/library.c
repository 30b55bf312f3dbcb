/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weft's libraries as a program gets them: by the dynamic loader, by their names. Which
 * one came is told by its file: Weft's read WEFT_HOST.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "check/check.h"
#include "check/report.h"

#define COPY_BYTES 65536

/* Names of cuda.h, whose header this program does without. */
struct driver {
	int (*init)(unsigned flags);
	int (*device_get)(int *dev, int ordinal);
	int (*device_get_name)(char *name, int len, int dev);
	int (*device_total_mem)(size_t *bytes, int dev);
	int (*driver_get_version)(int *version);
	int (*primary_retain)(void **ctx, int dev);
	int (*primary_release)(int dev);
	int (*set_current)(void *ctx);
	int (*mem_alloc)(uint64_t *addr, size_t bytes);
	int (*mem_free)(uint64_t addr);
	int (*to_device)(uint64_t dst, const void *src, size_t bytes);
	int (*from_device)(void *dst, uint64_t src, size_t bytes);
	int (*error_name)(int error, const char **name);
};

static const struct {
	const char *name;
	size_t at;
} functions[] = {
	{"cuInit", offsetof(struct driver, init)},
	{"cuDeviceGet", offsetof(struct driver, device_get)},
	{"cuDeviceGetName", offsetof(struct driver, device_get_name)},
	{"cuDeviceTotalMem_v2", offsetof(struct driver, device_total_mem)},
	{"cuDriverGetVersion", offsetof(struct driver, driver_get_version)},
	{"cuDevicePrimaryCtxRetain", offsetof(struct driver, primary_retain)},
	{"cuDevicePrimaryCtxRelease_v2", offsetof(struct driver, primary_release)},
	{"cuCtxSetCurrent", offsetof(struct driver, set_current)},
	{"cuMemAlloc_v2", offsetof(struct driver, mem_alloc)},
	{"cuMemFree_v2", offsetof(struct driver, mem_free)},
	{"cuMemcpyHtoD_v2", offsetof(struct driver, to_device)},
	{"cuMemcpyDtoH_v2", offsetof(struct driver, from_device)},
	{"cuGetErrorName", offsetof(struct driver, error_name)},
};

static void *libcuda;

/* Whether a file is one of Weft's libraries. */
static bool is_weft(const char *path)
{
	static const char mark[] = "WEFT_HOST";
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	bool found;
	void *map;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
		return false;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;
	found = memmem(map, (size_t)st.st_size, mark, sizeof(mark));
	munmap(map, (size_t)st.st_size);
	return found;
}

/* Returns the library's handle, or NULL after a row that says why it is none of ours.
 * symbol: a function of its own. */
static void *load(const char *name, const char *symbol)
{
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	void *fn = lib ? dlsym(lib, symbol) : NULL;
	Dl_info info;

	if (!lib) {
		report(VERDICT_NO, name, "%s", dlerror());
		report_advice(
			"install the package weft-guest, or copy the library to where "
			"the loader looks and run ldconfig");
		return NULL;
	}
	if (!fn || !dladdr(fn, &info) || !is_weft(info.dli_fname)) {
		report(VERDICT_NO, name, "%s is another driver's",
		       fn ? info.dli_fname : "this library");
		report_advice(
			"remove NVIDIA's driver from this VM, run ldconfig, and look "
			"at LD_LIBRARY_PATH");
		dlclose(lib);
		return NULL;
	}
	report(VERDICT_OK, name, "%s", info.dli_fname);
	return lib;
}

bool check_libraries(void)
{
	libcuda = load("libcuda.so.1", "cuInit");
	(void)load("libnvidia-ml.so.1", "nvmlInit_v2");
	return libcuda;
}

static bool find_functions(struct driver *ret_d)
{
	for (unsigned i = 0; i < ARRAY_SIZE(functions); i++) {
		void *fn = dlsym(libcuda, functions[i].name);

		if (!fn) {
			report(VERDICT_NO, "GPU", "libcuda.so.1 has no %s",
			       functions[i].name);
			return false;
		}
		memcpy((char *)ret_d + functions[i].at, &fn, sizeof(fn));
	}
	return true;
}

/* Says what failed. Returns whether nothing did. */
static bool good(const struct driver *d, int error, const char *what)
{
	const char *name = NULL;

	if (!error)
		return true;
	(void)d->error_name(error, &name);
	report(VERDICT_NO, "GPU", "%s: %s", what, name ? name : "unknown error");
	if (name && strstr(name, "OUT_OF_MEMORY"))
		report_advice(
			"other programs of this VM have all of its share: end them, or "
			"ask for a larger one");
	return false;
}

/* Copies a pattern to the GPU and back. */
static bool copy(const struct driver *d)
{
	static unsigned char out[COPY_BYTES], in[COPY_BYTES];
	uint64_t addr;
	bool ok;

	for (unsigned i = 0; i < COPY_BYTES; i++)
		out[i] = (unsigned char)(i * 7 + i / 256);
	if (!good(d, d->mem_alloc(&addr, COPY_BYTES), "memory"))
		return false;
	ok = good(d, d->to_device(addr, out, COPY_BYTES), "copy to the GPU") &&
	     good(d, d->from_device(in, addr, COPY_BYTES), "copy from the GPU");
	(void)d->mem_free(addr);
	if (ok && memcmp(in, out, COPY_BYTES) != 0) {
		report(VERDICT_NO, "GPU", "what was copied there came back changed");
		return false;
	}
	return ok;
}

static void use(const struct driver *d, int dev)
{
	char name[128] = "";
	int version = 0;
	size_t bytes = 0;
	void *ctx;

	if (!good(d, d->primary_retain(&ctx, dev), "context"))
		return;
	(void)d->device_get_name(name, sizeof(name), dev);
	(void)d->device_total_mem(&bytes, dev);
	(void)d->driver_get_version(&version);
	if (good(d, d->set_current(ctx), "context") && copy(d))
		report(VERDICT_OK, "GPU", "%s, %zu MiB, CUDA %d.%d", name, bytes >> 20,
		       version / 1000, version % 1000 / 10);
	(void)d->primary_release(dev);
}

void check_gpu(void)
{
	struct driver d;
	int dev;

	if (!find_functions(&d))
		return;
	if (good(&d, d.init(0), "cuInit") && good(&d, d.device_get(&dev, 0), "device"))
		use(&d, dev);
}
