// SPDX-License-Identifier: Apache-2.0
/* NVML: who uses the device. Only this machine's processes are ever seen. */
#include <stdlib.h>

#include "base/macros.h"
#include "nvml_calls.h"
#include "nvml_session.h"

/* Checks arguments and gets the list; room may be 0 to ask for the count. */
static enum nvml_return list(const struct nvml_device *dev, unsigned *count,
			     const void *infos, struct wire_process_info **ret_list,
			     unsigned *ret_n)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_device(dev, &info);

	if (r)
		return r;
	if (!count || (*count && !infos))
		return NVML_ERROR_INVALID_ARGUMENT;
	return nvml_session_processes(ret_list, ret_n);
}

enum nvml_return nvmlDeviceGetComputeRunningProcesses_v3(const struct nvml_device *dev,
							 unsigned *count,
							 struct nvml_process *infos)
{
	_cleanup_free_ struct wire_process_info *l = NULL;
	unsigned i, n, room;
	enum nvml_return r = list(dev, count, infos, &l, &n);

	if (r)
		return r;
	room = *count;
	*count = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (i = 0; i < n; i++)
		infos[i] = (struct nvml_process){.pid = l[i].pid,
						 .used_memory = l[i].memory_used,
						 .gpu_instance = NVML_NO_INSTANCE,
						 .compute_instance = NVML_NO_INSTANCE};
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetComputeRunningProcesses_v2(const struct nvml_device *dev,
							 unsigned *count,
							 struct nvml_process *infos)
{
	return nvmlDeviceGetComputeRunningProcesses_v3(dev, count, infos);
}

enum nvml_return nvmlDeviceGetComputeRunningProcesses(const struct nvml_device *dev,
						      unsigned *count,
						      struct nvml_process_v1 *infos)
{
	_cleanup_free_ struct wire_process_info *l = NULL;
	unsigned i, n, room;
	enum nvml_return r = list(dev, count, infos, &l, &n);

	if (r)
		return r;
	room = *count;
	*count = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (i = 0; i < n; i++)
		infos[i] = (struct nvml_process_v1){.pid = l[i].pid,
						    .used_memory = l[i].memory_used};
	return NVML_SUCCESS;
}

/* There is nothing that draws, and no MPS that a guest could see. */
static enum nvml_return nobody(const struct nvml_device *dev, unsigned *count)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_device(dev, &info);

	if (r)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetGraphicsRunningProcesses_v3(const struct nvml_device *dev,
							  unsigned *count,
							  struct nvml_process *infos)
{
	return nobody(dev, count);
}

enum nvml_return nvmlDeviceGetGraphicsRunningProcesses_v2(const struct nvml_device *dev,
							  unsigned *count,
							  struct nvml_process *infos)
{
	return nobody(dev, count);
}

enum nvml_return nvmlDeviceGetGraphicsRunningProcesses(const struct nvml_device *dev,
						       unsigned *count,
						       struct nvml_process_v1 *infos)
{
	return nobody(dev, count);
}

enum nvml_return nvmlDeviceGetMPSComputeRunningProcesses_v3(const struct nvml_device *dev,
							    unsigned *count,
							    struct nvml_process *infos)
{
	return nobody(dev, count);
}
