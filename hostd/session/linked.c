/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "session/linked.h"

#define CONTAINER_BYTES 16u
#define ENTRY_BYTES     64u
/* An entry of PTX as nvcc writes it: a word and an empty string of options are behind it,
 * without which the real driver falls over. */
#define PTX_ENTRY_BYTES 80u
#define CONTAINER_MAGIC 0xba55ed50u
#define ENTRY_PTX       1u
#define ENTRY_64_BIT    1u
static void put(uint8_t *p, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = bytes; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static bool is_container(const struct image *img)
{
	return img->size >= CONTAINER_BYTES && get(img->data, 4) == CONTAINER_MAGIC;
}

static void put_container(uint8_t *p, uint64_t bytes)
{
	put(p, CONTAINER_MAGIC, 4);
	put(p + 4, 1, 2);
	put(p + 6, CONTAINER_BYTES, 2);
	put(p + 8, bytes, 8);
}

static void put_entry(uint8_t *p, unsigned kind, unsigned bytes, uint64_t payload)
{
	put(p, kind, 2);
	put(p + 2, 0x101, 2);
	put(p + 4, bytes, 4);
	put(p + 8, payload, 8);
	put(p + 40, ENTRY_64_BIT, 8);
}

/* The number behind a directive of PTX text; fallback if there is none. */
static unsigned directive(const struct image *img, const char *name, unsigned fallback)
{
	const char *at = memmem(img->data, img->size, name, strlen(name));
	const char *end = (const char *)img->data + img->size;
	unsigned v = 0;

	if (!at)
		return fallback;
	for (at += strlen(name); at < end && *at == ' ';)
		at++;
	for (; at < end && *at >= '0' && *at <= '9' && v < 1000; at++)
		v = 10 * v + (unsigned)(*at - '0');
	return v ? v : fallback;
}

static void put_ptx_entry(uint8_t *p, const struct image *img, uint64_t payload)
{
	put_entry(p, ENTRY_PTX, PTX_ENTRY_BYTES, payload);
	put(p + 20, 64, 4);
	put(p + 26, directive(img, ".version", 7), 2);
	put(p + 28, directive(img, ".target sm_", 50), 4);
	put(p + 64, 72, 4);
}

/* Bytes of an input as a container, padded. */
static uint64_t packed_size(const struct image *img)
{
	if (is_container(img))
		return ALIGN_UP(img->size, 8ull);
	return CONTAINER_BYTES + PTX_ENTRY_BYTES + ALIGN_UP(img->size + 1, 8ull);
}

/* The room is zeroed: text is padded and ends with a NUL. */
static void pack_input(uint8_t *to, const struct image *img)
{
	uint64_t payload = ALIGN_UP(img->size + 1, 8ull);

	if (!is_container(img)) {
		put_container(to, PTX_ENTRY_BYTES + payload);
		put_ptx_entry(to + CONTAINER_BYTES, img, payload);
		to += CONTAINER_BYTES + PTX_ENTRY_BYTES;
	}
	memcpy(to, img->data, img->size);
}

int linked_pack(const struct image *inputs, unsigned n, struct image *ret_image)
{
	struct image all = {.size = CONTAINER_BYTES};
	uint8_t *at;

	if (!n)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++)
		all.size += ENTRY_BYTES + packed_size(&inputs[i]);
	if (all.size > IMAGES_BYTES_MAX)
		return -E2BIG;
	at = all.data = calloc(1, all.size + 1);
	if (!at)
		return -ENOMEM;
	put_container(at, all.size - CONTAINER_BYTES);
	at += CONTAINER_BYTES;
	for (unsigned i = 0; i < n; i++) {
		put_entry(at, LINKED_KIND, ENTRY_BYTES, packed_size(&inputs[i]));
		pack_input(at + ENTRY_BYTES, &inputs[i]);
		at += ENTRY_BYTES + packed_size(&inputs[i]);
	}
	*ret_image = all;
	return 0;
}

bool linked_is(const struct image *img)
{
	return is_container(img) && img->size >= CONTAINER_BYTES + ENTRY_BYTES &&
	       get((uint8_t *)img->data + CONTAINER_BYTES, 2) == LINKED_KIND;
}

/* One entry at p, of which `left` bytes remain. Returns its size, 0 if it is none. */
static uint64_t entry_size(const uint8_t *p, uint64_t left)
{
	uint64_t payload;

	if (left < ENTRY_BYTES || get(p, 2) != LINKED_KIND ||
	    get(p + 4, 4) != ENTRY_BYTES)
		return 0;
	payload = get(p + 8, 8);
	if (payload % 8 || payload < CONTAINER_BYTES || payload > left - ENTRY_BYTES)
		return 0;
	return ENTRY_BYTES + payload;
}

/* Returns a container's size as its head says; padding may follow. 0: not one. */
static uint64_t container_size(const uint8_t *p, uint64_t room)
{
	uint64_t bytes = get(p + 8, 8);

	if (get(p, 4) != CONTAINER_MAGIC || get(p + 6, 2) != CONTAINER_BYTES ||
	    bytes > room - CONTAINER_BYTES)
		return 0;
	return CONTAINER_BYTES + bytes;
}

int linked_unpack(const struct image *img, struct image *ret_image)
{
	const uint8_t *p = (const uint8_t *)img->data + CONTAINER_BYTES;
	uint64_t left = img->size - CONTAINER_BYTES;
	_cleanup_free_ uint8_t *out = NULL;
	uint64_t used = 0;

	out = malloc(img->size + 1);
	if (!out)
		return -ENOMEM;
	while (left) {
		uint64_t entry = entry_size(p, left), inner;

		inner = entry ? container_size(p + ENTRY_BYTES, entry - ENTRY_BYTES) : 0;
		if (!inner)
			return -EBADMSG;
		memcpy(out + used, p + ENTRY_BYTES, inner);
		used += inner;
		p += entry;
		left -= entry;
	}
	out[used] = '\0';
	*ret_image = (struct image){steal(out), used};
	return 0;
}
