/* SPDX-License-Identifier: Apache-2.0 */
/* libnvidia-ml.so.1 against the worker that takes note. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"
#include "nvml/nvml_calls.h"
#include "refusal.h"

static struct nvml_device *start(void)
{
	struct nvml_device *dev = NULL;

	fake_start(true);
	cr_assert_eq(nvmlInit_v2(), NVML_SUCCESS);
	cr_assert_eq(nvmlDeviceGetHandleByIndex_v2(0, &dev), NVML_SUCCESS);
	return dev;
}

Test(guest_nvml, no_host)
{
	unsigned n;
	int version = 0;

	setenv("WEFT_HOST", "unix:/nonexistent/weft.sock", 1);
	cr_expect_eq(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	cr_expect_eq(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
	cr_expect_eq(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	cr_expect_eq(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	cr_expect_eq(nvmlSystemGetCudaDriverVersion_v2(&version), NVML_SUCCESS);
	cr_expect_eq(version, 13000);
	cr_expect_str_eq(nvmlErrorString(NVML_ERROR_DRIVER_NOT_LOADED),
			 "Driver Not Loaded");
}

Test(guest_nvml, users_are_counted)
{
	unsigned n = 0;

	start();
	cr_expect_eq(nvmlInitWithFlags(0), NVML_SUCCESS);
	cr_expect_eq(nvmlInitWithFlags(64), NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlShutdown(), NVML_SUCCESS);
	cr_expect_eq(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	cr_expect_eq(n, 1);
	cr_expect_eq(nvmlShutdown(), NVML_SUCCESS);
	cr_expect_eq(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	cr_expect_eq(nvmlInit_v2(), NVML_SUCCESS, "and again");
	cr_expect_eq(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
}

Test(guest_nvml, reaches_itself)
{
	struct nvml_device *dev = start();
	unsigned status = 7;

	cr_expect_eq(nvmlDeviceGetP2PStatus(dev, dev, 0, &status), NVML_SUCCESS);
	cr_expect_eq(status, NVML_P2P_STATUS_OK);
	cr_expect_eq(nvmlDeviceGetP2PStatus(dev, dev, 6, &status),
		     NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlDeviceGetP2PStatus(dev, NULL, 0, &status),
		     NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlDeviceGetP2PStatus(dev, dev, 0, NULL),
		     NVML_ERROR_INVALID_ARGUMENT);
}

Test(guest_nvml, what_it_is)
{
	struct nvml_device *dev = start(), *other = NULL;
	struct nvml_pci_info pci;
	char text[NVML_UUID_TEXT], tiny[4];
	int major = 0, minor = 0, arch = 0;

	cr_expect_eq(nvmlDeviceGetName(dev, text, sizeof(text)), NVML_SUCCESS);
	cr_expect_str_eq(text, "Fake GPU");
	cr_expect_eq(nvmlDeviceGetName(dev, tiny, sizeof(tiny)),
		     NVML_ERROR_INSUFFICIENT_SIZE);
	cr_expect_eq(nvmlDeviceGetName(NULL, text, sizeof(text)),
		     NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlDeviceGetUUID(dev, text, sizeof(text)), NVML_SUCCESS);
	cr_expect_str_eq(text, "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
	cr_expect_eq(nvmlDeviceGetHandleByUUID(text, &other), NVML_SUCCESS);
	cr_expect_eq(other, dev);
	text[5] ^= 1;
	cr_expect_eq(nvmlDeviceGetHandleByUUID(text, &other), NVML_ERROR_NOT_FOUND);
	cr_expect_eq(nvmlDeviceGetHandleByIndex_v2(1, &other),
		     NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlDeviceGetPciInfo_v3(dev, &pci), NVML_SUCCESS);
	cr_expect_str_eq(pci.bus_id, "00000000:07:00.0");
	cr_expect_str_eq(pci.bus_id_legacy, "0000:07:00.0");
	cr_expect_eq(nvmlDeviceGetHandleByPciBusId_v2(pci.bus_id, &other), NVML_SUCCESS);
	cr_expect_eq(nvmlDeviceGetHandleByPciBusId_v2("0000:08:00.0", &other),
		     NVML_ERROR_NOT_FOUND);
	cr_expect_eq(nvmlDeviceGetCudaComputeCapability(dev, &major, &minor),
		     NVML_SUCCESS);
	cr_expect_eq(major, 9);
	cr_expect_eq(nvmlDeviceGetArchitecture(dev, &arch), NVML_SUCCESS);
	cr_expect_eq(arch, NVML_DEVICE_ARCH_HOPPER);
}

Test(guest_nvml, how_it_is)
{
	struct nvml_device *dev = start();
	struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
	struct nvml_utilization u;
	struct nvml_memory mem;
	unsigned value = 0;

	cr_expect_eq(nvmlDeviceGetMemoryInfo(dev, &mem), NVML_SUCCESS);
	cr_expect_eq(mem.total, FAKE_HEAP_SIZE);
	cr_expect_eq(mem.used, 4096);
	cr_expect_eq(mem.free, FAKE_HEAP_SIZE - 4096);
	cr_expect_eq(nvmlDeviceGetMemoryInfo_v2(dev, &v2), NVML_SUCCESS);
	cr_expect_eq(v2.used, 4096);
	v2.version = 1;
	cr_expect_eq(nvmlDeviceGetMemoryInfo_v2(dev, &v2),
		     NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	cr_expect_eq(nvmlDeviceGetUtilizationRates(dev, &u), NVML_SUCCESS);
	cr_expect_eq(u.gpu, 55);
	cr_expect_eq(nvmlDeviceGetTemperature(dev, 0, &value), NVML_ERROR_NOT_SUPPORTED);
	cr_expect_eq(nvmlDeviceGetPowerUsage(dev, &value), NVML_SUCCESS);
	cr_expect_eq(value, 7000);
	cr_expect_eq(nvmlDeviceGetMemoryInfo(dev, NULL), NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlDeviceGetClockInfo(dev, NVML_CLOCK_SM, &value), NVML_SUCCESS);
	cr_expect_eq(value, 345);
	cr_expect_eq(nvmlDeviceGetClockInfo(dev, NVML_CLOCK_MEM, &value),
		     NVML_ERROR_NOT_SUPPORTED);
	cr_expect_eq(nvmlDeviceGetClockInfo(dev, NVML_CLOCK_COUNT, &value),
		     NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlDeviceGetPowerUsage(dev, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

Test(guest_nvml, versions_are_the_host_s)
{
	char text[80];
	int version = 0;

	cr_expect_eq(nvmlSystemGetDriverVersion(text, sizeof(text)),
		     NVML_ERROR_UNINITIALIZED);
	start();
	cr_expect_eq(nvmlSystemGetDriverVersion(text, sizeof(text)), NVML_SUCCESS);
	cr_expect_str_eq(text, "571.2.3");
	cr_expect_eq(nvmlSystemGetDriverVersion(text, 3), NVML_ERROR_INSUFFICIENT_SIZE);
	cr_expect_eq(nvmlSystemGetNVMLVersion(text, sizeof(text)), NVML_SUCCESS);
	cr_expect_str_eq(text, "13.571.2.3");
	cr_expect_eq(nvmlSystemGetCudaDriverVersion(&version), NVML_SUCCESS);
	cr_expect_eq(version, 13000);
}

Test(guest_nvml, processes_of_the_tenant_are_listed)
{
	struct nvml_device *dev = start();
	struct nvml_process list[4];
	unsigned n = 0;

	cr_expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, NULL),
		     NVML_ERROR_INSUFFICIENT_SIZE);
	cr_expect_eq(n, 2);
	n = 4;
	cr_expect_eq(nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, list),
		     NVML_SUCCESS);
	cr_expect_eq(n, 2);
	cr_expect_eq(list[1].pid, 102);
	cr_expect_eq(list[1].used_memory, 2048);
	cr_expect_eq(list[1].gpu_instance, NVML_NO_INSTANCE);
	n = 0;
	cr_expect_eq(nvmlDeviceGetGraphicsRunningProcesses_v3(dev, &n, NULL),
		     NVML_ERROR_INSUFFICIENT_SIZE);
	cr_expect_eq(nvmlDeviceGetGraphicsRunningProcesses_v3(dev, &n, list),
		     NVML_SUCCESS);
	cr_expect(n == 1 && list[0].pid == 103 && list[0].used_memory == 4096);
}

Test(guest_nvml, host_dies)
{
	struct nvml_device *dev = start();
	struct nvml_memory mem;

	fake_kill(fake_get());
	cr_expect_eq(nvmlDeviceGetMemoryInfo(dev, &mem), NVML_ERROR_GPU_IS_LOST);
	cr_expect_eq(nvmlDeviceGetMemoryInfo(dev, &mem), NVML_ERROR_GPU_IS_LOST);
	cr_expect_eq(nvmlShutdown(), NVML_SUCCESS);
}

Test(guest_nvml, a_child_initialises_nvml_anew)
{
	unsigned n = 0;
	int status = -1;
	pid_t pid;

	start();
	pid = fork();
	if (pid == 0)
		_exit(nvmlDeviceGetCount_v2(&n) == NVML_ERROR_UNINITIALIZED &&
				      nvmlInit_v2() == NVML_SUCCESS &&
				      nvmlDeviceGetCount_v2(&n) == NVML_SUCCESS && n == 1
			      ? 0
			      : 1);
	waitpid(pid, &status, 0);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_expect_eq(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
}

Test(guest_nvml, processes_in_other_forms)
{
	struct nvml_process_detail details[4];
	struct nvml_process_detail_list list = {
		.version = NVML_PROCESS_DETAIL_LIST_V1, .count = 4, .processes = details};
	struct nvml_process_utilization u[4];
	struct nvml_device *dev = start();
	unsigned n = 4;

	cr_expect_eq(nvmlDeviceGetRunningProcessDetailList(dev, &list), NVML_SUCCESS);
	cr_expect_eq(list.count, 2);
	cr_expect_eq(details[0].pid, 101);
	list.mode = 1;
	cr_expect_eq(nvmlDeviceGetRunningProcessDetailList(dev, &list), NVML_SUCCESS);
	cr_expect(list.count == 1 && details[0].pid == 103, "one draws");
	list.version = 3;
	cr_expect_eq(nvmlDeviceGetRunningProcessDetailList(dev, &list),
		     NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	cr_expect_eq(nvmlDeviceGetProcessUtilization(dev, u, &n, 0), NVML_SUCCESS);
	cr_expect_eq(n, 3);
	cr_expect_eq(u[2].pid, 102);
	cr_expect_eq(u[2].sm, 30);
}

Test(guest_nvml, each_field_has_its_own_result)
{
	struct nvml_field_value v[3] = {
		{.field = 82}, {.field = 186}, {.field = 186, .scope = 1}};
	struct nvml_device *dev = start();

	cr_expect_eq(nvmlDeviceGetFieldValues(dev, 3, v), NVML_SUCCESS);
	cr_expect_eq(v[0].result, NVML_ERROR_NOT_SUPPORTED);
	cr_expect_eq(v[1].result, NVML_SUCCESS);
	cr_expect_eq(v[1].value, 7500);
	cr_expect_eq(v[2].result, NVML_ERROR_NOT_SUPPORTED);
	cr_expect_eq(nvmlDeviceGetFieldValues(dev, 0, v), NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlDeviceGetFieldValues(dev, 3, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

Test(guest_nvml, events_never_come)
{
	struct nvml_device *dev = start();
	struct nvml_event_set *set = NULL;
	unsigned long long types = 1;
	char data[64];

	cr_expect_eq(nvmlEventSetCreate(&set), NVML_SUCCESS);
	cr_expect_eq(nvmlDeviceGetSupportedEventTypes(dev, &types), NVML_SUCCESS);
	cr_expect_eq(types, 0);
	cr_expect_eq(nvmlDeviceRegisterEvents(dev, 8, set), NVML_ERROR_NOT_SUPPORTED);
	cr_expect_eq(nvmlEventSetWait_v2(set, data, 10), NVML_ERROR_TIMEOUT);
	cr_expect_eq(nvmlEventSetFree(set), NVML_SUCCESS);
}

/* nvidia-smi's private table: what it was seen to ask for. */
/* Waits for n refusals, which are posted: the worker takes note of them when it gets
 * there. */
