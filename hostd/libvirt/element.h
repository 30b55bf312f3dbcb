/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The element <gpu> of the name space urn:weft:domain:1, with which a libvirt domain asks
 * for a share of a GPU: between XML and keys of weftd.conf(5). weft-domain.rng is the
 * schema and says what is right; this file says in words what is wrong.
 */
#ifndef WEFT_LIBVIRT_ELEMENT_H
#define WEFT_LIBVIRT_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <libxml/tree.h>

#include "util/conf.h"
#include "util/tpcs.h"

#define GPU_NS       "urn:weft:domain:1"
#define GPU_KEYS_MAX 24

struct gpu_key {
	const char *key; /* of weftd.conf, or "cid" */
	char value[TPCS_TEXT]; /* as weftd.conf has it */
};

struct gpu {
	char tenant[CONF_NAME_MAX + 1]; /* "": none is named */
	uint32_t cid;                   /* 0: any that is free */
	uint64_t window_size;           /* 0: not said */
	struct gpu_key
		keys[GPU_KEYS_MAX]; /* what was said, cid and window.size as well */
	unsigned n_keys;
};

/* The schema's text, and its length. */
extern const char weft_domain_rng[];
extern const unsigned weft_domain_rng_len;

/*
 * Reads an element. Returns 0, or -EINVAL or -ENOMEM; *ret_why is then a malloced
 * sentence, the caller's, or NULL.
 */
int gpu_read(xmlNode *element, struct gpu *ret, char **ret_why);

/* Sets a key, as a command line has it; likewise. */
int gpu_set(struct gpu *g, const char *key, const char *value, char **ret_why);

/*
 * Adds the element, with a declaration of its name space, as the last child of parent.
 * NULL: no memory.
 */
xmlNode *gpu_write(const struct gpu *g, xmlNode *parent);

/* Bytes of a unit of libvirt's. Returns 0 or -EINVAL. */
int gpu_unit_bytes(const char *unit, uint64_t *ret);

/* The value of a key, or NULL: not said. */
const char *gpu_value(const struct gpu *g, const char *key);

/* True for the element itself. */
bool gpu_is(const xmlNode *node);

#endif
