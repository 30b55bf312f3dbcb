/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macros.h"
#include "device/rewrite/code.h"
#include "ptx/fatbin.h"

/* Kernels of which a log says why they have no copy. */
#define SAID_MAX 8

struct codes codes = {.lock = PTHREAD_MUTEX_INITIALIZER,
		      .trial_lock = PTHREAD_MUTEX_INITIALIZER,
		      .run_lock = PTHREAD_MUTEX_INITIALIZER};

/* Their addresses are those of a stream that has ended, and of a launch. */
static const char gone, launched;

/* ---- images ---- */

/* A container with others behind it is one to link. */
static bool is_one(const void *image, size_t size)
{
	uint64_t bytes;
	enum fatbin_format format;

	if (fatbin_format(image, size, &format) < 0 || format == FATBIN_IS_ELF)
		return false;
	if (format == FATBIN_IS_TEXT)
		return true;
	if (size < FATBIN_HDR_BYTES)
		return false;
	memcpy(&bytes, (const char *)image + 8, sizeof(bytes));
	return bytes >= size - FATBIN_HDR_BYTES;
}

/* Whether the device would rather take machine code than compile PTX for an older GPU. */
static bool has_better(const void *image, size_t size, unsigned ptx_sm)
{
	struct fatbin_entry e;
	enum fatbin_format format;
	size_t pos = 0;

	if (fatbin_format(image, size, &format) < 0 || format != FATBIN_IS_CONTAINER)
		return false;
	while (fatbin_next(image, size, &pos, &e) > 0) {
		if (e.kind == FATBIN_ELF && e.sm / 10 == codes.sm / 10 &&
		    e.sm <= codes.sm && e.sm > ptx_sm)
			return true;
	}
	return false;
}

static void say(const struct ptx_persist *p)
{
	unsigned said = 0;

	log_info("kernels: %u of %u can share the device", p->n_copies, p->n);
	for (uint32_t i = 0; i < p->n && said < SAID_MAX; i++) {
		if (!p->kernels[i].why)
			continue;
		log_info("kernel %.80s runs as it is: %s", p->kernels[i].name,
			 p->kernels[i].why);
		said++;
	}
}

static void reasons_free(struct reason *r)
{
	for (struct reason *at = r; at && at->name; at++)
		free(at->name);
	free(r);
}

/* NULL: there are none, or memory is short. */
static struct reason *reasons_of(const struct ptx_persist *p)
{
	struct reason *r = calloc(p->n + 1u, sizeof(*r)), *at = r;

	for (uint32_t i = 0; r && i < p->n; i++) {
		const struct ptx_persist_kernel *k = &p->kernels[i];
		const char *why = k->why ? k->why : k->why_no_yield;

		if (!why)
			continue;
		at->name = strdup(k->name);
		if (!at->name)
			break;
		at++->why = why;
	}
	return r;
}

/* The text of an image with copies of its kernels, the caller's to free; NULL: none has one.
 * ret_reasons: likewise, of the others; NULL: it is the input of a link, and counted when what
 * comes of it is loaded. */
static char *rewrite(const void *image, size_t size, struct reason **ret_reasons,
		     size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	struct ptx_persist p;
	char *rewritten;
	size_t len;

	if (codes.mode == REWRITE_OFF || !is_one(image, size) ||
	    fatbin_ptx(image, size, codes.sm, &text, &len) < 0 ||
	    ptx_persist(text, len, codes.yields, NULL, &p) < 0)
		return NULL;
	if (has_better(image, size, p.module->sm)) {
		ptx_persist_fini(&p);
		return NULL;
	}
	say(&p);
	if (ret_reasons) {
		*ret_reasons = p.text ? reasons_of(&p) : NULL;
		atomic_fetch_add(&codes.kernels_seen, p.n);
		atomic_fetch_add(&codes.copies, p.n_copies);
	}
	rewritten = steal(p.text);
	*ret_size = p.len + 1;
	ptx_persist_fini(&p);
	return rewritten;
}

