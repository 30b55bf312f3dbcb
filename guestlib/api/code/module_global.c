/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of modules and libraries, by name. */
#include <string.h>

#include "base/log.h"
#include "calls.h"
#include "core/global.h"
#include "core/guest.h"
#include "core/process.h"
#include "code/module.h"
#include "object/refuse.h"

#define GLOBAL_NAME_MAX 32767 /* as the message allows, without the NUL */

static CUresult get_global(CUdeviceptr *dptr, size_t *bytes, uint64_t module,
			   const char *name, enum guest_need need)
{
	const struct module_global_rep *rep;
	struct module_global_cmd *cmd;
	struct lane_reply reply;
	struct guest_module *m;
	struct guest_thread *t;
	CUresult r = guest_enter(need, &t);
	size_t len;

	if (r)
		return r;
	if (!name || !*name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	len = strnlen(name, GLOBAL_NAME_MAX + 1);
	if (len > GLOBAL_NAME_MAX)
		return CUDA_ERROR_NOT_FOUND;
	m = module_lookup(module);
	r = m ? module_need(m) : CUDA_ERROR_INVALID_HANDLE;
	if (r)
		return r;
	cmd = begin_module_global(t, (uint32_t)len + 1);
	if (!cmd)
		return guest_lost(t);
	cmd->module = module;
	memcpy(module_global_cmd_name(cmd), name, len + 1);
	r = guest_call(t, sizeof(*rep), &reply);
	if (r)
		return r;
	rep = reply.body;
	global_remember(rep->dptr, rep->bytes);
	if (dptr)
		*dptr = rep->dptr;
	if (bytes)
		*bytes = rep->bytes;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule module,
				      const char *name)
{
	return get_global(dptr, bytes, (uintptr_t)module, name, NEED_ANY);
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				    const char *name)
{
	return get_global(dptr, bytes, (uintptr_t)library, name, NEED_ANY);
}

CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				     const char *name)
{
	struct guest_module *m = guest_object((uintptr_t)library, HANDLE_LIBRARY);
	CUresult r = guest_status();

	if (r)
		return r;
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	r = module_need_managed(m);
	if (r == CUDA_SUCCESS)
		r = get_global(dptr, bytes, m->handle, name, NEED_INIT);
	if (r == CUDA_ERROR_NOT_FOUND || r == CUDA_ERROR_NOT_SUPPORTED) {
		/* NVIDIA's runtime leaves the program without an address then, and does not
		 * say so. */
		log_warning("variable %.100s is in managed memory (__managed__), which "
			    "is not "
			    "there: the program cannot use it",
			    name);
		guest_refuse_note(REFUSAL_FEATURE, "cuLibraryGetManaged: __managed__");
	}
	return r;
}
