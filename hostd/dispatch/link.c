/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking at run time, by the device if it can. Else each input is loaded once, which
 * gives the caller the compiler's messages at cuLinkAddData() as CUDA does, and the
 * result is the inputs, linked when they are loaded.
 *
 * Inputs and result count as images that are kept, also those that the driver has, until
 * the link is destroyed.
 */
#include "dispatch/handlers.h"

#define LOG_MAX    28672u
#define LOG_MIN    1024u /* room for the messages that are looked at here */
#define INPUTS_MAX 256u

/* jit_flags, as of module_load */
#define JIT_DEBUG   1u
#define JIT_LINES   2u
#define JIT_VERBOSE 4u

struct sess_link {
	struct sess_obj obj;
	pthread_mutex_t lock;
	struct dev_link *dev; /* NULL: linked by us */
	uint64_t charged;     /* bytes of what was given to dev */
	struct image inputs[INPUTS_MAX];
	unsigned n_inputs;
	struct image result;
	bool complete; /* result is there; no more inputs */
	uint32_t max_registers, jit_flags;
	int32_t optimization_level;
};

static void link_fini(struct session *s, struct sess_obj *o)
{
	struct sess_link *l = container_of(o, struct sess_link, obj);

	if (l->dev)
		s->ops->link->destroy(l->dev);
	images_uncharge(s->images, l->charged);
	for (unsigned i = 0; i < l->n_inputs; i++)
		images_unkeep(s->images, &l->inputs[i]);
	images_unkeep(s->images, &l->result);
	pthread_mutex_destroy(&l->lock);
}

static CUresult create_dev(struct session *s, struct sess_link *l,
			   const struct link_create_args *a)
{
	struct dev_jit_option options[DEV_JIT_OPTIONS_MAX];
	struct dev_jit jit = {
		.max_registers = l->max_registers,
		.optimization_level =
			l->optimization_level < 0 ? 4 : l->optimization_level,
		.debug = l->jit_flags & JIT_DEBUG,
		.line_info = l->jit_flags & JIT_LINES,
		.verbose = l->jit_flags & JIT_VERBOSE,
		.options = options,
		.n_options = jit_read_options(a->option, a->cmd->option_count, options),
	};

	return s->ops->link->create(l->obj.ctx->dev, &jit, &l->dev);
}

int handle_link_create(struct sess_lane *sl, const struct link_create_args *a,
		       struct link_create_rep *rep)
{
	struct sess_link *l;

	l = obj_new(HANDLE_LINK, a->cmd->link, sizeof(*l), sl->ctx, link_fini);
	if (!l) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
		return 0;
	}
	pthread_mutex_init(&l->lock, NULL);
	l->max_registers = a->cmd->max_registers;
	l->jit_flags = a->cmd->jit_flags;
	l->optimization_level = a->cmd->optimization_level;
	if (sl->s->ops->link) {
		rep->res.result = create_dev(sl->s, l, a);
		if (rep->res.result != CUDA_SUCCESS) {
			obj_put(sl->s, &l->obj);
			return 0;
		}
	}
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

static void init_logs(struct link_logs *logs, const struct sess_link *l, uint32_t info,
		      uint32_t error)
{
	logs->jit = (struct dev_jit){
		.info_log = logs->info,
		.error_log = logs->error,
		.info_size = MAX(MIN(info, LOG_MAX), LOG_MIN),
		.error_size = MAX(MIN(error, LOG_MAX), LOG_MIN),
		.max_registers = l->max_registers,
		.optimization_level =
			l->optimization_level < 0 ? 4 : l->optimization_level,
	};
}

/* Loads an image to see whether it is right, and forgets the module. */
static CUresult try_image(struct session *s, struct sess_link *l, const struct image *img,
			  struct link_logs *logs)
{
	struct dev_module *m;
	CUresult r = s->ops->module.load(l->obj.ctx->dev, img->data, img->size,
					 &logs->jit, &m);

	if (r == CUDA_SUCCESS)
		s->ops->module.unload(m);
	return r;
}

/*
 * One input alone. One that leaves something to others to define may be wrong only for
 * that reason: then the link will tell.
 */
static CUresult try_input(struct session *s, struct sess_link *l, const struct image *img,
			  struct link_logs *logs)
{
	CUresult r = try_image(s, l, img, logs);

	if (r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY ||
	    (!memmem(img->data, img->size, ".extern", strlen(".extern")) &&
	     !strstr(logs->error, "nresolved extern")))
		return r;
	*logs->error = '\0';
	logs->jit.error_size = 1;
	return CUDA_SUCCESS;
}

