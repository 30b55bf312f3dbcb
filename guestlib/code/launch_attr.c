/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of launches (cuLaunchKernelEx). What the driver refuses at the call is
 * refused here, as measured on an H200; the values go to the worker as they are.
 */
#include <string.h>

#include "calls.h"
#include "object/event.h"
#include "code/launch.h"
#include "core/process.h"

#define POLICY_MAX   CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
#define DOMAIN_MAX   CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE
#define CARVEOUT_MAX 100u /* per cent */

static CUresult ok_if(bool good)
{
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_window(const CUaccessPolicyWindow *w)
{
	int max = guest_process.device
			  .attributes[CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE];

	return ok_if(w->hitRatio >= 0 && w->hitRatio <= 1 &&
		     w->num_bytes <= (size_t)max &&
		     (unsigned)w->hitProp <= CU_ACCESS_PROPERTY_PERSISTING &&
		     (unsigned)w->missProp < CU_ACCESS_PROPERTY_PERSISTING);
}

static CUresult check_event(CUevent event, unsigned flags)
{
	struct guest_event *e = event_lookup(event);

	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(e->flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_NOT_SUPPORTED;
	event_recorded_elsewhere(e);
	return CUDA_SUCCESS;
}

static CUresult check_domains(const CUlaunchMemSyncDomainMap *m)
{
	int n = guest_process.device
			.attributes[CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT];

	return ok_if((int)m->default_ < MAX(n, 1) && (int)m->remote < MAX(n, 1));
}

CUresult launch_check_attr(const CUlaunchAttribute *a)
{
	const CUlaunchAttributeValue *v = &a->value;

	switch ((int)a->id) {
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY: /* one out of range is clamped */
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: /* with the cluster's */
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		return check_window(&v->accessPolicyWindow);
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		return ok_if((unsigned)v->clusterSchedulingPolicyPreference <=
			     POLICY_MAX);
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		return check_event(v->programmaticEvent.event,
				   (unsigned)v->programmaticEvent.flags);
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		return check_event(v->launchCompletionEvent.event,
				   (unsigned)v->launchCompletionEvent.flags);
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		return check_domains(&v->memSyncDomainMap);
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		return ok_if((unsigned)v->memSyncDomain <= DOMAIN_MAX);
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return ok_if(v->sharedMemCarveout <= CARVEOUT_MAX);
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return ok_if(v->nvlinkUtilCentricScheduling <= 1);
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		return CUDA_ERROR_NOT_SUPPORTED; /* of graphs' nodes only */
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* A larger cluster that the device may use instead where it fits. */
static CUresult check_preferred(const CUlaunchAttribute *a, const struct launch *l)
{
	const unsigned want[3] = {a->value.preferredClusterDim.x,
				  a->value.preferredClusterDim.y,
				  a->value.preferredClusterDim.z};
	unsigned i;

	if (!want[0] && !want[1] && !want[2])
		return CUDA_SUCCESS;
	for (i = 0; i < 3; i++) {
		if (!l->cluster[i] || !want[i] || want[i] % l->cluster[i] ||
		    l->grid[i] % want[i])
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	}
	return CUDA_SUCCESS;
}

static CUresult take_cluster(const CUlaunchAttribute *a, struct launch *l)
{
	const unsigned dim[3] = {a->value.clusterDim.x, a->value.clusterDim.y,
				 a->value.clusterDim.z};

	if ((dim[0] || dim[1] || dim[2]) && !(dim[0] && dim[1] && dim[2]))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	memcpy(l->cluster, dim, sizeof(dim));
	return CUDA_SUCCESS;
}

/* Keeps an attribute; a later one of the same name replaces an earlier one. */
static CUresult keep(const CUlaunchAttribute *a, struct launch_attrs *attrs)
{
	unsigned i = 0;

	while (i < attrs->n && attrs->v[i]->id != a->id)
		i++;
	if (i == LAUNCH_ATTRS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	attrs->v[i] = a;
	attrs->n = MAX(attrs->n, i + 1);
	return CUDA_SUCCESS;
}

static CUresult take(const CUlaunchAttribute *a, struct launch *l,
		     struct launch_attrs *attrs)
{
	CUresult r;

	switch ((int)a->id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		l->cooperative = a->value.cooperative != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		return take_cluster(a, l);
	}
	r = launch_check_attr(a);
	return r ? r : keep(a, attrs);
}

CUresult launch_parse_attrs(const CUlaunchAttribute *v, unsigned n, struct launch *l,
			    struct launch_attrs *attrs)
{
	unsigned i;
	CUresult r;

	attrs->n = 0;
	for (i = 0; i < n; i++) {
		r = take(&v[i], l, attrs);
		if (r)
			return r;
	}
	for (i = 0; i < attrs->n; i++) {
		if (attrs->v[i]->id != CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION)
			continue;
		r = check_preferred(attrs->v[i], l);
		if (r)
			return r;
	}
	l->attrs = attrs->n ? attrs : NULL;
	return CUDA_SUCCESS;
}

void launch_put_attr(struct wire_launch_attr *w, const CUlaunchAttribute *a)
{
	CUlaunchAttributeValue value = a->value;

	static_assert(sizeof(value) == sizeof(w->value), "an attribute as it travels");
	w->id = (uint32_t)a->id;
	w->zero = 0;
	w->event = 0;
	if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
		w->event = (uintptr_t)value.programmaticEvent.event;
		value.programmaticEvent.event = NULL;
	} else if (a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
		w->event = (uintptr_t)value.launchCompletionEvent.event;
		value.launchCompletionEvent.event = NULL;
	}
	memcpy(w->value, &value, sizeof(value));
}

CUresult launch_parse_config(const CUlaunchConfig *config, struct launch *l,
			     struct launch_attrs *attrs)
{
	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	l->grid[0] = config->gridDimX;
	l->grid[1] = config->gridDimY;
	l->grid[2] = config->gridDimZ;
	l->block[0] = config->blockDimX;
	l->block[1] = config->blockDimY;
	l->block[2] = config->blockDimZ;
	l->shared_bytes = config->sharedMemBytes;
	l->stream = config->hStream;
	return config->numAttrs
		       ? launch_parse_attrs(config->attrs, config->numAttrs, l, attrs)
		       : CUDA_SUCCESS;
}
