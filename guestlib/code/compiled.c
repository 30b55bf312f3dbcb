/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "code/compiled.h"
#include "feature.h"
#include "core/image.h"
#include "code/linker.h"
#include "core/process.h"

/* In every key: changes when the same input is to be compiled anew. */
#define KEY_VERSION "module 2"

static unsigned capability(CUdevice_attribute attr)
{
	return (unsigned)guest_process.device.attributes[attr];
}

/* The only part of an image, if that has to be compiled here. */
static bool find_source(const void *image, size_t max, struct code_part *ret)
{
	const void *more;
	size_t size;

	return image_part(image, max, 0, &ret->data, &ret->size) == 0 &&
	       image_part(image, max, 1, &more, &size) != 0 &&
	       image_needs_compiler(
		       ret->data, ret->size,
		       capability(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
		       capability(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

static struct code_key make_key(const struct code_part *source,
				const struct jit_options *jit)
{
	const struct guest_device *d = &guest_process.device;
	unsigned target[] = {
		capability(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
		capability(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
	};
	const struct code_part parts[] = {
		{KEY_VERSION, sizeof(KEY_VERSION)},
		{d->driver, strlen(d->driver)},
		{&d->rewriter, sizeof(d->rewriter)},
		{target, sizeof(target)},
		{&jit->max_registers, sizeof(jit->max_registers)},
		{&jit->optimization_level, sizeof(jit->optimization_level)},
		{&jit->flags, sizeof(jit->flags)},
		{jit->others, jit->n_others * sizeof(jit->others[0])},
		*source,
	};

	return code_key_of(parts, ARRAY_SIZE(parts));
}

static bool is_text(const struct code_part *source)
{
	uint32_t magic = IMAGE_CONTAINER_MAGIC;

	return source->size < sizeof(magic) ||
	       memcmp(source->data, &magic, sizeof(magic)) != 0;
}

static bool compile(struct guest_thread *t, const struct code_part *source,
		    struct jit_options *jit, struct compiled *c)
{
	struct timespec start, end;

	clock_gettime(CLOCK_MONOTONIC, &start);
	if (linker_compile(t, is_text(source) ? CU_JIT_INPUT_PTX : CU_JIT_INPUT_FATBINARY,
			   source->data, source->size, jit, &c->code, &c->size))
		return false;
	clock_gettime(CLOCK_MONOTONIC, &end);
	jit_store_wall_time(jit, (float)(end.tv_sec - start.tv_sec) * 1e3f +
					 (float)(end.tv_nsec - start.tv_nsec) / 1e6f);
	code_cache_put(&c->key, c->code, c->size);
	return true;
}

bool compiled_get(struct guest_thread *t, const void *image, size_t max,
		  struct jit_options *jit, struct compiled *ret)
{
	struct code_part source;
	struct compiled c;

	if (!(guest_process.device.features & FEATURE_COMPILES) ||
	    !code_cache_enabled() || !find_source(image, max, &source))
		return false;
	c.key = make_key(&source, jit);
	if (code_cache_get(&c.key, &c.code, &c.size) == 0) {
		jit_store_log(&jit->info, NULL, 0);
		jit_store_log(&jit->error, NULL, 0);
		jit_store_wall_time(jit, 0);
	} else if (!compile(t, &source, jit, &c)) {
		return false;
	}
	*ret = c;
	return true;
}
