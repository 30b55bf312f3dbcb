/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: who uses the device. Only this machine's processes are ever seen. */
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/macros.h"
#include "nvml_calls.h"
#include "nvml_session.h"

enum kind {
	KIND_COMPUTES, /* nvidia-smi's type C */
	KIND_DRAWS,    /* type G */
	KIND_ANY,
};

static void keep(struct nvml_user *l, unsigned *n, enum kind kind)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < *n; i++) {
		if (kind == KIND_ANY || l[i].draws == (kind == KIND_DRAWS))
			l[kept++] = l[i];
	}
	*n = kept;
}

/* Checks arguments and gets the list; room may be 0 to ask for the count. */
static enum nvml_return list(const struct nvml_device *dev, enum kind kind,
			     unsigned *count, const void *infos,
			     struct nvml_user **ret_list, unsigned *ret_n)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_device(dev, &info);

	if (r)
		return r;
	if (!count || (*count && !infos))
		return NVML_ERROR_INVALID_ARGUMENT;
	r = nvml_session_processes(ret_list, ret_n);
	if (!r)
		keep(*ret_list, ret_n, kind);
	return r;
}

static enum nvml_return running(const struct nvml_device *dev, enum kind kind,
				unsigned *count, struct nvml_process *infos)
{
	_cleanup_free_ struct nvml_user *l = NULL;
	unsigned i, n, room;
	enum nvml_return r = list(dev, kind, count, infos, &l, &n);

	if (r)
		return r;
	room = *count;
	*count = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (i = 0; i < n; i++)
		infos[i] = (struct nvml_process){.pid = l[i].is.pid,
						 .used_memory = l[i].is.memory_used,
						 .gpu_instance = NVML_NO_INSTANCE,
						 .compute_instance = NVML_NO_INSTANCE};
	return NVML_SUCCESS;
}

