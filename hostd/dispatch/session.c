/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "dispatch/handlers.h"
#include "ipc/msg.h"
#include "feature.h"

#define PRIORITY_LEAST    0
#define PRIORITY_GREATEST (-5)

/* Value of a device's attribute here: not all sessions can do what the device can. */
static int session_attribute(const struct session *s, unsigned attr, int value)
{
	switch (attr) {
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
	case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
		return value && s->hostmem;
	case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
		return 0; /* registered memory has another address on the device */
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
	case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
		return 0; /* calls that are class none in transport/api */
	case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
		return value & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	default:
		return value;
	}
}

static void fill_attributes(struct session *s, struct session_open_rep *rep)
{
	for (unsigned i = 1; i < ARRAY_SIZE(rep->attribute); i++) {
		int value;

		if (s->ops->attribute(s->dev, (CUdevice_attribute)i, &value) !=
		    CUDA_SUCCESS)
			continue;
		rep->attribute[i] = session_attribute(s, i, value);
		rep->attribute_known[i / 32] |= 1u << i % 32;
	}
}

int handle_session_open(struct sess_lane *sl, const struct session_open_args *a,
			struct session_open_rep *rep)
{
	struct session *s = sl->s;
	uint64_t left;

	sess_met(sl, (const char *)a->cmd->library, a->cmd->guest_features);
	rep->api = WIRE_API_HASH;
	snprintf((char *)rep->release, sizeof(rep->release), "%s", WEFT_VERSION);
	rep->device_count = 1;
	rep->driver_version = s->info.driver_version;
	rep->granularity = MAX(s->info.granularity, (unsigned)SPACE_SLAB);
	sess_memory(s, &left, &rep->memory_bytes);
	snprintf((char *)rep->name, sizeof(rep->name), "%s", s->info.name);
	memcpy(rep->uuid, s->info.uuid, sizeof(rep->uuid));
	snprintf((char *)rep->driver, sizeof(rep->driver), "%s", s->info.driver);
	rep->priority_least = PRIORITY_LEAST;
	rep->priority_greatest = PRIORITY_GREATEST;
	if (s->hostmem) {
		rep->host_base = DEVICE_HOST_BASE;
		rep->host_size = DEVICE_HOST_SIZE;
	}
	rep->features = FEATURE_APART;
	if (s->ops->link)
		rep->features |= FEATURE_COMPILES;
	if (s->touch.wants_extents)
		rep->features |= FEATURE_SOURCES;
	if (s->ops->rewrites) {
		struct device_rewrites n;

		s->ops->rewrites(s->dev, &n);
		rep->rewriter = n.version;
	}
	fill_attributes(s, rep);
	return 0;
}

int handle_operations(struct sess_lane *sl, const struct operations_args *a)
{
	struct operations_rep *rep;
	uint16_t *known;

	rep = sess_reply_begin(sl, 0, operations_rep_size(WIRE_NUM_OPS), 0, NULL);
	if (!rep)
		return -EPIPE;
	operations_rep_init(rep, WIRE_NUM_OPS);
	known = operations_rep_known(rep);
	for (unsigned i = 0; i < WIRE_NUM_OPS; i++)
		known[i] = codec_shapes[i].known;
	return sess_reply_end(sl);
}

/* Nothing here is believed but that the guest says so; it is text for the operator. */
int handle_refused(struct sess_lane *sl, const struct refused_args *a,
		   struct refused_rep *rep)
{
	uint32_t kind = a->cmd->kind;
	char what[REFUSAL_TEXT];

	static_assert(sizeof(a->cmd->what) == sizeof(what), "one length");
	memcpy(what, a->cmd->what, sizeof(what));
	if (kind == REFUSAL_DEVICE || what[sizeof(what) - 1] || !a->cmd->count)
		return -EPROTO;
	/* A newer library may have kinds of its own; the text says what it is. */
	if (kind >= REFUSAL_NUM)
		kind = REFUSAL_FEATURE;
	sess_refuse(sl->s, (enum refusal)kind, what, a->cmd->count);
	if (kind == REFUSAL_VERSION)
		sess_warn_age(sl, what);
	return 0;
}

int handle_device_status(struct sess_lane *sl, const struct device_status_args *a,
			 struct device_status_rep *rep)
{
	struct msg_tenant t;
	uint64_t left;

	sess_memory(sl->s, &left, &rep->memory_total);
	rep->memory_used = rep->memory_total - MIN(left, rep->memory_total);
	if (sess_tenant(sl->s, &t) == 0) {
		rep->gpu_percent = t.busy_percent;
		rep->memory_percent = t.memory_percent;
	}
	return 0;
}

int handle_device_sensors(struct sess_lane *sl, const struct device_sensors_args *a,
			  struct device_sensors_rep *rep)
{
	static_assert(SENSOR_NUM <= SENSOR_ROOM && ARRAY_SIZE(rep->value) == SENSOR_ROOM,
		      "all fit");

	for (unsigned i = 0; i < SENSOR_ROOM; i++)
		rep->value[i] = SENSOR_NONE;
	sl->s->ops->sensors(sl->s->dev, rep->value);
	return 0;
}

int handle_tpc_map(struct sess_lane *sl, const struct tpc_map_args *a,
		   struct tpc_map_rep *rep)
{
	struct dev_ctx *ctx = sess_ctx_dev(sl);
	struct dev_tpc_map map;

	static_assert(sizeof(rep->index) == sizeof(map.index) &&
			      sizeof(rep->gpc) == sizeof(map.gpc),
		      "all fit");
	rep->res.result = sl->s->ops->tpc_map(ctx, &map);
	if (rep->res.result)
		return 0;
	rep->n = map.n;
	/* The message's names are the wrong way round. */
	memcpy(rep->index, map.gpc, map.n);
	memcpy(rep->gpc, map.index, map.n);
	return 0;
}

int handle_process_list(struct sess_lane *sl, const struct process_list_args *a)
{
	struct process_list_rep *rep;
	struct msg_tenant t = {0};
	uint32_t n;

	(void)sess_tenant(sl->s, &t);
	n = t.n_processes;
	rep = sess_reply_begin(sl, 0, process_list_rep_size(n, n), 0, NULL);
	if (!rep)
		return -EPIPE;
	process_list_rep_init(rep, n, n);
	for (uint32_t i = 0; i < n; i++) {
		struct wire_process_info *p = process_list_rep_process(rep) + i;

		p->pid = t.processes[i].pid;
		p->session = (uint32_t)t.processes[i].session;
		p->memory_used = t.processes[i].memory;
		p->gpu_percent = t.processes[i].busy_percent;
		p->memory_percent = t.processes[i].memory_percent;
		process_list_rep_draws(rep, n)[i] = t.processes[i].draws;
	}
	return sess_reply_end(sl);
}
