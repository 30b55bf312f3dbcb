/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of kernel nodes: cooperative and cluster dimension are fields of the launch,
 * the others are kept as they were given and go to the device with the node.
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "graph/graph.h"
#include "graph/op.h"

#define HINTS_SIZE (CU_LAUNCH_ATTRIBUTE_MAX * sizeof(CUkernelNodeAttrValue))

/* True for attributes that can be read from a node and set on it. */
bool graph_kernel_attr_ok(CUkernelNodeAttrID attr)
{
	switch ((int)attr) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return true;
	}
	return false;
}

/* Default of an attribute, as an H200 tells it. */
static void attr_default(CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value)
{
	if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
		value->clusterSchedulingPolicyPreference =
			CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
	if (attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
		value->memSyncDomainMap.remote = 1;
}

void graph_kernel_attr_read(const struct graph_kernel *k, CUkernelNodeAttrID attr,
			    CUkernelNodeAttrValue *value)
{
	memset(value, 0, sizeof(*value));
	if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
		value->cooperative = k->launch.cooperative;
	} else if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
		value->clusterDim.x = k->launch.cluster[0];
		value->clusterDim.y = k->launch.cluster[1];
		value->clusterDim.z = k->launch.cluster[2];
	} else if (k->hints_set & 1u << attr) {
		*value = k->hints[attr];
	} else {
		attr_default(attr, value);
	}
}

static CUresult hint(struct graph_kernel *k, CUkernelNodeAttrID attr,
		     const CUkernelNodeAttrValue *value)
{
	static_assert(CU_LAUNCH_ATTRIBUTE_MAX <= 32, "a bit for each attribute");
	if (!k->hints)
		k->hints = calloc(1, HINTS_SIZE);
	if (!k->hints)
		return CUDA_ERROR_OUT_OF_MEMORY;
	k->hints[attr] = *value;
	k->hints_set |= 1u << attr;
	return CUDA_SUCCESS;
}

CUresult graph_kernel_attr_write(struct graph_kernel *k, CUkernelNodeAttrID attr,
				 const CUkernelNodeAttrValue *value)
{
	if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
		k->launch.cooperative = value->cooperative != 0;
		return CUDA_SUCCESS;
	}
	if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
		k->launch.cluster[0] = value->clusterDim.x;
		k->launch.cluster[1] = value->clusterDim.y;
		k->launch.cluster[2] = value->clusterDim.z;
		return CUDA_SUCCESS;
	}
	return hint(k, attr, value);
}

CUresult graph_kernel_attrs_copy(struct graph_kernel *to, const struct graph_kernel *from)
{
	if (to == from)
		return CUDA_SUCCESS;
	to->launch.cooperative = from->launch.cooperative;
	memcpy(to->launch.cluster, from->launch.cluster, sizeof(to->launch.cluster));
	free(to->hints);
	to->hints = NULL;
	to->hints_set = 0;
	to->early = from->early;
	if (!from->hints)
		return CUDA_SUCCESS;
	to->hints = malloc(HINTS_SIZE);
	if (!to->hints)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(to->hints, from->hints, HINTS_SIZE);
	to->hints_set = from->hints_set;
	return CUDA_SUCCESS;
}

/* Adds the attributes of a launch that is captured. Events of its own it cannot record
 * then. */
CUresult graph_kernel_attrs_launch(struct graph_kernel *k,
				   const struct launch_attrs *attrs)
{
	CUresult r = CUDA_SUCCESS;
	unsigned i;

	for (i = 0; attrs && i < attrs->n && r == CUDA_SUCCESS; i++) {
		const CUlaunchAttribute *a = attrs->v[i];

		if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
		    a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
			r = CUDA_ERROR_NOT_SUPPORTED;
		else if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
			k->early = a->value.programmaticStreamSerializationAllowed != 0;
		else if (graph_kernel_attr_ok(a->id))
			r = hint(k, a->id, &a->value);
	}
	return r;
}

CUresult graph_kernel_priority(struct graph_kernel *k, int priority)
{
	const CUkernelNodeAttrValue v = {.priority = priority};

	if (!priority || (k->hints_set & 1u << CU_LAUNCH_ATTRIBUTE_PRIORITY))
		return CUDA_SUCCESS;
	return hint(k, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v);
}

/* ---- sending ---- */

unsigned graph_kernel_attrs_count(const struct graph_kernel *k)
{
	return (unsigned)__builtin_popcount(k->hints_set);
}

void graph_kernel_attrs_put(const struct graph_kernel *k, struct wire_launch_attr *w)
{
	CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_IGNORE};
	unsigned i;

	for (i = 0; i < CU_LAUNCH_ATTRIBUTE_MAX; i++) {
		if (!(k->hints_set & 1u << i))
			continue;
		a.id = (CUlaunchAttributeID)i;
		a.value = k->hints[i];
		launch_put_attr(w++, &a);
	}
}
