/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries, which are modules that outlive the current context's being
 * current: both are loaded into the context that is current, or into the primary one.
 */
#include <stdio.h>

#include "dispatch/handlers.h"

#define LOG_MAX     28672u /* of each message; see module.api */
#define NAME_MAX_   24576u
#define PARAMS_MAX  4096u
#define ATTRS       16u

#define JIT_DEBUG   1u
#define JIT_LINES   2u
#define JIT_VERBOSE 4u
#define JIT_MANAGED 8u /* of a library: the guest has asked for such a variable */

/* ---- images ---- */

int handle_image_data(struct sess_lane *sl, const struct image_data_args *a,
		      struct image_data_rep *rep)
{
	const struct image_data_cmd *c = a->cmd;
	int r = images_add(sl->s->images, c->image, c->offset, c->total, a->payload,
			   a->payload_size);

	if (r == -ENOMEM)
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
	/* Pieces after one that did not fit have no image: that is no crime. */
	else if (r < 0)
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
	return 0;
}

int handle_image_drop(struct sess_lane *sl, const struct image_drop_args *a,
		      struct image_drop_rep *rep)
{
	images_drop(sl->s->images, a->cmd->image);
	return 0;
}

/* ---- loading ---- */

struct jit_logs {
	struct dev_jit jit;
	struct dev_jit_option options[DEV_JIT_OPTIONS_MAX];
	char info[LOG_MAX], error[LOG_MAX];
};

unsigned jit_read_options(const struct wire_jit_option *w, unsigned n,
			  struct dev_jit_option *ret_options)
{
	unsigned i;

	for (i = 0; i < n && i < DEV_JIT_OPTIONS_MAX; i++) {
		ret_options[i].option = (CUjit_option)w[i].option;
		ret_options[i].value = w[i].value;
		/* Options are refused if their value would be taken for an address. */
		switch (w[i].option) {
		case CU_JIT_INFO_LOG_BUFFER:
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
		case CU_JIT_ERROR_LOG_BUFFER:
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
		case CU_JIT_GLOBAL_SYMBOL_NAMES ... CU_JIT_GLOBAL_SYMBOL_COUNT:
		case CU_JIT_REFERENCED_KERNEL_NAMES ... CU_JIT_REFERENCED_VARIABLE_COUNT:
			return 0;
		}
	}
	return i;
}

static void init_logs(struct jit_logs *l, const struct module_load_args *a)
{
	const struct module_load_cmd *c = a->cmd;

	l->jit = (struct dev_jit){
		.info_log = l->info,
		.error_log = l->error,
		.info_size = MIN(c->info_size, LOG_MAX),
		.error_size = MIN(c->error_size, LOG_MAX),
		.max_registers = c->max_registers,
		.optimization_level =
			c->optimization_level < 0 ? 4 : c->optimization_level,
		.debug = c->jit_flags & JIT_DEBUG,
		.line_info = c->jit_flags & JIT_LINES,
		.verbose = c->jit_flags & JIT_VERBOSE,
		.options = l->options,
		.n_options = jit_read_options(a->option, c->option_count, l->options),
	};
	if (!l->jit.info_size)
		l->jit.info_log = NULL;
	if (!l->jit.error_size)
		l->jit.error_log = NULL;
}

static int reply_load(struct sess_lane *sl, CUresult status, unsigned n_functions,
		      const struct hostmem_region *managed, const struct jit_logs *l)
{
	uint32_t info = l->jit.info_log ? (uint32_t)l->jit.info_size : 0;
	uint32_t error = l->jit.error_log ? (uint32_t)l->jit.error_size : 0;
	struct module_load_rep *rep;

	info = MIN(info, LOG_MAX);
	error = MIN(error, LOG_MAX);
	rep = sess_reply_begin(sl, 0, module_load_rep_size(info, error), 0, NULL);
	if (!rep)
		return -EPIPE;
	module_load_rep_init(rep, info, error);
	rep->status = status;
	rep->wall_time_ms = l->jit.wall_time_ms;
	rep->function_count = n_functions;
	rep->managed_addr = managed->addr;
	rep->managed_offset = managed->offset;
	rep->managed_size = managed->size;
	memcpy(module_load_rep_info_log(rep), l->info, info);
	memcpy(module_load_rep_error_log(rep, info), l->error, error);
	return sess_reply_end(sl);
}

/* The guest's image; of a result of cuLinkComplete() the inputs, as devices link them. */
static int take_image(struct session *s, uint64_t id, struct image *ret_img)
{
	struct image img;
	int r = images_take(s->images, id, &img);

	if (r < 0)
		return r;
	if (!linked_is(&img)) {
		*ret_img = img;
		return 0;
	}
	r = linked_unpack(&img, ret_img);
	image_free(s->images, &img);
	return r;
}

