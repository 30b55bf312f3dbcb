/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "calls.h"
#include "core/known.h"
#include "core/pages.h"
#include "core/session.h"
#include "feature.h"

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
	ret->rewriter = rep->rewriter;
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
	/* Without a window it is this process that has to be able to. */
	if (!ret->host_size && pages_can_take())
		ret->attributes[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1;
}

static CUresult learn_operations(struct guest_thread *t)
{
	struct operations_cmd *cmd = begin_operations(t);
	struct lane_reply reply;
	CUresult r;
	int e;

	if (!cmd)
		return guest_lost(t);
	r = guest_call(t, sizeof(struct operations_rep), &reply);
	if (r)
		return r;
	e = known_keep(guest_process.link, reply.body, reply.body_size);
	return e == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
	       : e < 0      ? guest_broken(t)
			    : CUDA_SUCCESS;
}

CUresult session_open(struct guest_thread *t, struct guest_device *ret_device,
		      unsigned *ret_n_devices)
{
	struct session_open_cmd *cmd = begin_session_open(t);
	struct session_open_rep rep;
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	known_introduce(cmd, GUEST_FEATURE_OUTPUT);
	r = guest_call(t, sizeof(rep), &reply);
	if (r)
		return r;
	memcpy(&rep, reply.body, sizeof(rep));
	if (known_differs(&rep)) {
		r = learn_operations(t);
		if (r)
			return r;
	}
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
