/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/atomics.h"
#include "memory/space.h"
#include "ptx/extent/table.h"
#include "session/code.h"
#include "session/footprint.h"
#include "session/command.h"

/* ---- instances ---- */

static void inst_fini(struct session *s, struct sess_obj *o)
{
	struct sess_inst *inst = container_of(o, struct sess_inst, obj);
	uint64_t bytes;

	if (inst->dev) {
		space_global_drop(s->space, inst);
		bytes = s->ops->module.memory(inst->dev);
		s->ops->module.unload(inst->dev);
		footprint_unloaded(s, bytes);
	}
	if (inst->image)
		obj_put(s, &inst->image->obj);
	ptx_extents_put(inst->extents);
}

/* Loads img; if the device has no memory, once more after it has back what the session
 * freed a moment ago. */
static CUresult load(struct session *s, struct dev_ctx *ctx, bool library,
		     const struct image *img, struct dev_jit *jit,
		     struct dev_module **ret)
{
	CUresult (*fn)(struct dev_ctx *, const void *, size_t, struct dev_jit *,
		       struct dev_module **) =
		library ? s->ops->module.load_library : s->ops->module.load;
	struct dev_jit again = *jit;
	CUresult r = fn(ctx, img->data, img->size, jit, ret);

	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	space_flush(s->space);
	*jit = again;
	return fn(ctx, img->data, img->size, jit, ret);
}

/* Loads an image into ctx; the caller holds the reference. */
static CUresult inst_new(struct session *s, struct sess_ctx *ctx,
			 const struct sess_module *m, const struct image *img,
			 struct dev_jit *jit, struct sess_inst **ret_inst)
{
	struct sess_inst *inst = obj_new(HANDLE_NONE, 0, sizeof(*inst), ctx, inst_fini);
	struct sess_image *kept = m->image;
	CUresult r;

	if (!inst)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_init(&inst->in_mod);
	inst->extents = ptx_extents_ref(m->extents);
	if (kept) {
		obj_ref(&kept->obj);
		inst->image = kept;
		img = &kept->image;
	}
	r = load(s, ctx->dev, kept, img, jit, &inst->dev);
	if (r == CUDA_SUCCESS)
		r = footprint_loaded(s, s->ops->module.memory(inst->dev));
	if (r != CUDA_SUCCESS) {
		obj_put(s, &inst->obj);
		return r;
	}
	*ret_inst = inst;
	return CUDA_SUCCESS;
}

/* ---- variables in managed memory ---- */

/* Good for any type, and no two are in one line of a cache. */
#define MANAGED_ALIGN 256u

/* Bytes that they take one behind the other, from 0 on; 0: too many. */
static uint64_t lay_out(struct dev_managed *v, unsigned n)
{
	uint64_t end = 0;

	for (unsigned i = 0; i < n; i++) {
		v[i].addr = ALIGN_UP(end, (uint64_t)MANAGED_ALIGN);
		if (__builtin_add_overflow(v[i].addr, v[i].bytes, &end) ||
		    end > DEVICE_HOST_SIZE)
			return 0;
	}
	return end;
}

struct dev_managed *sess_managed_new(struct session *s, struct sess_ctx *ctx,
				     const struct image *img, unsigned *ret_n,
				     struct hostmem_region *ret_in)
{
	_cleanup_free_ struct dev_managed *v = NULL;
	uint64_t bytes;

	*ret_n = 0;
	if (!s->hostmem || !s->ops->module.managed ||
	    s->ops->module.managed(ctx->dev, img->data, img->size, &v, ret_n))
		return NULL;
	bytes = lay_out(v, *ret_n);
	if (!bytes || hostmem_alloc(s->hostmem, ctx->dev, bytes, ret_in))
		return NULL;
	for (unsigned i = 0; i < *ret_n; i++)
		v[i].addr += ret_in->addr;
	return steal(v);
}

