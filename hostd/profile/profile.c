/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/macros.h"
#include "core/image.h"
#include "profile/compare.h"
#include "profile/keep.h"
#include "profile/pages.h"
#include "profile/profile.h"
#include "ptx/extent/table.h"

/* Code that was loaded. */
struct code {
	const void *owner;
	struct ptx_code code;
	struct ptx_extents *extents;
};

struct function {
	const void *handle;
	bool is_kernel;
	const struct ptx_extents *extents;
	struct kernel *kernel;
};

static struct {
	pthread_mutex_t lock;
	bool on;
	const char *to, *from; /* files to write and to compare with; NULL */
	struct ptx_templates *said;
	struct spans memory;
	struct code *code;
	size_t n_code;
	struct function *functions;
	size_t n_functions;
	struct kernels kernels;
	/* The launch that is begun, if it is looked at. */
	bool looks;
	const struct function *function;
	struct launch launch;
} p = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- beginning ---- */

void profile_end(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "weft-run: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	fflush(NULL);
	_exit(125);
}

static void read_said(const char *path)
{
	_cleanup_free_ char *text = malloc(TEMPLATES_TEXT_MAX + 1);
	struct ptx_template_error error;
	FILE *f = fopen(path, "re");
	size_t size = f && text ? fread(text, 1, TEMPLATES_TEXT_MAX + 1, f) : 0;
	int r = f && text ? ptx_templates_new(text, size, &p.said, &error) : -EIO;

	if (f)
		fclose(f);
	if (r == 0)
		return;
	if (r == -EINVAL)
		profile_end("--compare: %s:%u: %s", path, error.line, error.why);
	profile_end("--compare: %s cannot be read", path);
}

void profile_begin(void)
{
	scoped_lock(&p.lock);
	if (p.on)
		return;
	p.to = getenv("WEFT_PROFILE");
	p.from = getenv("WEFT_PROFILE_COMPARE");
	if (p.from)
		read_said(p.from);
	p.on = true;
}

/* ---- memory ---- */

