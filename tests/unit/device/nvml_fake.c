/* SPDX-License-Identifier: Apache-2.0 */
/* As much of the host's NVML as lists processes: of as many as the test says, of which
 * the last is this one. */
#include <string.h>
#include <unistd.h>

#include "nvml_fake.h"

#define INSUFFICIENT_SIZE 7
#define EXPORT            __attribute__((visibility("default")))

struct fake_nvml fake_nvml EXPORT = {.processes = 1};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **ret_handle);
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count,
					    struct fake_holder *ret);
int nvmlDeviceGetProcessUtilization(void *handle, struct fake_sample *ret,
				    unsigned *count, unsigned long long since);

EXPORT int nvmlInit_v2(void)
{
	return 0;
}

EXPORT int nvmlShutdown(void)
{
	return 0;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **ret_handle)
{
	*ret_handle = &fake_nvml;
	return 0;
}

static unsigned pid_of(unsigned i)
{
	return i == fake_nvml.processes - 1 ? (unsigned)getpid() : 1u << 30 | i;
}

static bool has_room(unsigned *count)
{
	bool room = *count >= fake_nvml.processes;

	*count = fake_nvml.processes;
	return room;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count,
						   struct fake_holder *ret)
{
	fake_nvml.asked++;
	if (!has_room(count))
		return INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < *count; i++)
		ret[i] = (struct fake_holder){.pid = pid_of(i), .bytes = 1000 + i};
	return 0;
}

EXPORT int nvmlDeviceGetProcessUtilization(void *handle, struct fake_sample *ret,
					   unsigned *count, unsigned long long since)
{
	fake_nvml.sampled++;
	if (!has_room(count))
		return INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < *count; i++)
		ret[i] = (struct fake_sample){.pid = pid_of(i), .at_us = 5, .sm = 40};
	return 0;
}