void sess_managed_free(struct session *s, struct dev_managed *v,
		       const struct hostmem_region *in)
{
	struct dev_ctx *ctx;
	void *held;

	if (!v)
		return;
	free(v);
	/* Without a context the device ends, and all of it with that. */
	held = s->env.ctx_hold(s->env.arg, &ctx);
	if (!held)
		return;
	hostmem_release(s->hostmem, ctx, in->addr);
	s->env.ctx_put(s->env.arg, held);
}

/* ---- modules ---- */

static bool is_library(const struct sess_module *m)
{
	return m->obj.type == HANDLE_LIBRARY;
}

static void module_fini(struct session *s, struct sess_obj *o)
{
	struct sess_module *m = container_of(o, struct sess_module, obj);
	struct sess_inst *inst, *tmp;

	pthread_mutex_lock(&s->objs.lock);
	list_remove(&m->in_session);
	pthread_mutex_unlock(&s->objs.lock);
	list_for_each_safe (inst, tmp, &m->insts, in_mod) {
		list_remove(&inst->in_mod);
		obj_put(s, &inst->obj);
	}
	if (m->image)
		obj_put(s, &m->image->obj);
	sess_managed_free(s, m->managed, &m->managed_in);
	images_uncharge(s->images, ptx_extents_bytes(m->extents));
	ptx_extents_put(m->extents);
}

static void image_fini(struct session *s, struct sess_obj *o)
{
	images_unkeep(s->images, &container_of(o, struct sess_image, obj)->image);
}

void sess_set_extents(struct session *s, const char *text, size_t size, const char *path)
{
	struct ptx_template_error error;
	int r = ptx_templates_new(text, size, &s->templates, &error);

	if (r == -EINVAL)
		log_warning("extents: %s:%u: %s: none of it is used", path, error.line,
			    error.why);
	else if (r < 0)
		log_warning("extents: %s: %s", path, strerror(-r));
}

/* Has what the operator says of them come first; the operator is told which code that is. */
static void say_extents(struct session *s, const struct image *img,
			struct ptx_extents **t)
{
	struct ptx_code code = ptx_code_of(img->data, img->size);
	unsigned all, known;

	ptx_extents_counts(*t, &all, &known);
	log_info("extents: code %016llx%016llx: PTX says of %u of %u kernels where they "
		 "reach memory",
		 (unsigned long long)code.hash[0], (unsigned long long)code.hash[1],
		 known, all);
	if (ptx_extents_say(t, s->templates, &code) < 0)
		log_warning("extents: out of memory");
}

/* The device's compute capability, 90 for 9.0; 0: it does not say. */
static unsigned sm_of(struct session *s)
{
	int major, minor;

	if (s->ops->attribute(s->dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
			      &major) ||
	    s->ops->attribute(s->dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
			      &minor))
		return 0;
	return (unsigned)(10 * major + minor);
}

/* Looks at the PTX that the device takes; machine code says nothing, and what was linked neither. */
static struct ptx_extents *extents_of(struct session *s, const struct image *img)
{
	unsigned all, known, sm;
	struct ptx_extents *t;

	if (!s->touch.wants_extents || !s->touch.pages)
		return NULL;
	sm = sm_of(s);
	if (!sm)
		return NULL;
	t = ptx_extents_new(img->data, img->size, sm);
	if (s->templates)
		say_extents(s, img, &t);
	if (images_charge(s->images, ptx_extents_bytes(t)) < 0) {
		ptx_extents_put(t);
		return NULL;
	}
	ptx_extents_counts(t, &all, &known);
	if (all)
		log_debug("kernels: it is known of %u of %u where they reach memory",
			  known, all);
	return t;
}

/* Larger modules are not looked at, for nobody may ever ask, and larger libraries, which would keep a
 * launch waiting. */
#define MODULE_MAX  ((size_t)1 << 20)
#define LIBRARY_MAX ((size_t)32 << 20)

static void look_for_atomics(struct session *s, const struct image *img)
{
	if (atomic_load(&s->system_atomics) ||
	    !atomics_of_system(img->data, img->size, sm_of(s)))
		return;
	log_debug("kernels: some add to memory together with the program");
	atomic_store(&s->system_atomics, true);
}