static CUresult dev_input_locked(struct session *s, struct sess_link *l,
				 const struct image *img, const struct link_add_args *a,
				 struct link_logs *logs)
{
	if (l->complete)
		return CUDA_ERROR_INVALID_VALUE;
	if (images_charge(s->images, img->size) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->charged += img->size; /* who knows what is left of one that is refused */
	return s->ops->link->add(l->dev, (CUjitInputType)a->cmd->input_type, img->data,
				 img->size, a->name, &logs->jit);
}

static CUresult dev_input(struct session *s, struct sess_link *l, const struct image *img,
			  const struct link_add_args *a, struct link_logs *logs)
{
	CUresult r;

	pthread_mutex_lock(&l->lock);
	r = dev_input_locked(s, l, img, a, logs);
	pthread_mutex_unlock(&l->lock);
	return r;
}

static CUresult keep_input(struct session *s, struct sess_link *l, struct image *img)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&l->lock);
	if (!l->complete && l->n_inputs < INPUTS_MAX) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
		if (images_keep(s->images, img, &l->inputs[l->n_inputs]) == 0) {
			l->n_inputs++;
			r = CUDA_SUCCESS;
		}
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
	if (images_take(sl->s->images, a->cmd->image, &img) < 0)
		status = CUDA_ERROR_INVALID_IMAGE;
	else if (l) {
		init_logs(logs, l, info, error);
		status = l->dev ? dev_input(sl->s, l, &img, a, logs)
				: try_input(sl->s, l, &img, logs);
	}
	if (status == CUDA_SUCCESS && !l->dev)
		status = keep_input(sl->s, l, &img);
	image_free(sl->s->images, &img);
	info = MIN(info, (uint32_t)logs->jit.info_size);
	error = MIN(error, (uint32_t)logs->jit.error_size);
	rep = sess_reply_begin(sl, 0, link_add_rep_size(info, error), 0, NULL);
	if (!rep)
		return -EPIPE;
	link_add_rep_init(rep, info, error);
	rep->status = status;
	memcpy(link_add_rep_info_log(rep), logs->info, info);
	memcpy(link_add_rep_error_log(rep, info), logs->error, error);
	return sess_reply_end(sl);
}

/* The link itself, for its messages; what the program gets is linked again when loaded.
 */
static CUresult try_link(struct session *s, struct sess_link *l, const struct image *img,
			 struct link_logs *logs)
{
	struct image inner;
	CUresult r;

	if (linked_unpack(img, &inner) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = try_image(s, l, &inner, logs);
	image_free(s->images, &inner);
	return r;
}

static CUresult keep_result(struct session *s, struct sess_link *l, struct image *all)
{
	if (images_keep(s->images, all, &l->result) == 0)
		return CUDA_SUCCESS;
	image_free(s->images, all);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult complete_dev(struct session *s, struct sess_link *l,
			     struct link_logs *logs)
{
	struct image all;
	const void *data;
	size_t size;
	CUresult r = s->ops->link->complete(l->dev, &logs->jit, &data, &size);

	if (r != CUDA_SUCCESS)
		return r;
	all = (struct image){malloc(size + 1), size};
	if (!all.data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(all.data, data, size);
	r = keep_result(s, l, &all);
	l->complete = r == CUDA_SUCCESS;
	return r;
}

static CUresult complete_locked(struct session *s, struct sess_link *l,
				struct link_logs *logs)
{
	struct image all;
	CUresult status;
	int r;

	if (l->complete)
		return CUDA_SUCCESS;
	if (l->dev)
		return complete_dev(s, l, logs);
	r = linked_pack(l->inputs, l->n_inputs, &all);
	if (r < 0)
		return r == -EINVAL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	status = keep_result(s, l, &all);
	if (status == CUDA_SUCCESS)
		status = try_link(s, l, &l->result, logs);
	l->complete = status == CUDA_SUCCESS;
	if (!l->complete)
		images_unkeep(s->images, &l->result);
	return status;
}

int handle_link_complete(struct sess_lane *sl, const struct link_complete_args *a)
{
	_cleanup_free_ struct link_logs *logs = calloc(1, sizeof(*logs));
	struct sess_link *l = sess_get(sl, HANDLE_LINK, a->cmd->link);
	CUresult status = CUDA_ERROR_INVALID_HANDLE;
	struct link_complete_rep *rep;
	uint32_t info, error;
	uint64_t size = 0;

	if (!logs)
		return -ENOMEM;
	if (l) {
		init_logs(logs, l, a->cmd->info_size, a->cmd->error_size);
		pthread_mutex_lock(&l->lock);
		status = complete_locked(sl->s, l, logs);
		size = l->complete ? l->result.size : 0;
		pthread_mutex_unlock(&l->lock);
	}
	info = MIN(a->cmd->info_size, (uint32_t)logs->jit.info_size);
	error = MIN(a->cmd->error_size, (uint32_t)logs->jit.error_size);
	rep = sess_reply_begin(sl, 0, link_complete_rep_size(info, error), 0, NULL);
	if (!rep)
		return -EPIPE;
	link_complete_rep_init(rep, info, error);
	rep->status = status;
	rep->image_size = size;
	memcpy(link_complete_rep_info_log(rep), logs->info, info);
	memcpy(link_complete_rep_error_log(rep, info), logs->error, error);
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

	bool complete = false;

	if (l) {
		pthread_mutex_lock(&l->lock);
		complete = l->complete; /* and the result does not change any more */
		pthread_mutex_unlock(&l->lock);
	}
	if (complete)
		return send_image(sl, &l->result);
	return sess_done(sl, &rep, sizeof(rep));
}