static void wait_refusals(struct fake *f, unsigned n)
{
	for (int i = 0; f->refusals < n && i < 5000; i++)
		usleep(1000);
	cr_assert_eq(f->refusals, n);
}

Test(guest_nvml, private_table)
{
	static const uint8_t uuid[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
					 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
	static const uint8_t other[16] = {1};
	struct nvml_process_named *named = calloc(4, sizeof(*named));
	struct nvml_process_samples samples[100];
	unsigned type = 0, sm[3] = {0}, memory[3] = {0};
	struct nvml_device *dev = start();
	struct fake *f = fake_get();
	const void *table = NULL;
	void *const *slot;
	unsigned n = 4;
	char text[16];

	cr_assert_eq(nvmlInternalGetExportTable(&table, uuid), NVML_SUCCESS);
	slot = table;
	cr_expect_eq((uintptr_t)slot[0], 270 * sizeof(void *));
	for (unsigned i = 1; i < 270; i++)
		cr_assert_not_null(slot[i]);
	cr_expect_eq(((int (*)(unsigned, char *))slot[81])(0, text), NVML_SUCCESS);
	cr_expect_str_eq(text, "0000:07:00.0");
	cr_expect_eq(((int (*)(struct nvml_device *, unsigned *,
			       struct nvml_process_named *))slot[213])(dev, &n, named),
		     NVML_SUCCESS);
	cr_expect_eq(n, 2);
	cr_expect_eq(named[1].detail.pid, 102);
	n = 100;
	cr_expect_eq(((int (*)(struct nvml_device *, unsigned long long, unsigned *,
			       unsigned *, struct nvml_process_samples *))slot[145])(
			     dev, 0, &type, &n, samples),
		     NVML_SUCCESS);
	cr_expect_eq(n, 100);
	for (unsigned i = 0; i < n; i++) {
		unsigned who = samples[i].of[0].pid - 101;

		cr_assert_lt(who, 3);
		sm[who] += (unsigned)samples[i].of[0].percent;
		memory[who] += (unsigned)samples[i].of[1].percent;
		cr_expect_eq(samples[i].of[2].pid, NVML_NO_PROCESS);
	}
	cr_expect(sm[0] == 20 * n && sm[1] == 30 * n);
	cr_expect(memory[0] == 5 * n && memory[1] == 6 * n);
	cr_expect_eq(f->refusals, 0);
	cr_expect_eq(((int (*)(void))slot[3])(), NVML_ERROR_NOT_SUPPORTED);
	wait_refusals(f, 1);
	cr_expect_str_eq((const char *)fake_last_refusal().what, "nvml_table[3]");
	cr_expect_eq(nvmlInternalGetExportTable(&table, other),
		     NVML_ERROR_INVALID_ARGUMENT);
	wait_refusals(f, 2);
	cr_expect_eq(fake_last_refusal().kind, REFUSAL_TABLE);
	free(named);
}

Test(guest_nvml, wide_sensors)
{
	struct nvml_device *dev = start();
	unsigned long long v = 0;

	cr_expect_eq(nvmlDeviceGetTotalEccErrors(dev, 1, 0, &v), NVML_SUCCESS);
	cr_expect_eq(v, 3);
	cr_expect_eq(nvmlDeviceGetTotalEccErrors(dev, 0, 1, &v),
		     NVML_ERROR_NOT_SUPPORTED);
	cr_expect_eq(nvmlDeviceGetTotalEccErrors(dev, 2, 0, &v),
		     NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlDeviceGetTotalEccErrors(dev, 1, 0, NULL),
		     NVML_ERROR_INVALID_ARGUMENT);
	cr_expect_eq(nvmlDeviceGetSupportedClocksThrottleReasons(dev, &v), NVML_SUCCESS);
	cr_expect_eq(v, 0x1ff);
	cr_expect_eq(nvmlDeviceGetTotalEnergyConsumption(dev, &v), NVML_SUCCESS);
	cr_expect_eq(v, 0x7ffffffffull);
}