/* ---- machine code ---- */

/* Strings that begin with these words. */
static uint64_t count(const char *data, size_t size, const char *words)
{
	size_t len = strlen(words);
	const char *end = data + size, *at = data;
	uint64_t n = 0;

	while ((at = memmem(at, (size_t)(end - at), words, len)) != NULL) {
		n += at > data && !at[-1];
		at += len;
	}
	return n;
}

/* Whether it was made of a text with copies. */
static bool has_copies(const void *image, size_t size)
{
	enum fatbin_format format;

	return fatbin_format(image, size, &format) == 0 && format == FATBIN_IS_ELF &&
	       memmem(image, size, PTX_PERSIST_CONTROL, sizeof(PTX_PERSIST_CONTROL));
}

/* Each kernel has a section for its parameters. */
static void count_kernels(const void *image, size_t size)
{
	uint64_t copies = count(image, size, ".nv.constant0." PTX_PERSIST_NAME);

	atomic_fetch_add(&codes.kernels_seen,
			 count(image, size, ".nv.constant0.") - copies);
	atomic_fetch_add(&codes.copies, copies);
}

/* ---- loading ---- */

static int add(const struct dev_ctx *ctx, struct dev_module *mod, char *text,
	       struct reason *reasons)
{
	struct code *c = calloc(1, sizeof(*c));
	int r = -1;

	if (!c)
		return -1;
	c->ctx = ctx;
	c->mod = mod;
	c->text = text;
	c->reasons = reasons;
	pthread_mutex_lock(&codes.lock);
	if (table_add(&codes.modules, mod, c) == 0) {
		list_append(&codes.all, &c->link);
		r = 0;
	}
	pthread_mutex_unlock(&codes.lock);
	if (r < 0)
		free(c);
	return r;
}

typedef CUresult load_fn(struct dev_ctx *ctx, const void *image, size_t size,
			 struct dev_jit *jit, struct dev_module **ret_module);

/* Machine code with copies; without them, should memory be short. */
static CUresult load_code(struct dev_ctx *ctx, const void *image, size_t size,
			  struct dev_jit *jit, load_fn *fn,
			  struct dev_module **ret_module)
{
	CUresult r = fn(ctx, image, size, jit, ret_module);

	if (r == CUDA_SUCCESS && add(ctx, *ret_module, NULL, NULL) == 0)
		count_kernels(image, size);
	return r;
}

/* The image itself is loaded if the driver has anything against the rewritten text. */
static CUresult load(struct dev_ctx *ctx, const void *image, size_t size,
		     struct dev_jit *jit, load_fn *fn, bool library,
		     struct dev_module **ret_module)
{
	_cleanup_free_ char *text = NULL;
	struct dev_jit again = jit ? *jit : (struct dev_jit){0};
	struct reason *reasons = NULL;
	struct dev_module *mod = NULL;
	size_t text_size;
	CUresult r;

	if (has_copies(image, size))
		return load_code(ctx, image, size, jit, fn, ret_module);
	text = rewrite(image, size, &reasons, &text_size);
	if (!text)
		return fn(ctx, image, size, jit, ret_module);
	r = fn(ctx, text, text_size, jit, &mod);
	if (r != CUDA_SUCCESS)
		mod = NULL;
	else if (library)
		r = codes.under->module.status(mod);
	if (r == CUDA_SUCCESS && add(ctx, mod, library ? text : NULL, reasons) == 0) {
		if (library)
			(void)steal(text);
		*ret_module = mod;
		return CUDA_SUCCESS;
	}
	log_info("kernels run as they are: what was made of them does not load (%d)",
		 (int)r);
	reasons_free(reasons);
	if (mod)
		codes.under->module.unload(mod);
	if (jit)
		*jit = again;
	return fn(ctx, image, size, jit, ret_module);
}

