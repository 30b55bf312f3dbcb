/* SPDX-License-Identifier: Apache-2.0 */
/* Linking at run time (cuLink*): images go to the host, the linked one comes back. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "code/image_send.h"
#include "code/linker.h"

#define LINK_NAME_MAX 4096

CUresult linker_create(struct guest_thread *t, struct guest_link *l)
{
	struct link_create_cmd *cmd = begin_link_create(t, l->jit.n_others);
	struct lane_reply reply;

	if (!cmd)
		return guest_lost(t);
	cmd->link = l->handle;
	cmd->max_registers = l->jit.max_registers;
	cmd->optimization_level = l->jit.optimization_level;
	cmd->jit_flags = l->jit.flags;
	jit_put_others(link_create_cmd_option(cmd), &l->jit);
	return guest_call(t, sizeof(struct link_create_rep), &reply);
}

CUresult linker_add(struct guest_thread *t, struct guest_link *l, CUjitInputType type,
		    uint64_t image, const char *name, struct jit_options *jit)
{
	size_t size = strlen(name) + 1;
	struct link_add_cmd *cmd;
	struct link_add_reply out;
	struct lane_reply reply;
	CUresult r;

	if (size > LINK_NAME_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	cmd = begin_link_add(t, (uint32_t)size);
	if (!cmd)
		return guest_lost(t);
	cmd->link = l->handle;
	cmd->image = image;
	cmd->input_type = (uint32_t)type;
	cmd->info_size = jit->info.room;
	cmd->error_size = jit->error.room;
	memcpy(link_add_cmd_name(cmd), name, size);
	r = guest_call(t, sizeof(struct link_add_rep), &reply);
	if (r)
		return r;
	if (link_add_reply_decode(reply.body, reply.body_size, &out) < 0)
		return guest_broken(t);
	jit_store_log(&jit->info, out.info_log, out.rep->info_log_size);
	jit_store_log(&jit->error, out.error_log, out.rep->error_log_size);
	return out.rep->status;
}

/* Returns false if there is no memory. */
static bool append(char **image, size_t at, const struct lane_reply *piece)
{
	char *more = realloc(*image, MAX(at + piece->payload_size, (size_t)1));

	if (!more)
		return false;
	memcpy(more + at, piece->payload, piece->payload_size);
	*image = more;
	return true;
}

/* Fills l->image with size bytes. Memory is for what has come, not for what a worker may
 * say that is to come. */
CUresult linker_fetch(struct guest_thread *t, struct guest_link *l, size_t size)
{
	struct link_image_cmd *cmd = begin_link_image(t);
	_cleanup_free_ char *image = NULL;
	struct lane_reply reply;
	bool room = true;
	size_t at = 0;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->link = l->handle;
	r = guest_call(t, sizeof(struct link_image_rep), &reply);
	while (r == CUDA_SUCCESS) {
		if (reply.payload_size > size - at)
			return guest_broken(t);
		room = room && append(&image, at, &reply);
		at += reply.payload_size;
		if (!reply.more)
			break;
		r = guest_next(t, sizeof(struct link_image_rep), &reply);
	}
	if (r)
		return r;
	if (at != size)
		return guest_broken(t);
	if (!room)
		return CUDA_ERROR_OUT_OF_MEMORY;
	free(l->image);
	l->image = steal(image);
	return CUDA_SUCCESS;
}

CUresult linker_complete(struct guest_thread *t, struct guest_link *l, size_t *ret_size)
{
	struct link_complete_cmd *cmd = begin_link_complete(t);
	struct link_complete_reply out;
	struct lane_reply reply;
	CUresult r;

	if (!cmd)
		return guest_lost(t);
	cmd->link = l->handle;
	cmd->info_size = l->jit.info.room;
	cmd->error_size = l->jit.error.room;
	r = guest_call(t, sizeof(struct link_complete_rep), &reply);
	if (r)
		return r;
	if (link_complete_reply_decode(reply.body, reply.body_size, &out) < 0)
		return guest_broken(t);
	jit_store_log(&l->jit.info, out.info_log, out.rep->info_log_size);
	jit_store_log(&l->jit.error, out.error_log, out.rep->error_log_size);
	*ret_size = out.rep->image_size;
	return out.rep->status;
}

CUresult linker_destroy(struct guest_thread *t, struct guest_link *l)
{
	return call_link_destroy(t, l->handle);
}

static CUresult link_only(struct guest_thread *t, struct guest_link *l,
			  CUjitInputType type, const void *data, size_t size,
			  size_t *ret_size)
{
	uint64_t image;
	CUresult r = image_send_bytes(t, data, size, &image);

	if (r == CUDA_SUCCESS)
		r = linker_add(t, l, type, image, "", &l->jit);
	if (r == CUDA_SUCCESS)
		r = linker_complete(t, l, ret_size);
	return r ? r : linker_fetch(t, l, *ret_size);
}

CUresult linker_compile(struct guest_thread *t, CUjitInputType type, const void *data,
			size_t size, const struct jit_options *jit, void **ret_code,
			size_t *ret_size)
{
	struct guest_link l = {.jit = *jit};
	size_t n = 0;
	CUresult r;

	l.handle = guest_handle_new(HANDLE_LINK, &l);
	if (!l.handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = linker_create(t, &l);
	if (r == CUDA_SUCCESS) {
		CUresult end;

		r = link_only(t, &l, type, data, size, &n);
		end = linker_destroy(t, &l);
		r = r ? r : end;
	}
	guest_handle_free(l.handle);
	if (r) {
		free(l.image);
		return r;
	}
	*ret_code = l.image;
	*ret_size = n;
	return CUDA_SUCCESS;
}