static enum nvml_return running_v1(const struct nvml_device *dev, enum kind kind,
				   unsigned *count, struct nvml_process_v1 *infos)
{
	_cleanup_free_ struct nvml_user *l = NULL;
	unsigned i, n, room;
	enum nvml_return r = list(dev, kind, count, infos, &l, &n);

	if (r)
		return r;
	room = *count;
	*count = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (i = 0; i < n; i++)
		infos[i] = (struct nvml_process_v1){.pid = l[i].is.pid,
						    .used_memory = l[i].is.memory_used};
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetComputeRunningProcesses_v3(const struct nvml_device *dev,
							 unsigned *count,
							 struct nvml_process *infos)
{
	return running(dev, KIND_COMPUTES, count, infos);
}

enum nvml_return nvmlDeviceGetComputeRunningProcesses_v2(const struct nvml_device *dev,
							 unsigned *count,
							 struct nvml_process *infos)
{
	return running(dev, KIND_COMPUTES, count, infos);
}

enum nvml_return nvmlDeviceGetComputeRunningProcesses(const struct nvml_device *dev,
						      unsigned *count,
						      struct nvml_process_v1 *infos)
{
	return running_v1(dev, KIND_COMPUTES, count, infos);
}

enum nvml_return nvmlDeviceGetGraphicsRunningProcesses_v3(const struct nvml_device *dev,
							  unsigned *count,
							  struct nvml_process *infos)
{
	return running(dev, KIND_DRAWS, count, infos);
}

enum nvml_return nvmlDeviceGetGraphicsRunningProcesses_v2(const struct nvml_device *dev,
							  unsigned *count,
							  struct nvml_process *infos)
{
	return running(dev, KIND_DRAWS, count, infos);
}

enum nvml_return nvmlDeviceGetGraphicsRunningProcesses(const struct nvml_device *dev,
						       unsigned *count,
						       struct nvml_process_v1 *infos)
{
	return running_v1(dev, KIND_DRAWS, count, infos);
}

/* There is no MPS that a guest could see. */
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

enum nvml_return nvmlDeviceGetMPSComputeRunningProcesses_v3(const struct nvml_device *dev,
							    unsigned *count,
							    struct nvml_process *infos)
{
	return nobody(dev, count);
}

/* ---- the same in other forms ---- */

static void fill_detail(struct nvml_process_detail *d, const struct wire_process_info *p)
{
	*d = (struct nvml_process_detail){.pid = p->pid,
					  .used_memory = p->memory_used,
					  .gpu_instance = NVML_NO_INSTANCE,
					  .compute_instance = NVML_NO_INSTANCE};
}

enum nvml_return nvmlDeviceGetRunningProcessDetailList(
	const struct nvml_device *dev, struct nvml_process_detail_list *out)
{
	bool draws = out && out->mode == NVML_PROCESS_MODE_GRAPHICS;
	_cleanup_free_ struct nvml_user *l = NULL;
	unsigned i, n, room;
	enum nvml_return r =
		list(dev, draws ? KIND_DRAWS : KIND_COMPUTES, out ? &out->count : NULL,
		     out ? out->processes : NULL, &l, &n);

	if (r)
		return r;
	if (out->version != NVML_PROCESS_DETAIL_LIST_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (out->mode >= NVML_PROCESS_MODE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!draws && out->mode != NVML_PROCESS_MODE_COMPUTE)
		n = 0;
	room = out->count;
	out->count = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (i = 0; i < n; i++)
		fill_detail(&out->processes[i], &l[i].is);
	return NVML_SUCCESS;
}

/* With names, which are this machine's business. */
static enum nvml_return named(const struct nvml_device *dev, enum kind kind,
			      unsigned *count, struct nvml_process_named *infos)
{
	_cleanup_free_ struct nvml_user *l = NULL;
	unsigned i, n, room;
	enum nvml_return r = list(dev, kind, count, infos, &l, &n);

	if (r)
		return r;
	room = *count;
	*count = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (i = 0; i < n; i++) {
		fill_detail(&infos[i].detail, &l[i].is);
		if (nvmlSystemGetProcessName(l[i].is.pid, infos[i].name,
					     sizeof(infos[i].name)))
			infos[i].name[0] = '\0';
	}
	return NVML_SUCCESS;
}

enum nvml_return nvml_compute_processes(const struct nvml_device *dev, unsigned *count,
					struct nvml_process_named *infos)
{
	return named(dev, KIND_COMPUTES, count, infos);
}

enum nvml_return nvml_graphics_processes(const struct nvml_device *dev, unsigned *count,
					 struct nvml_process_named *infos)
{
	return named(dev, KIND_DRAWS, count, infos);
}

enum nvml_return nvml_no_processes(const struct nvml_device *dev, unsigned *count,
				   struct nvml_process_named *infos)
{
	return nobody(dev, count);
}

/*
 * One sample of each process, of now. As the driver, NOT_FOUND if nothing is newer than
 * what the caller has seen.
 */
enum nvml_return nvmlDeviceGetProcessUtilization(const struct nvml_device *dev,
						 struct nvml_process_utilization *samples,
						 unsigned *count,
						 unsigned long long since_us)
{
	_cleanup_free_ struct nvml_user *l = NULL;
	unsigned i, n, room;
	enum nvml_return r = list(dev, KIND_ANY, count, samples, &l, &n);
	struct timespec now;

	if (r)
		return r;
	room = *count;
	*count = n;
	if (!n)
		return NVML_ERROR_NOT_FOUND;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	clock_gettime(CLOCK_REALTIME, &now);
	for (i = 0; i < n; i++)
		samples[i] = (struct nvml_process_utilization){
			.pid = l[i].is.pid,
			.timestamp_us = (unsigned long long)now.tv_sec * 1000000 +
					(unsigned long long)now.tv_nsec / 1000,
			.sm = l[i].is.gpu_percent,
			.memory = l[i].is.memory_percent,
		};
	return NVML_SUCCESS;
}