/* Whole pieces and one between allocations, since the driver moves what shares one. */
CUresult profile_alloc(CUdeviceptr *ret, size_t size, unsigned flags)
{
	CUresult r = DRIVER(cuMemAllocManaged)(ret, ALIGN_UP(size, PIECE) + PIECE, flags);

	if (r)
		return r;
	scoped_lock(&p.lock);
	if (spans_add(&p.memory, *ret, *ret + size) < 0) {
		DRIVER(cuMemFree_v2)(*ret);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

bool profile_free(CUdeviceptr address, CUresult *ret)
{
	bool own = false;

	{
		scoped_lock(&p.lock);
		for (size_t i = 0; !own && i < p.memory.n; i++) {
			own = p.memory.v[i].from == address;
			if (own)
				p.memory.v[i] = p.memory.v[--p.memory.n];
		}
	}
	if (!own)
		return false;
	DRIVER(cuCtxSynchronize)();
	*ret = DRIVER(cuMemFree_v2)(address);
	return true;
}

static void to_host(void)
{
	const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};

	for (size_t i = 0; i < p.memory.n; i++) {
		const struct span *m = &p.memory.v[i];

		DRIVER(cuMemPrefetchAsync_v2)(m->from, m->to - m->from, host, 0, NULL);
	}
	DRIVER(cuCtxSynchronize)();
}

/* Adds what is on the device, or not yet anywhere; away from here, in any case. */
static int find_away(struct spans *ret)
{
	int r = 0;

	for (size_t i = 0; i < p.memory.n && r == 0; i++)
		r = pages_away(&p.memory.v[i], ret);
	return r;
}

/* Has all of it mapped here. */
static void map_all(void)
{
	struct spans away = {0};

	to_host();
	find_away(&away);
	for (size_t i = 0; i < away.n; i++) {
		for (uint64_t at = away.v[i].from; at < away.v[i].to; at += PAGES_SIZE)
			(void)*(volatile char *)(uintptr_t)at;
	}
	spans_free(&away);
}

/* ---- code ---- */

/* The parts of an image one after the other, as a worker has them; the caller's. */
static char *parts_of(const void *image, size_t *ret_size)
{
	const void *data;
	char *all;
	size_t size;

	*ret_size = 0;
	for (unsigned i = 0; image_part(image, SIZE_MAX, i, &data, &size) == 0; i++)
		*ret_size += size;
	all = *ret_size ? malloc(*ret_size) : NULL;
	*ret_size = 0;
	for (unsigned i = 0; all && image_part(image, SIZE_MAX, i, &data, &size) == 0;
	     i++) {
		memcpy(all + *ret_size, data, size);
		*ret_size += size;
	}
	return all;
}

static unsigned capability(void)
{
	__typeof__(&cuDeviceGetAttribute) attribute = DRIVER(cuDeviceGetAttribute);
	int major = 0, minor = 0;
	CUdevice dev = 0;

	DRIVER(cuCtxGetDevice)(&dev);
	attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
	attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
	return (unsigned)(10 * major + minor);
}

/* A handle that was given before names what it was given for last. */
static void add_code(const struct code *c)
{
	struct code *v = realloc(p.code, (p.n_code + 1) * sizeof(*v));

	if (!v)
		return;
	p.code = v;
	p.code[p.n_code++] = *c;
}

static const struct code *code_by(const void *owner)
{
	for (size_t i = p.n_code; i > 0; i--) {
		if (p.code[i - 1].owner == owner)
			return &p.code[i - 1];
	}
	return NULL;
}

void profile_code(const void *owner, const void *image)
{
	size_t size;
	_cleanup_free_ char *all = parts_of(image, &size);
	struct code c = {.owner = owner};

	if (!all)
		return;
	c.code = ptx_code_of(all, size);
	c.extents = ptx_extents_new(all, size, capability());
	scoped_lock(&p.lock);
	ptx_extents_say(&c.extents, p.said, &c.code);
	add_code(&c);
}

void profile_code_of(const void *owner, const void *other)
{
	const struct code *found;
	struct code c;

	scoped_lock(&p.lock);
	found = code_by(other);
	if (!found)
		return;
	c = *found;
	c.owner = owner;
	add_code(&c);
}

static const struct function *function_by(const void *handle)
{
	for (size_t i = p.n_functions; i > 0; i--) {
		if (p.functions[i - 1].handle == handle)
			return &p.functions[i - 1];
	}
	return NULL;
}

/* A handle of unloaded code comes back as one of other code. */
static void add_function(const struct function *new)
{
	const struct function *old = function_by(new->handle);
	struct function *v;

	if (!new->kernel || (old && old->kernel == new->kernel))
		return;
	v = realloc(p.functions, (p.n_functions + 1) * sizeof(*v));
	if (!v)
		return;
	p.functions = v;
	v[p.n_functions++] = *new;
}

void profile_function(const void *handle, const void *owner, const char *name,
		      bool is_kernel)
{
	struct function f = {handle, is_kernel, NULL, NULL};
	const struct code *c;

	scoped_lock(&p.lock);
	c = code_by(owner);
	if (!c || !kernels_can_name(name))
		return;
	f.extents = c->extents;
	f.kernel = kernels_get(&p.kernels, &c->code, name);
	add_function(&f);
}

void profile_function_of(const void *handle, const void *kernel)
{
	const struct function *k;
	struct function f;

	scoped_lock(&p.lock);
	k = function_by(kernel);
	if (!k)
		return;
	f = *k;
	f.handle = handle;
	f.is_kernel = false;
	add_function(&f);
}

/* ---- launches ---- */

static bool param_at(const struct function *f, size_t i, size_t *ret_offset,
		     size_t *ret_size)
{
	return (f->is_kernel
			? DRIVER(cuKernelGetParamInfo)((CUkernel)f->handle, i, ret_offset,
						       ret_size)
			: DRIVER(cuFuncGetParamInfo)((CUfunction)f->handle, i, ret_offset,
						     ret_size)) == CUDA_SUCCESS;
}

static int copy_params(const struct function *f, void **params, struct launch *ret)
{
	size_t offset, size;

	for (size_t i = 0; param_at(f, i, &offset, &size); i++)
		ret->size = MAX(ret->size, offset + size);
	ret->params = calloc(1, ret->size + 1);
	if (!ret->params)
		return -ENOMEM;
	for (size_t i = 0; params && param_at(f, i, &offset, &size); i++)
		memcpy((char *)ret->params + offset, params[i], size);
	return 0;
}

/* Parameters as one buffer. */
static int copy_extra(void **extra, struct launch *ret)
{
	const void *from = NULL;

	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			from = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			ret->size = *(const size_t *)extra[1];
	}
	if (!from)
		return -EINVAL;
	ret->params = malloc(ret->size + 1);
	if (!ret->params)
		return -ENOMEM;
	memcpy(ret->params, from, ret->size);
	return 0;
}

static void hear(void *arg, uint64_t addr, uint64_t bytes)
{
	bool *open = arg;

	*open |= !bytes && spans_find(&p.launch.memory, addr);
}

