/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "guest_uuid.h"

#define CUDA_LIBRARY "libcuda.so.1"
/* Where nobody listens: what is not shared is no client of an MPS server, whatever the
 * operator's environment says. */
#define MPS_NOWHERE "/nonexistent/weft"

/* Two steps, so that the macros of cuda.h have chosen the version before it is quoted. */
#define QUOTED(fn)  #fn
#define NAME_OF(fn) QUOTED(fn)

struct cuda_driver cu;

bool device_cuda_nests;

static int load_result = -ENODEV;
static char why[200]; /* it failed */

/* POSIX lets dlsym()'s result be a function; ISO C has no cast for it. */
static int look_up(void *lib, const char *name, void *ret_fn)
{
	void *p = dlsym(lib, name);

	if (!p) {
		snprintf(why, sizeof(why),
			 "the driver's " CUDA_LIBRARY
			 " has no %s: it is too old for this weft-worker",
			 name);
		return -ENODEV;
	}
	__builtin_memcpy(ret_fn, &p, sizeof(p));
	return 0;
}

static int look_up_all(void)
{
#define X(fn)                                                                            \
	if (look_up(cu.lib, NAME_OF(fn), &cu.fn) < 0)                                    \
		return -ENODEV;
	CUDA_DRIVER_FUNCTIONS(X)
#undef X
	return 0;
}

/* LD_LIBRARY_PATH of a program that weft-run started may be weftd's as well. */
static bool is_guest_library(void)
{
	const void *table;
	CUuuid id;

	memcpy(&id, guest_uuid, sizeof(id));
	return !cu.cuGetExportTable(&table, &id);
}

/* Without a server the driver makes a context that is not shared. */
static bool serves_mps(void)
{
	int on = 0;

	return !cu.cuDeviceGetAttribute(&on, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0) && on;
}

static void load(const struct device_config *cfg)
{
	const char *mps = cfg->shared ? cfg->mps : NULL;
	CUresult res;
	char pipe[128] = MPS_NOWHERE;
	int n = 0;

	if (mps)
		snprintf(pipe, sizeof(pipe), "%s/pipe", mps);
	setenv("CUDA_MPS_PIPE_DIRECTORY", pipe, 1);

	/* Compiled code is kept by the guest, for itself (guestlib/core/code_cache.h). */
	setenv("CUDA_CACHE_DISABLE", "1", 1);
	cu.lib = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!cu.lib) {
		snprintf(why, sizeof(why),
			 "%s: is NVIDIA's driver installed? (device = soft does without)",
			 dlerror());
		return;
	}
	if (look_up_all() < 0)
		return;
	if (!device_cuda_nests && is_guest_library()) {
		snprintf(why, sizeof(why),
			 CUDA_LIBRARY " is Weft's guest library and no driver: see "
				      "LD_LIBRARY_PATH");
		log_warning("%s", why);
		return;
	}
	res = cu.cuInit(0);
	if (!res)
		res = cu.cuDeviceGetCount(&n);
	if (res || !n) {
		snprintf(why, sizeof(why),
			 "the driver has no GPU for us (error %d, %d devices): does "
			 "nvidia-smi list one?",
			 (int)res, n);
		return;
	}
	if (cfg->shared && !serves_mps()) {
		snprintf(why, sizeof(why),
			 "class shared wants an MPS server, and there is none at %.100s: "
			 "see "
			 "mps in weftd.conf(5)",
			 mps ? mps : "any place");
		return;
	}
	load_result = 0;
}

const char *device_cuda_why(void)
{
	return *why ? why : NULL;
}

int cuda_driver_load(const struct device_config *cfg)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool loaded;

	pthread_mutex_lock(&lock);
	if (!loaded)
		load(cfg);
	loaded = true;
	pthread_mutex_unlock(&lock);
	return load_result;
}