/* The image of a library that was not looked at yet, with a reference; NULL: there is none. */
static struct sess_image *next_to_look_at(struct session *s)
{
	struct sess_image *image = NULL;
	struct sess_module *m;

	pthread_mutex_lock(&s->objs.lock);
	list_for_each (m, &s->libraries, in_session) {
		if (m->looked_at || m->image->image.size > LIBRARY_MAX)
			continue;
		m->looked_at = true;
		image = m->image;
		obj_ref(&image->obj);
		break;
	}
	pthread_mutex_unlock(&s->objs.lock);
	return image;
}

bool sess_system_atomics(struct session *s)
{
	struct sess_image *image;

	while (!atomic_load(&s->system_atomics) && (image = next_to_look_at(s))) {
		look_for_atomics(s, &image->image);
		obj_put(s, &image->obj);
	}
	return atomic_load(&s->system_atomics);
}

static CUresult keep_image(struct session *s, struct sess_module *m, struct image *img)
{
	m->image = obj_new(HANDLE_NONE, 0, sizeof(*m->image), NULL, image_fini);
	if (!m->image || images_keep(s->images, img, &m->image->image) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

static void keep_options(struct sess_module *m, const struct dev_jit *jit)
{
	m->jit = *jit;
	m->jit.info_log = m->jit.error_log = NULL;
	m->jit.info_size = m->jit.error_size = 0;
	m->jit.n_options = MIN(jit->n_options, (unsigned)DEV_JIT_OPTIONS_MAX);
	if (m->jit.n_options)
		memcpy(m->options, jit->options, m->jit.n_options * sizeof(*m->options));
	m->jit.options = m->options;
}

CUresult sess_module_new(struct session *s, struct sess_ctx *ctx, uint64_t h,
			 struct image *img, const struct image *source,
			 struct dev_jit *jit, struct sess_module **ret_m)
{
	bool library = handle_type(h) == HANDLE_LIBRARY;
	struct sess_module *m =
		obj_new(handle_type(h), h, sizeof(*m), library ? NULL : ctx, module_fini);
	struct sess_inst *inst;
	CUresult r = CUDA_SUCCESS;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_init(&m->insts);
	list_init(&m->funcs);
	list_init(&m->in_session);
	keep_options(m, jit);
	m->extents = extents_of(s, source);
	if (library)
		r = keep_image(s, m, img);
	else if (img->size <= MODULE_MAX)
		look_for_atomics(s, img);
	if (r == CUDA_SUCCESS)
		r = inst_new(s, ctx, m, img, jit, &inst);
	if (r != CUDA_SUCCESS) {
		obj_put(s, &m->obj);
		return r;
	}
	pthread_mutex_lock(&s->objs.lock);
	list_append(&m->insts, &inst->in_mod);
	if (library)
		list_append(&s->libraries, &m->in_session);
	pthread_mutex_unlock(&s->objs.lock);
	memcpy(m->jit.no_code, jit->no_code, sizeof(jit->no_code));
	m->jit.managed_set = true; /* other contexts find what is in them */
	*ret_m = m;
	return CUDA_SUCCESS;
}

void sess_module_drop_functions(struct session *s, struct sess_module *m)
{
	struct sess_func *f;
	uint64_t h;

	for (;;) {
		pthread_mutex_lock(&s->objs.lock);
		h = 0;
		if (!list_empty(&m->funcs)) {
			f = list_entry(m->funcs.next, struct sess_func, in_mod);
			h = f->obj.handle;
			list_remove(&f->in_mod);
		}
		pthread_mutex_unlock(&s->objs.lock);
		if (!h)
			return;
		obj_put(s, obj_take(s, handle_type(h), h));
	}
}

/* Referenced; NULL if there is none yet. */
static struct sess_inst *inst_find_locked(struct sess_module *m, struct sess_ctx *ctx)
{
	struct sess_inst *inst;

	list_for_each (inst, &m->insts, in_mod) {
		if (inst->obj.ctx == ctx || !is_library(m)) {
			obj_ref(&inst->obj);
			return inst;
		}
	}
	return NULL;
}

static CUresult pin_inst(struct sess_lane *sl, struct sess_inst *inst,
			 struct sess_inst **ret_inst)
{
	if (!sess_pin(sl, &inst->obj))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_inst = inst;
	return CUDA_SUCCESS;
}

CUresult sess_module_in(struct sess_lane *sl, struct sess_module *m, struct sess_ctx *ctx,
			struct sess_inst **ret_inst)
{
	struct session *s = sl->s;
	struct sess_inst *inst, *other;
	struct dev_jit jit;
	CUresult r;

	pthread_mutex_lock(&s->objs.lock);
	inst = inst_find_locked(m, ctx);
	pthread_mutex_unlock(&s->objs.lock);
	if (inst)
		return pin_inst(sl, inst, ret_inst);
	if (!ctx || !is_library(m))
		return CUDA_ERROR_INVALID_CONTEXT;
	jit = m->jit; /* loading writes to it, other threads too */
	r = inst_new(s, ctx, m, NULL, &jit, &inst);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&s->objs.lock);
	other = inst_find_locked(m, ctx); /* another thread was faster */
	if (!other) {
		list_append(&m->insts, &inst->in_mod);
		obj_ref(&inst->obj);
	}
	pthread_mutex_unlock(&s->objs.lock);
	if (other)
		obj_put(s, &inst->obj);
	return pin_inst(sl, other ? other : inst, ret_inst);
}

/* Forgets one instance of ctx, if there is one; the caller gets the module's reference.
 */
static struct sess_inst *forget_one_locked(struct session *s, struct sess_ctx *ctx)
{
	struct sess_module *m;
	struct sess_inst *inst;
	struct sess_func *f;

	list_for_each (m, &s->libraries, in_session) {
		list_for_each (inst, &m->insts, in_mod) {
			if (inst->obj.ctx != ctx)
				continue;
			list_for_each (f, &m->funcs, in_mod) {
				if (f->inst == inst)
					f->inst = NULL;
			}
			list_remove(&inst->in_mod);
			return inst;
		}
	}
	return NULL;
}

void sess_libraries_drop_ctx(struct session *s, struct sess_ctx *ctx)
{
	struct sess_inst *inst;

	do {
		pthread_mutex_lock(&s->objs.lock);
		inst = forget_one_locked(s, ctx);
		pthread_mutex_unlock(&s->objs.lock);
		if (inst)
			obj_put(s, &inst->obj);
	} while (inst);
}

/* ---- functions ---- */

static void func_fini(struct session *s, struct sess_obj *o)
{
	struct sess_func *f = container_of(o, struct sess_func, obj);

	pthread_mutex_lock(&s->objs.lock);
	list_remove(&f->in_mod);
	pthread_mutex_unlock(&s->objs.lock);
	free(f->name);
	obj_put(s, &f->mod->obj);
}

CUresult sess_func_new(struct session *s, struct sess_module *m, uint64_t h,
		       const char *name, struct sess_inst *inst, struct dev_func *dev,
		       struct sess_func **ret_f)
{
	struct sess_func *f =
		obj_new(handle_type(h), h, sizeof(*f), m->obj.ctx, func_fini);

	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_init(&f->in_mod);
	f->mod = container_of(obj_ref(&m->obj), struct sess_module, obj);
	f->dev = dev;
	f->name = strdup(name);
	if (!f->name) {
		obj_put(s, &f->obj);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	f->extent = ptx_extents_find(m->extents, name);
	pthread_mutex_lock(&s->objs.lock);
	f->inst = list_empty(&inst->in_mod) ? NULL : inst;
	list_append(&m->funcs, &f->in_mod);
	pthread_mutex_unlock(&s->objs.lock);
	*ret_f = f;
	return CUDA_SUCCESS;
}

static void replay(struct session *s, const struct sess_func *f, struct dev_func *dev)
{
	for (unsigned i = 0; i < SESS_FUNC_ATTRS; i++) {
		if (f->set_mask & 1u << i)
			(void)s->ops->func.set_attribute(dev, (CUfunction_attribute)i,
							 f->set[i]);
	}
}

/* Not yet known in this context. */
static CUresult func_look_up(struct sess_lane *sl, struct sess_func *f,
			     struct sess_ctx *ctx, struct dev_func **ret_dev,
			     struct sess_inst **ret_inst)
{
	struct session *s = sl->s;
	struct sess_inst *inst;
	CUresult r = sess_module_in(sl, f->mod, ctx, &inst);

	if (r == CUDA_SUCCESS)
		r = s->ops->module.function(inst->dev, f->name, ret_dev);
	footprint_changed(s);
	if (r != CUDA_SUCCESS)
		return r;
	replay(s, f, *ret_dev);
	pthread_mutex_lock(&s->objs.lock);
	if (!list_empty(&inst->in_mod)) {
		f->inst = inst;
		f->dev = *ret_dev;
	}
	pthread_mutex_unlock(&s->objs.lock);
	*ret_inst = inst;
	return CUDA_SUCCESS;
}

/* Finds a library's kernel in ctx, and its instance, which is kept or pinned. */
static CUresult kernel_in(struct sess_lane *sl, struct sess_func *f, struct sess_ctx *ctx,
			  struct dev_func **ret_dev, struct sess_inst **ret_inst)
{
	struct session *s = sl->s;
	uint64_t key = KEPT_KERNEL(f->obj.handle);
	const struct kept_slot *k = kept_find(&sl->kept, &s->objs, key);
	struct sess_inst *inst = NULL;
	struct dev_func *dev = NULL;

	if (likely(k && k->obj->ctx == ctx)) {
		*ret_inst = container_of(k->obj, struct sess_inst, obj);
		*ret_dev = k->dev;
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&s->objs.lock);
	if (likely(f->inst && f->inst->obj.ctx == ctx)) {
		inst = f->inst;
		dev = f->dev;
		obj_ref(&inst->obj);
	}
	pthread_mutex_unlock(&s->objs.lock);
	if (unlikely(!inst))
		return func_look_up(sl, f, ctx, ret_dev, ret_inst);
	if (!sess_pin(sl, &inst->obj))
		return CUDA_ERROR_OUT_OF_MEMORY;
	sl->pins[sl->n_pins - 1].key = key;
	sl->pins[sl->n_pins - 1].dev = dev;
	*ret_inst = inst;
	*ret_dev = dev;
	return CUDA_SUCCESS;
}

CUresult sess_func_in(struct sess_lane *sl, struct sess_func *f, struct sess_ctx *ctx,
		      struct dev_func **ret_dev)
{
	struct sess_inst *inst;

	if (is_library(f->mod))
		return kernel_in(sl, f, ctx, ret_dev, &inst);
	*ret_dev = f->dev; /* it holds its module, which holds the instance */
	return CUDA_SUCCESS;
}

CUresult sess_func_hold(struct sess_lane *sl, struct sess_func *f, struct sess_ctx *ctx,
			struct dev_func **ret_dev, struct sess_obj **ret_ref)
{
	struct sess_inst *inst;
	CUresult r;

	if (!is_library(f->mod)) {
		*ret_dev = f->dev;
		*ret_ref = obj_ref(&f->obj);
		return CUDA_SUCCESS;
	}
	r = kernel_in(sl, f, ctx, ret_dev, &inst);
	if (r == CUDA_SUCCESS)
		*ret_ref = obj_ref(&inst->obj);
	return r;
}

CUresult sess_func_set(struct sess_lane *sl, struct sess_func *f, struct sess_ctx *ctx,
		       CUfunction_attribute attr, int value)
{
	struct dev_func *dev;
	CUresult r = sess_func_in(sl, f, ctx, &dev);

	if (r == CUDA_SUCCESS)
		r = sl->s->ops->func.set_attribute(dev, attr, value);
	if (r != CUDA_SUCCESS || (unsigned)attr >= SESS_FUNC_ATTRS)
		return r;
	pthread_mutex_lock(&sl->s->objs.lock);
	f->set[attr] = value;
	f->set_mask |= 1u << attr;
	pthread_mutex_unlock(&sl->s->objs.lock);
	return CUDA_SUCCESS;
}