/* Where PTX says it all, nobody has to be asked. */
static bool is_wanted(const struct function *f, const struct launch *l)
{
	const struct ptx_extent *e = ptx_extents_find(f->extents, f->kernel->name);
	bool open = false;

	if (p.from || !e || ptx_extent_follows(e))
		return true;
	ptx_extent_each(e, l->params, l->size, &l->shape, PIECE, hear, &open);
	return open;
}

static int copy_memory(struct launch *ret)
{
	for (size_t i = 0; i < p.memory.n; i++) {
		if (spans_add(&ret->memory, p.memory.v[i].from, p.memory.v[i].to) < 0)
			return -ENOMEM;
	}
	spans_join(&ret->memory);
	return 0;
}

static bool is_captured(CUstream stream)
{
	CUstreamCaptureStatus status;

	/* The legacy stream gives an error while another one is captured. */
	return DRIVER(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool note_launch(const struct profile_launch *l)
{
	struct launch *n = &p.launch;
	int r;

	p.function = p.on ? function_by(l->function) : NULL;
	if (!p.function || is_captured(l->stream))
		return false;
	*n = (struct launch){0};
	for (unsigned i = 0; i < 3; i++) {
		n->shape.blocks[i] = l->blocks[i];
		n->shape.threads[i] = l->threads[i];
	}
	r = l->extra && !l->params ? copy_extra(l->extra, n)
				   : copy_params(p.function, l->params, n);
	if (r == 0)
		r = copy_memory(n);
	if (r == 0 && is_wanted(p.function, n) && kernel_sees(p.function->kernel, n))
		return true;
	launch_free(n);
	return false;
}

void profile_launch_begin(const struct profile_launch *l)
{
	pthread_mutex_lock(&p.lock);
	p.looks = note_launch(l);
	if (!p.looks)
		return;
	DRIVER(cuCtxSynchronize)();
	map_all();
}

/* Forgets allocations that have nothing to do with a launch. */
static void trim(struct launch *l)
{
	struct spans all = l->memory;

	l->memory = (struct spans){0};
	for (size_t i = 0; i < all.n; i++) {
		const struct span *m = &all.v[i];
		bool named = false;

		for (size_t o = 0; !named && o + 8 <= l->size; o += 8)
			named = launch_word(l, o, 8) - m->from < m->to - m->from;
		for (size_t j = 0; !named && j < l->reached.n; j++)
			named = l->reached.v[j].from - m->from < m->to - m->from;
		if (named && spans_add(&l->memory, m->from, m->to) < 0)
			break;
	}
	spans_free(&all);
}

static void look(struct launch *l)
{
	const struct function *f = p.function;
	int r = find_away(&l->reached);

	if (r < 0)
		profile_end("--profile: /proc/self/pagemap: %s", strerror(-r));
	spans_join(&l->reached);
	trim(l);
	if (p.from)
		compare_launch(ptx_extents_find(f->extents, f->kernel->name), l,
			       &f->kernel->compared);
	kernel_keep(f->kernel, l);
}

void profile_launch_end(CUresult result)
{
	if (p.looks && !result)
		result = DRIVER(cuCtxSynchronize)();
	if (p.looks && !result)
		look(&p.launch);
	if (p.looks)
		launch_free(&p.launch);
	pthread_mutex_unlock(&p.lock);
}

/* ---- the end ---- */

static void print_row(const char *name, const struct compared *c)
{
	fprintf(stderr, "%-40.40s %8llu %9llu %8llu %8llu\n", name,
		(unsigned long long)c->launches, (unsigned long long)c->reached,
		(unsigned long long)c->missed, (unsigned long long)c->extra);
}

static void add_up(struct compared *all, const struct compared *c)
{
	all->launches += c->launches;
	all->reached += c->reached;
	all->missed += c->missed;
	all->extra += c->extra;
}

static void print_compared(void)
{
	struct compared foretold = {0}, open = {0};

	fprintf(stderr, "%-40s %8s %9s %8s %8s\n", "pieces of 2 MiB, of kernel",
		"launches", "reached", "missed", "extra");
	for (size_t i = 0; i < p.kernels.n; i++) {
		const struct compared *c = &p.kernels.v[i]->compared;

		if (!c->launches)
			continue;
		print_row(p.kernels.v[i]->name, c);
		add_up(c->open ? &open : &foretold, c);
	}
	print_row("all that are foretold", &foretold);
	print_row("all whose allocations count", &open);
}

__attribute__((destructor)) static void finish(void)
{
	scoped_lock(&p.lock);
	if (!p.on)
		return;
	if (p.to)
		keep_launches(p.to, &p.kernels);
	if (p.from)
		print_compared();
}