CUresult code_load(struct dev_ctx *ctx, const void *image, size_t size,
		   struct dev_jit *jit, struct dev_module **ret_module)
{
	return load(ctx, image, size, jit, codes.under->module.load, false, ret_module);
}

CUresult code_load_library(struct dev_ctx *ctx, const void *image, size_t size,
			   struct dev_jit *jit, struct dev_module **ret_module)
{
	return load(ctx, image, size, jit, codes.under->module.load_library, true,
		    ret_module);
}

/* ---- links ---- */

CUresult code_link_create(struct dev_ctx *ctx, const struct dev_jit *jit,
			  struct dev_link **ret_link)
{
	CUresult r = codes.under->link->create(ctx, jit, ret_link);

	if (r == CUDA_SUCCESS && codes.mode != REWRITE_OFF) {
		pthread_mutex_lock(&codes.lock);
		(void)table_add(&codes.links, *ret_link, *ret_link);
		pthread_mutex_unlock(&codes.lock);
	}
	return r;
}

/* Whether it has had no input, of those that are to have copies. */
static bool is_new(const struct dev_link *link)
{
	bool is;

	pthread_mutex_lock(&codes.lock);
	is = table_remove(&codes.links, link);
	pthread_mutex_unlock(&codes.lock);
	return is;
}

