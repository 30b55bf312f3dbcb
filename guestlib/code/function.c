/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and attributes of a function; some attributes can be set. */
#include "calls.h"
#include "code/module.h"
#include "core/process.h"

CUresult func_param_info(struct guest_func *f, size_t index, size_t *ret_offset,
			 size_t *ret_size)
{
	if (!ret_offset || index >= f->n_params)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_offset = f->params[index].offset;
	if (ret_size)
		*ret_size = f->params[index].size;
	return CUDA_SUCCESS;
}

/* Setting it to what it is changes nothing, and cannot fail. */
static bool has_value(struct guest_func *f, CUfunction_attribute attr, int value)
{
	return (attr == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
		attr == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
		attr == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) &&
	       func_attribute(f, attr) == value;
}

/* Libraries call it before each launch with shared memory, with one value. */
CUresult func_set_attribute(struct guest_func *f, CUfunction_attribute attr, int value)
{
	struct func_set_attribute_rep rep;
	struct guest_thread *t;
	CUresult r = guest_enter(NEED_INIT, &t);
	unsigned i;

	if (r)
		return r;
	if ((unsigned)attr >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (has_value(f, attr, value))
		return guest_sticky();
	r = call_func_set_attribute(t, f->handle, (uint32_t)attr, value, &rep);
	if (r)
		return r;
	for (i = 0; i < FUNC_OCCUPANCY; i++)
		atomic_store_explicit(&f->occupancy[i], 0, memory_order_relaxed);
	atomic_store_explicit(&f->taken_cluster, 0, memory_order_relaxed);
	for (i = 0; i < FUNC_ATTRIBUTES; i++)
		atomic_store_explicit(&f->attributes[i], rep.all[i],
				      memory_order_relaxed);
	return CUDA_SUCCESS;
}