/* Counts code that this device cannot run, for whoever asks why a program fails. */
static void refuse_code(struct sess_lane *sl, const char *targets, const char *kernel)
{
	char what[REFUSAL_TEXT];

	if (!*targets)
		return;
	snprintf(what, sizeof(what), "code of %s only%s%s", targets,
		 *kernel ? ", kernel " : "", kernel);
	sess_refuse(sl->s, REFUSAL_DEVICE, what, 0);
}

/* *ret_in: where its variables in managed memory are, if they were asked for. */
static CUresult load_module(struct session *s, struct sess_ctx *ctx,
			    const struct module_load_cmd *c, struct image *img,
			    struct dev_jit *jit, struct hostmem_region *ret_in,
			    struct sess_module **ret_m)
{
	struct image source = {0};
	bool managed =
		c->jit_flags & JIT_MANAGED && handle_type(c->module) == HANDLE_LIBRARY;
	struct hostmem_region in = {0};
	struct dev_managed *v = NULL;
	CUresult r;

	if (managed)
		v = sess_managed_new(s, ctx, img, &jit->n_managed, &in);
	jit->managed = v;
	if (!v)
		jit->n_managed = 0;
	/* Nothing is lost without. */
	if (c->source)
		(void)images_take(s->images, c->source, &source);
	r = sess_module_new(s, ctx, c->module, img, source.data ? &source : img, jit,
			    ret_m);
	image_free(s->images, &source);
	if (r != CUDA_SUCCESS) {
		sess_managed_free(s, v, &in);
		return r;
	}
	(*ret_m)->managed = v;
	(*ret_m)->managed_in = *ret_in = in;
	return CUDA_SUCCESS;
}

int handle_module_load(struct sess_lane *sl, const struct module_load_args *a)
{
	_cleanup_free_ struct jit_logs *logs = calloc(1, sizeof(*logs));
	struct session *s = sl->s;
	enum handle_type type = handle_type(a->cmd->module);
	struct sess_ctx *ctx = sess_any_ctx(sl);
	struct hostmem_region in = {0};
	struct image img = {0};
	struct sess_module *m;
	struct sess_inst *inst;
	unsigned n_functions = 0;
	uint32_t status = CUDA_ERROR_OUT_OF_MEMORY;
	int r = 0;

	if (!logs)
		return -ENOMEM;
	if (type != HANDLE_MODULE && type != HANDLE_LIBRARY)
		return -EPROTO;
	init_logs(logs, a);
	if (take_image(s, a->cmd->image, &img) < 0)
		status = CUDA_ERROR_INVALID_IMAGE;
	else if (!ctx)
		status = CUDA_ERROR_INVALID_CONTEXT;
	else
		status = load_module(s, ctx, a->cmd, &img, &logs->jit, &in, &m);
	image_free(s->images, &img);
	if (a->cmd->source) /* if it was not looked at */
		images_drop(s->images, a->cmd->source);
	if (status == CUDA_ERROR_NO_BINARY_FOR_GPU)
		refuse_code(sl, logs->jit.no_code, "");
	if (status == CUDA_SUCCESS) {
		if (sess_module_in(sl, m, ctx, &inst) == CUDA_SUCCESS)
			(void)s->ops->module.function_count(inst->dev, &n_functions);
		r = publish(sl, &m->obj, &status);
	}
	return r < 0 ? r : reply_load(sl, status, n_functions, &in, logs);
}

int handle_module_unload(struct sess_lane *sl, const struct module_unload_args *a,
			 struct module_unload_rep *rep)
{
	enum handle_type type = handle_type(a->cmd->module);
	struct sess_obj *o = NULL;

	if (type == HANDLE_MODULE || type == HANDLE_LIBRARY)
		o = obj_take(sl->s, type, a->cmd->module);
	if (!o) {
		rep->res.result = CUDA_ERROR_INVALID_HANDLE;
		return 0;
	}
	sess_module_drop_functions(sl->s, container_of(o, struct sess_module, obj));
	obj_put(sl->s, o);
	return 0;
}

static struct sess_module *module_named(struct sess_lane *sl, uint64_t h)
{
	enum handle_type type = handle_type(h);

	if (type != HANDLE_MODULE && type != HANDLE_LIBRARY)
		return NULL;
	return sess_get(sl, type, h);
}

/* As it is in the lane's context, or in any. */
static CUresult module_here(struct sess_lane *sl, uint64_t h, struct sess_module **ret_m,
			    struct sess_inst **ret_inst)
{
	struct sess_module *m = module_named(sl, h);

	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_m = m;
	return sess_module_in(sl, m, sess_any_ctx(sl), ret_inst);
}

int handle_module_status(struct sess_lane *sl, const struct module_status_args *a,
			 struct module_status_rep *rep)
{
	struct sess_module *m;
	struct sess_inst *inst;
	CUresult r = module_here(sl, a->cmd->module, &m, &inst);

