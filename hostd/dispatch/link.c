/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking at run time. Each input is loaded once, which gives the caller the compiler's
 * messages at cuLinkAddData() as CUDA does; the result of a link of one input is that
 * input.
 */
#include "dispatch/handlers.h"

#define LOG_MAX    28672u
#define INPUTS_MAX 256u

struct sess_link {
	struct sess_obj obj;
	pthread_mutex_t lock;
	struct image inputs[INPUTS_MAX];
	unsigned n_inputs;
	bool complete;
	uint32_t max_registers, jit_flags;
	int32_t optimization_level;
};

static void link_fini(struct session *s, struct sess_obj *o)
{
	struct sess_link *l = container_of(o, struct sess_link, obj);

	for (unsigned i = 0; i < l->n_inputs; i++)
		free(l->inputs[i].data);
	pthread_mutex_destroy(&l->lock);
}

int handle_link_create(struct sess_lane *sl, const struct link_create_args *a,
		       struct link_create_rep *rep)
{
	struct sess_link *l;

	need_ctx(sl, rep);
	l = obj_new(HANDLE_LINK, a->cmd->link, sizeof(*l), sl->ctx, link_fini);
	if (!l) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	pthread_mutex_init(&l->lock, NULL);
	l->max_registers = a->cmd->max_registers;
	l->jit_flags = a->cmd->jit_flags;
	l->optimization_level = a->cmd->optimization_level;
	return publish(sl, &l->obj, &rep->res.result);
}

int handle_link_destroy(struct sess_lane *sl, const struct link_destroy_args *a,
			struct link_destroy_rep *rep)
{
	struct sess_obj *o = obj_take(sl->s, HANDLE_LINK, a->cmd->link);

	if (!o)
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
	obj_put(sl->s, o);
	return 0;
}

struct link_logs {
	struct dev_jit jit;
	char info[LOG_MAX], error[LOG_MAX];
};

/* Loads the input to see whether it is right, and forgets the module. */
static CUresult try_input(struct session *s, struct sess_link *l, const struct image *img,
			  struct link_logs *logs)
{
	struct dev_module *m;
	CUresult r;

	logs->jit.max_registers = l->max_registers;
	logs->jit.optimization_level =
		l->optimization_level < 0 ? 4 : l->optimization_level;
	r = s->ops->module_load(l->obj.ctx->dev, img->data, img->size, &logs->jit, &m);
	if (r == CUDA_SUCCESS)
		s->ops->module_unload(m);
	return r;
}

static CUresult keep_input(struct sess_link *l, struct image *img)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&l->lock);
	if (!l->complete && l->n_inputs < INPUTS_MAX) {
		l->inputs[l->n_inputs++] = *img;
		img->data = NULL;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

int handle_link_add(struct sess_lane *sl, const struct link_add_args *a)
{
	_cleanup_free_ struct link_logs *logs = calloc(1, sizeof(*logs));
	struct sess_link *l = sess_get(sl, HANDLE_LINK, a->cmd->link);
	uint32_t info = MIN(a->cmd->info_size, LOG_MAX);
	uint32_t error = MIN(a->cmd->error_size, LOG_MAX);
	CUresult status = CUDA_ERROR_INVALID_HANDLE;
	struct link_add_rep *rep;
	struct image img = {0};

	if (!logs)
		return -ENOMEM;
	logs->jit.info_size = info;
	logs->jit.error_size = error;
	logs->jit.info_log = info ? logs->info : NULL;
	logs->jit.error_log = error ? logs->error : NULL;
	if (images_take(sl->s->images, a->cmd->image, &img) < 0)
		status = CUDA_ERROR_INVALID_IMAGE;
	else if (l)
		status = try_input(sl->s, l, &img, logs);
	if (status == CUDA_SUCCESS)
		status = keep_input(l, &img);
	free(img.data);
	info = info ? MIN((uint32_t)logs->jit.info_size, LOG_MAX) : 0;
	error = error ? MIN((uint32_t)logs->jit.error_size, LOG_MAX) : 0;
	rep = sess_reply_begin(sl, 0, link_add_rep_size(info, error), 0, NULL);
	if (!rep)
		return -EPIPE;
	link_add_rep_init(rep, info, error);
	rep->status = status;
	memcpy(link_add_rep_info_log(rep), logs->info, info);
	memcpy(link_add_rep_error_log(rep, info), logs->error, error);
	return sess_reply_end(sl);
}

static CUresult complete(struct sess_link *l, uint64_t *ret_size, const char **ret_why)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&l->lock);
	if (l->n_inputs != 1) {
		*ret_why = l->n_inputs ? "linking of several inputs is not supported"
				       : "nothing to link";
		r = l->n_inputs ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	} else {
		l->complete = true;
		*ret_size = l->inputs[0].size;
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

int handle_link_complete(struct sess_lane *sl, const struct link_complete_args *a)
{
	struct sess_link *l = sess_get(sl, HANDLE_LINK, a->cmd->link);
	CUresult status = CUDA_ERROR_INVALID_HANDLE;
	struct link_complete_rep *rep;
	const char *why = "";
	uint64_t size = 0;
	uint32_t error;

	if (l)
		status = complete(l, &size, &why);
	error = (uint32_t)MIN(strlen(why) + 1, (size_t)a->cmd->error_size);
	rep = sess_reply_begin(sl, 0, link_complete_rep_size(0, error), 0, NULL);
	if (!rep)
		return -EPIPE;
	link_complete_rep_init(rep, 0, error);
	rep->status = status;
	rep->image_size = size;
	if (error)
		memcpy(link_complete_rep_error_log(rep, 0), why, error - 1);
	return sess_reply_end(sl);
}

static int send_image(struct sess_lane *sl, const struct image *img)
{
	for (uint64_t at = 0; at < img->size;) {
		uint32_t n = (uint32_t)MIN(img->size - at, (uint64_t)WIRE_PAYLOAD_MAX);
		uint16_t flags = at + n < img->size ? WIRE_F_MORE : 0;
		void *payload;
		int r;

		if (!sess_reply_begin(sl, flags, sizeof(struct link_image_rep), n,
				      &payload))
			return -EPIPE;
		memcpy(payload, (const char *)img->data + at, n);
		r = sess_reply_end(sl);
		if (r < 0)
			return r;
		at += n;
	}
	return 0;
}

int handle_link_image(struct sess_lane *sl, const struct link_image_args *a)
{
	struct sess_link *l = sess_get(sl, HANDLE_LINK, a->cmd->link);
	struct link_image_rep rep = {.res.result = CUDA_ERROR_INVALID_HANDLE};

	/* Once complete, inputs do not change any more. */
	if (l && l->complete && l->inputs[0].size)
		return send_image(sl, &l->inputs[0]);
	return sess_done(sl, &rep, sizeof(rep));
}
