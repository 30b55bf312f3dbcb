/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: event sets. They can be made and waited for, as monitors do while they run, but
 * no device of ours tells of events, so nothing can be registered and nothing ever comes.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "nvml_calls.h"
#include "nvml_session.h"

struct nvml_event_set {
	int nothing;
};

enum nvml_return nvmlEventSetCreate(struct nvml_event_set **set)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_info(&info);

	if (r)
		return r;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	*set = calloc(1, sizeof(**set));
	return *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

enum nvml_return nvmlEventSetFree(struct nvml_event_set *set)
{
	free(set);
	return NVML_SUCCESS;
}

enum nvml_return nvmlEventSetWait_v2(struct nvml_event_set *set, void *data,
				     unsigned timeout_ms)
{
	struct timespec left = {.tv_sec = timeout_ms / 1000,
				.tv_nsec = timeout_ms % 1000 * 1000000l};
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_info(&info);

	if (r)
		return r;
	if (!set || !data)
		return NVML_ERROR_INVALID_ARGUMENT;
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	return NVML_ERROR_TIMEOUT;
}

enum nvml_return nvmlEventSetWait(struct nvml_event_set *set, void *data,
				  unsigned timeout_ms)
{
	return nvmlEventSetWait_v2(set, data, timeout_ms);
}

enum nvml_return nvmlDeviceGetSupportedEventTypes(const struct nvml_device *dev,
						  unsigned long long *types)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_device(dev, &info);

	if (r)
		return r;
	if (!types)
		return NVML_ERROR_INVALID_ARGUMENT;
	*types = 0;
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceRegisterEvents(const struct nvml_device *dev,
					  unsigned long long types,
					  struct nvml_event_set *set)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_device(dev, &info);

	if (r)
		return r;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	return types ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}