	rep->res.result = r ? r : sl->s->ops->module.status(inst->dev);
	footprint_changed(sl->s);
	return 0;
}

/* ---- functions ---- */

void sess_func_attributes(struct session *s, struct dev_func *f, int32_t *ret, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		int value = 0;

		(void)s->ops->func.attribute(f, (CUfunction_attribute)i, &value);
		ret[i] = value;
	}
}

static CUresult find_func(struct session *s, struct sess_inst *inst,
			  const struct module_function_args *a,
			  struct dev_func **ret_func, const char **ret_name)
{
	CUresult r;

	*ret_name = a->name;
	r = *a->name ? s->ops->module.function(inst->dev, a->name, ret_func)
		     : s->ops->module.function_at(inst->dev, a->cmd->index, ret_func,
						  ret_name);
	footprint_changed(s);
	return r;
}

static unsigned read_params(struct session *s, struct dev_func *f,
			    struct wire_kernel_param *ret_p)
{
	struct dev_param p;
	unsigned n = 0;

	while (n < PARAMS_MAX && s->ops->func.param(f, n, &p) == CUDA_SUCCESS)
		ret_p[n++] = (struct wire_kernel_param){p.offset, p.size};
	return n;
}

static int reply_func(struct sess_lane *sl, struct dev_func *f, const char *name)
{
	_cleanup_free_ struct wire_kernel_param *params =
		calloc(PARAMS_MAX, sizeof(*params));
	uint32_t name_size = (uint32_t)MIN(strlen(name) + 1, (size_t)NAME_MAX_), n;
	struct module_function_rep *rep;

	if (!params)
		return -ENOMEM;
	n = read_params(sl->s, f, params);
	rep = sess_reply_begin(sl, 0, module_function_rep_size(n, name_size), 0, NULL);
	if (!rep)
		return -EPIPE;
	module_function_rep_init(rep, n, name_size);
	sess_func_attributes(sl->s, f, rep->attribute, ATTRS);
	memcpy(module_function_rep_param(rep), params, n * sizeof(*params));
	memcpy(module_function_rep_real_name(rep, n), name, name_size - 1);
	return sess_reply_end(sl);
}

int handle_module_function(struct sess_lane *sl, const struct module_function_args *a)
{
	enum handle_type type = handle_type(a->cmd->func);
	struct module_function_rep fail = {0};
	struct sess_module *m = NULL;
	struct sess_inst *inst;
	struct sess_func *f;
	struct dev_func *dev;
	const char *name;
	uint32_t result;
	int r = 0;

	if (type != HANDLE_FUNCTION && type != HANDLE_KERNEL)
		return -EPROTO;
	result = module_here(sl, a->cmd->module, &m, &inst);
	if (result == CUDA_SUCCESS)
		result = find_func(sl->s, inst, a, &dev, &name);
	if (result == CUDA_SUCCESS)
		result = sess_func_new(sl->s, m, a->cmd->func, name, inst, dev, &f);
	if (result == CUDA_SUCCESS)
		r = publish(sl, &f->obj, &result);
	if (r < 0)
		return r;
	if (result == CUDA_SUCCESS)
		return reply_func(sl, dev, name);
	if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && m &&
	    !atomic_exchange_explicit(&m->told, true, memory_order_relaxed))
		refuse_code(sl, m->jit.no_code, a->name);
	fail.res.result = result;
	return sess_done(sl, &fail, sizeof(fail));
}

static bool managed_var(const struct sess_module *m, const char *name,
			CUdeviceptr *ret_addr, size_t *ret_size)
{
	for (unsigned i = 0; m->managed && i < m->jit.n_managed; i++) {
		if (strcmp(m->managed[i].name, name) != 0)
			continue;
		*ret_addr = m->managed[i].addr;
		*ret_size = m->managed[i].bytes;
		return true;
	}
	return false;
}

int handle_module_global(struct sess_lane *sl, const struct module_global_args *a,
			 struct module_global_rep *rep)
{
	struct sess_module *m;
	struct sess_inst *inst;
	CUdeviceptr addr = 0;
	size_t size = 0;
	CUresult r = module_here(sl, a->cmd->module, &m, &inst);

	if (r == CUDA_SUCCESS && managed_var(m, a->name, &addr, &size)) {
		rep->dptr = addr;
		rep->bytes = size;
		return 0;
	}
	if (r == CUDA_SUCCESS)
		r = sl->s->ops->module.global(inst->dev, a->name, &addr, &size);
	footprint_changed(sl->s);
	if (r == CUDA_SUCCESS)
		(void)space_global_add(sl->s->space, addr, size, inst->obj.ctx->id, inst);
	rep->res.result = r;
	rep->dptr = addr;
	rep->bytes = size;
	return 0;
}
