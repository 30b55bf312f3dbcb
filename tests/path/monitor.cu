/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML beside CUDA: names, numbers and processes agree with what the driver says, a
 * process that only monitors is not listed, and utilisation is seen.
 */
#include "check.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALLOCATED (64ull << 20)
/* NVML and CUDA of a real driver differ by what is under way. */
#define SLACK (64ull << 20)

struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

static void *lib;
static void *device;

/* Calls a function by name; its arguments are pointers and numbers only. */
template <typename... A> static int nvml(const char *name, A... args)
{
	int (*fn)(A...);
	void *p = dlsym(lib, name);

	if (!p) {
		printf("no %s\n", name);
		exit(1);
	}
	memcpy(&fn, &p, sizeof(fn));
	return fn(args...);
}

__global__ void spin(long long cycles)
{
	long long start = clock64();

	while (clock64() - start < cycles)
		;
}

static bool near(unsigned long long a, unsigned long long b)
{
	return (a > b ? a - b : b - a) <= SLACK;
}

static unsigned list(struct process *v, unsigned room)
{
	REQUIRE(nvml("nvmlDeviceGetComputeRunningProcesses_v3", device, &room, v) == 0);
	return room;
}

static bool listed(int pid, unsigned long long *ret_used)
{
	struct process v[256];
	unsigned n = list(v, 256);

	for (unsigned i = 0; i < n; i++) {
		if (v[i].pid != (unsigned)pid)
			continue;
		*ret_used = v[i].used;
		return true;
	}
	return false;
}

static void open_nvml(void)
{
	REQUIRE(nvml("nvmlInit_v2") == 0);
	REQUIRE(nvml("nvmlDeviceGetHandleByIndex_v2", 0u, &device) == 0);
}

static void check_names(const cudaDeviceProp *p)
{
	char text[96], want[96];
	int n, major, minor;

	REQUIRE(nvml("nvmlDeviceGetName", device, text, 96u) == 0);
	REQUIRE(strcmp(text, p->name) == 0);
	REQUIRE(nvml("nvmlDeviceGetUUID", device, text, 96u) == 0);
	n = sprintf(want, "GPU-");
	for (int i = 0; i < 16; i++)
		n += sprintf(want + n,
			     i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			     (unsigned char)p->uuid.bytes[i]);
	REQUIRE(strcmp(text, want) == 0);
	REQUIRE(nvml("nvmlSystemGetDriverVersion", text, 96u) == 0);
	REQUIRE(atof(text) > 100);
	REQUIRE(nvml("nvmlSystemGetCudaDriverVersion_v2", &n) == 0);
	int driver;
	CK(cudaDriverGetVersion(&driver));
	REQUIRE(n == driver);
	REQUIRE(nvml("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) == 0);
	REQUIRE(major == p->major && minor == p->minor);
}

static void check_memory(void)
{
	struct memory_v2 m = {(unsigned)sizeof(m) | 2u << 24, 0, 0, 0, 0};
	unsigned long long used = 0;
	size_t free, total;

	REQUIRE(nvml("nvmlDeviceGetMemoryInfo_v2", device, &m) == 0);
	CK(cudaMemGetInfo(&free, &total));
	REQUIRE(near(m.total - m.reserved, total));
	REQUIRE(near(m.free, free));
	REQUIRE(near(m.used + m.free + m.reserved, m.total));
	REQUIRE(m.used >= ALLOCATED);
	/* A container's driver knows other numbers of processes. */
	if (listed(getpid(), &used))
		REQUIRE(used >= ALLOCATED);
	else
		printf("own process is not listed\n");
}

/* Another program that only looks. */
static void check_monitor(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		unsigned long long used;

		open_nvml();
		_exit(listed(getpid(), &used) ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void check_utilisation(void)
{
	time_t end = time(NULL) + 10;
	unsigned u[2] = {0, 0};

	while (!u[0] && time(NULL) < end) {
		spin<<<1, 32>>>(20000000);
		CK(cudaDeviceSynchronize());
		REQUIRE(nvml("nvmlDeviceGetUtilizationRates", device, u) == 0);
	}
	REQUIRE(u[0] > 0 && u[0] <= 100);
}

int main()
{
	check_name = "monitor";
	cudaDeviceProp p;
	void *mem;

	lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	REQUIRE(lib);
	CK(cudaGetDeviceProperties(&p, 0));
	CK(cudaMalloc(&mem, ALLOCATED));
	CK(cudaMemset(mem, 1, ALLOCATED));
	CK(cudaDeviceSynchronize());
	open_nvml();
	check_names(&p);
	check_memory();
	check_monitor();
	check_utilisation();
	CK(cudaFree(mem));
	REQUIRE(nvml("nvmlShutdown") == 0);
	return pass();
}