CUresult code_link_add(struct dev_link *link, CUjitInputType type, const void *data,
		       size_t size, const char *name, struct dev_jit *jit)
{
	_cleanup_free_ char *text = NULL;
	size_t text_size;

	if (is_new(link) && (type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_FATBINARY))
		text = rewrite(data, size, NULL, &text_size);
	/* Refused, the input itself says why, or is linked. */
	if (text && codes.under->link->add(link, CU_JIT_INPUT_PTX, text, text_size, name,
					   jit) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	return codes.under->link->add(link, type, data, size, name, jit);
}

void code_link_destroy(struct dev_link *link)
{
	(void)is_new(link);
	codes.under->link->destroy(link);
}

/* ---- unloading ---- */

/* Kernels go with the module that has them. */
static void drop_kernels_locked(const struct code *c)
{
	const struct code *of;
	const void *key;
	struct kernel *k;

	for (size_t at = 0; (k = table_next(&codes.kernels, &at, &key)) != NULL;) {
		if (k->code != c)
			continue;
		(void)table_remove(&codes.kernels, key);
		trial_drop(k);
		free(k);
	}
	for (size_t at = 0; (of = table_next(&codes.left, &at, &key)) != NULL;) {
		if (of == c)
			(void)table_remove(&codes.left, key);
	}
}

static struct code *take_locked(const struct dev_module *mod)
{
	struct code *c = table_remove(&codes.modules, mod);

	if (c) {
		drop_kernels_locked(c);
		list_remove(&c->link);
	}
	return c;
}

static void code_free(struct code *c)
{
	if (!c)
		return;
	free(c->text);
	reasons_free(c->reasons);
	free(c->functions);
	free(c);
}

void code_unload(struct dev_module *mod)
{
	struct code *c;

	pthread_mutex_lock(&codes.lock);
	c = take_locked(mod);
	pthread_mutex_unlock(&codes.lock);
	codes.under->module.unload(mod);
	code_free(c);
}

/* ---- functions ---- */

static bool is_ours(const char *name)
{
	return !strncmp(name, PTX_PERSIST_NAME, strlen(PTX_PERSIST_NAME));
}

static size_t params_size(struct dev_func *f)
{
	struct dev_param p = {0};
	size_t end = 0;

	for (unsigned i = 0; codes.under->func.param(f, i, &p) == CUDA_SUCCESS; i++)
		end = p.offset + p.size;
	return end;
}

/* Code that was compiled before does not say: otherwise. */
static const char *reason_of(const struct code *c, const char *name,
			     const char *otherwise)
{
	for (const struct reason *r = c->reasons; r && r->name; r++) {
		if (!strcmp(r->name, name))
			return r->why;
	}
	return otherwise;
}

/* The caller's to free; NULL: memory is short. */
static char *with_prefix(const char *prefix, const char *name)
{
	char *s;

	return asprintf(&s, "%s%s", prefix, name) < 0 ? NULL : s;
}

/* Size of a variable that says something of a kernel; 0: there is none. */
static uint64_t said_of(struct dev_module *mod, const char *prefix, const char *kernel)
{
	_cleanup_free_ char *name = with_prefix(prefix, kernel);
	CUdeviceptr addr;
	size_t size;

	return name && !codes.under->module.global(mod, name, &addr, &size) ? size : 0;
}

/* Notes that a function has a copy, if it has. */
static void note_locked(struct dev_module *mod, struct code *c, const char *name,
			struct dev_func *f)
{
	_cleanup_free_ char *copy_name = NULL;
	struct kernel *k;
	struct dev_func *copy;
	size_t size;

	if (table_find(&codes.kernels, f) || table_find(&codes.left, f))
		return;
	if (!c->control &&
	    codes.under->module.global(mod, PTX_PERSIST_CONTROL, &c->control, &size))
		return;
	copy_name = with_prefix(PTX_PERSIST_NAME, name);
	if (!copy_name)
		return;
	if (codes.under->module.function(mod, copy_name, &copy)) {
		if (table_add(&codes.left, f, c) == 0)
			form_add_locked(name, NULL,
					reason_of(c, name,
						  "was left alone when it was compiled"));
		return;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return;
	k->copy = copy;
	k->code = c;
	k->params_size = params_size(f);
	k->thread_bytes = codes.yields ? said_of(mod, PTX_PERSIST_STATE, name) : 0;
	k->rows = said_of(mod, PTX_PERSIST_ROWS, name);
	if (table_add(&codes.kernels, f, k) < 0)
		free(k);
	else
		form_add_locked(name, k, reason_of(c, name, ""));
}

static void note(struct dev_module *mod, const char *name, struct dev_func *f)
{
	struct code *c;

	pthread_mutex_lock(&codes.lock);
	c = table_find(&codes.modules, mod);
	if (c)
		note_locked(mod, c, name, f);
	pthread_mutex_unlock(&codes.lock);
}

static bool is_rewritten(const struct dev_module *mod)
{
	return table_find(&codes.modules, mod);
}

CUresult code_function(struct dev_module *mod, const char *name,
		       struct dev_func **ret_func)
{
	CUresult r;

	if (is_ours(name) && is_rewritten(mod))
		return CUDA_ERROR_NOT_FOUND;
	r = codes.under->module.function(mod, name, ret_func);
	if (r == CUDA_SUCCESS)
		note(mod, name, *ret_func);
	return r;
}

/* Finds the functions that are the program's. */
static CUresult list_functions_locked(struct dev_module *mod, struct code *c)
{
	struct dev_func *f;
	const char *name;
	unsigned n;
	CUresult r = codes.under->module.function_count(mod, &n);

	if (r || c->functions)
		return r;
	c->functions = calloc(n + 1, sizeof(*c->functions));
	if (!c->functions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->n_functions = 0;
	for (unsigned i = 0; i < n; i++) {
		if (codes.under->module.function_at(mod, i, &f, &name) == CUDA_SUCCESS &&
		    !is_ours(name))
			c->functions[c->n_functions++] = i;
	}
	return CUDA_SUCCESS;
}

/* The module with its functions listed; NULL: it has no copies. */
static CUresult with_functions(struct dev_module *mod, struct code **ret_c)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&codes.lock);
	*ret_c = table_find(&codes.modules, mod);
	if (*ret_c)
		r = list_functions_locked(mod, *ret_c);
	pthread_mutex_unlock(&codes.lock);
	return r;
}

CUresult code_function_at(struct dev_module *mod, unsigned index,
			  struct dev_func **ret_func, const char **ret_name)
{
	struct code *c;
	CUresult r = with_functions(mod, &c);

	if (r)
		return r;
	if (c && index >= c->n_functions)
		return CUDA_ERROR_NOT_FOUND;
	if (c)
		index = c->functions[index];
	r = codes.under->module.function_at(mod, index, ret_func, ret_name);
	if (r == CUDA_SUCCESS && c)
		note(mod, *ret_name, *ret_func);
	return r;
}

CUresult code_function_count(struct dev_module *mod, unsigned *ret_n)
{
	struct code *c;
	CUresult r = with_functions(mod, &c);

	if (!c)
		return codes.under->module.function_count(mod, ret_n);
	if (r == CUDA_SUCCESS)
		*ret_n = c->n_functions;
	return r;
}

CUresult code_global(struct dev_module *mod, const char *name, CUdeviceptr *ret_addr,
		     size_t *ret_size)
{
	if ((!strcmp(name, PTX_PERSIST_CONTROL) ||
	     !strncmp(name, PTX_PERSIST_STATE, strlen(PTX_PERSIST_STATE))) &&
	    is_rewritten(mod))
		return CUDA_ERROR_NOT_FOUND;
	return codes.under->module.global(mod, name, ret_addr, ret_size);
}

/* ---- counters ---- */

CUdeviceptr code_control(struct code *c, const struct dev_stream *st)
{
	const void *key =
		st ? (const void *)st : (const void *)c; /* NULL: the legacy one */
	size_t first = ((uintptr_t)key >> 5) * 0x9e3779b1u;

	for (size_t i = 0; i < PTX_PERSIST_SLOTS; i++) {
		size_t slot = (first + i) % PTX_PERSIST_SLOTS;
		const void *has = atomic_load(&c->streams[slot]);

		if (!has && atomic_compare_exchange_strong(&c->streams[slot], &has, key))
			has = key;
		if (has == key)
			return c->control + slot * sizeof(struct ptx_persist_control);
	}
	return 0;
}

CUdeviceptr code_control_free(struct code *c, unsigned *ret_slot)
{
	for (unsigned i = 0; i < PTX_PERSIST_SLOTS; i++) {
		unsigned slot = c->next_slot++ % PTX_PERSIST_SLOTS;
		const void *has = NULL;

		if (!atomic_compare_exchange_strong(&c->streams[slot], &has, &launched))
			continue;
		*ret_slot = slot;
		return c->control + slot * sizeof(struct ptx_persist_control);
	}
	return 0;
}

void code_forget_stream(const struct dev_stream *st)
{
	struct code *c;

	pthread_mutex_lock(&codes.lock);
	list_for_each (c, &codes.all, link) {
		for (size_t i = 0; i < PTX_PERSIST_SLOTS; i++) {
			if (atomic_load(&c->streams[i]) == st)
				atomic_store(&c->streams[i], &gone);
		}
	}
	pthread_mutex_unlock(&codes.lock);
}

void code_take(const struct dev_ctx *ctx, struct list *ret_taken)
{
	struct code *c, *tmp;

	list_init(ret_taken);
	pthread_mutex_lock(&codes.lock);
	list_for_each_safe (c, tmp, &codes.all, link) {
		if (!ctx || c->ctx == ctx)
			list_append(ret_taken, &take_locked(c->mod)->link);
	}
	pthread_mutex_unlock(&codes.lock);
}

void code_drop(struct list *taken)
{
	struct code *c, *tmp;

	list_for_each_safe (c, tmp, taken, link)
		code_free(c);
}

void code_end(void)
{
	table_fini(&codes.modules);
	table_fini(&codes.kernels);
	table_fini(&codes.links);
	table_fini(&codes.left);
	table_fini(&codes.contexts);
	table_fini(&codes.streams);
	table_fini(&codes.words_streams);
}
