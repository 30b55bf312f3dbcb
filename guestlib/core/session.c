/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "base/log.h"
#include "calls.h"
#include "core/session.h"

static void keep_device(const struct session_open_rep *rep, struct guest_device *ret)
{
	unsigned i;

	static_assert(sizeof(ret->name) == sizeof(rep->name), "names fit");
	static_assert(ARRAY_SIZE(ret->attributes) == ARRAY_SIZE(rep->attribute),
		      "attributes fit");
	memcpy(ret->name, rep->name, sizeof(ret->name));
	ret->name[sizeof(ret->name) - 1] = '\0';
	memcpy(ret->uuid, rep->uuid, sizeof(ret->uuid));
	memcpy(ret->driver, rep->driver, sizeof(ret->driver));
	ret->driver[sizeof(ret->driver) - 1] = '\0';
	ret->features = rep->features;
	ret->memory_bytes = rep->memory_bytes;
	ret->granularity = rep->granularity;
	ret->host_base = rep->host_base;
	ret->host_size = rep->host_size;
	ret->priority_least = rep->priority_least;
	ret->priority_greatest = rep->priority_greatest;
	for (i = 0; i < GUEST_ATTRIBUTES; i++)
		ret->attributes[i] = rep->attribute_known[i / 32] >> (i % 32) & 1
					     ? rep->attribute[i]
					     : INT_MIN;
}

CUresult session_open(struct guest_thread *t, struct guest_device *ret_device,
		      unsigned *ret_n_devices)
{
	struct session_open_rep rep;
	CUresult r = call_session_open(t, WIRE_API_HASH, &rep);

	if (r == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
		log_warning("the host speaks another version of the API (ours is %08x)",
			    WIRE_API_HASH);
	if (r)
		return r;
	keep_device(&rep, ret_device);
	*ret_n_devices = rep.device_count ? 1 : 0;
	return CUDA_SUCCESS;
}

CUresult session_set_current(struct guest_thread *t, uint64_t ctx)
{
	struct ctx_set_current_cmd *cmd = begin_ctx_set_current(t);

	if (!cmd)
		return guest_lost(t);
	cmd->ctx = ctx;
	return guest_post(t);
}
