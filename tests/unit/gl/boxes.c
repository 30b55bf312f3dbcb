/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of textures: what each takes, and how guest and host cut and check them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../guestlib/gl/memory.h"
#include "gl/resource.h"

#define RGBA8 67u
#define R8    64u
#define BC5   115u /* 4 x 4 pixels in 16 bytes */
#define NV12  166u

static struct gl_resource is(uint32_t target, uint32_t format, uint32_t w, uint32_t h)
{
	return (struct gl_resource){.handle = 7,
				    .target = target,
				    .format = format,
				    .width = w,
				    .height = h,
				    .depth = 1,
				    .array_size = 1};
}

static uint64_t bytes_of(const struct gl_resource *r)
{
	const struct resources none = {0};
	struct gl_format f;
	uint64_t bytes;
	int e = resource_check(&none, r, &f, &bytes);

	return e < 0 ? (uint64_t)e : bytes;
}

Test(boxes, bytes_of_a_resource)
{
	struct gl_resource r = is(2, RGBA8, 64, 64);

	cr_assert(bytes_of(&r) == 64 * 64 * 4);
	r.nr_samples = 4;
	cr_assert(bytes_of(&r) == 4 * 64 * 64 * 4);
	r.nr_samples = 0;
	r.last_level = 6; /* 64 to 1 */
	cr_assert(bytes_of(&r) == (5461 * 4 + 4095) / 4096 * 4096);
	r = is(2, BC5, 10, 10);
	cr_assert(bytes_of(&r) == 4096); /* 3 x 3 blocks */
	r = is(3, RGBA8, 128, 128);
	r.depth = 128;
	r.last_level = 1;
	cr_assert(bytes_of(&r) == (128 * 128 * 128 + 64 * 64 * 64) * 4);
	r = is(0, R8, 1u << 31, 1);
	cr_assert(bytes_of(&r) == 1ull << 31);
	r.array_size = 0; /* as Mesa's fences have it */
	cr_assert(bytes_of(&r) == 1ull << 31);
	r = is(2, RGBA8, 64, 64);
	r.array_size = 0;
	cr_assert(bytes_of(&r) == (uint64_t)-EINVAL);
	r = is(7, RGBA8, 65536, 65536);
	r.array_size = 65536;
	cr_assert(bytes_of(&r) == 1ull << 50);
}

Test(boxes, resources_that_are_none)
{
	static const struct gl_resource none[] = {
		{.handle = 7,
		 .target = 2,
		 .format = RGBA8,
		 .width = 4,
		 .height = 4,
		 .depth = 1},
		{0, 2, RGBA8, 0, 4, 4, 1, 1},
		{7, 9, RGBA8, 0, 4, 4, 1, 1},
		{7, 2, NV12, 0, 4, 4, 1, 1},
		{7, 2, 4000, 0, 4, 4, 1, 1},
		{7, 2, RGBA8, 0, 65537, 4, 1, 1},
		{7, 2, RGBA8, 0, 4, 4, 1, 1, 16},
		{7, 2, RGBA8, 0, 4, 4, 1, 1, 0, 65},
		{7, 0, R8, 0, 4, 2, 1, 1},
	};

	for (unsigned i = 0; i < sizeof(none) / sizeof(*none); i++)
		cr_assert(bytes_of(&none[i]) == (uint64_t)-EINVAL, "%u", i);
}

Test(boxes, numbers_in_use)
{
	struct resources rs = {0};
	struct gl_resource r = is(2, RGBA8, 64, 64);
	struct gl_format f;
	uint64_t bytes;

	cr_assert(resource_check(&rs, &r, &f, &bytes) == 0);
	cr_assert(resource_add(&rs, &r, &f, bytes) == 0);
	cr_assert(resource_check(&rs, &r, &f, &bytes) == -EEXIST);
	cr_assert(rs.bytes == 16384 && resource_find(&rs, 7) && !resource_find(&rs, 6));
	cr_assert(resource_remove(&rs, resource_find(&rs, 7)) == 16384 && !rs.bytes &&
		  !rs.n);
}

/* Walks over a box as the guest does, and has the host check each part. Returns the parts. */
static unsigned walk(const struct gl_resource *r, const struct gl_transfer *t,
		     uint64_t size, uint64_t offset)
{
	struct memory_box box = {.t = *t, .offset = offset}, part;
	struct resource host = {.is = *r};
	unsigned char *packed = malloc(WIRE_PAYLOAD_MAX), *was;
	struct memories ms = {0};
	struct memory_walk w;
	struct memory *m;
	uint64_t sum = 0;
	struct box b;
	uint32_t n;
	unsigned parts = 0;
	int fd;

	cr_assert(gl_format(r->format, &host.format));
	cr_assert(memory_new(&ms, r, size, &fd) == 0);
	close(fd);
	m = memory_find(&ms, r->handle);
	was = malloc(size);
	for (uint64_t i = 0; i < size; i++)
		was[i] = (unsigned char)(m->at[i] = (char)(i * 7 + i / 251));
	if (memory_walk(m, &box, &w)) {
		for (; (n = memory_next(m, &w, &part)); parts++) {
			cr_assert(resource_box(&host, &part.t, &b) == 0 && b.bytes == n);
			memory_pack(m, &part, packed);
			for (uint32_t i = 0; i < n; i++)
				packed[i] ^= 0xff;
			memory_unpack(m, &part, packed);
			sum += n;
		}
		/* Each byte of the box has changed once, and no other. */
		for (uint64_t i = 0; i < size; i++)
			sum -= (unsigned char)m->at[i] == (was[i] ^ 0xff);
		cr_assert(sum == 0);
	}
	memories_fini(&ms);
	free(packed);
	free(was);
	return parts;
}

Test(boxes, are_cut_into_parts)
{
	struct gl_resource r = is(2, RGBA8, 64, 64);
	struct gl_transfer t = {.handle = 7, .w = 64, .h = 64, .d = 1};

	cr_assert(walk(&r, &t, 16384, 0) == 1);
	t = (struct gl_transfer){.handle = 7, .x = 3, .y = 5, .w = 11, .h = 13, .d = 1};
	cr_assert(walk(&r, &t, 16384, (5 * 64 + 3) * 4) == 1);
	cr_assert(walk(&r, &t, 16384, 16384 - 13 * 256) == 1);
	cr_assert(walk(&r, &t, 16384, 16384 - 12 * 256) == 0, "beyond its memory");
	/* Products that would go round, and a row that is none of the texture's. */
	t = (struct gl_transfer){.handle = 7, .w = 64, .h = 64, .d = UINT32_MAX};
	cr_assert(walk(&r, &t, 16384, 0) == 0);
	t = (struct gl_transfer){.handle = 7, .w = 65, .h = 1, .d = 1};
	cr_assert(walk(&r, &t, 16384, 0) == 0);
	r = is(2, RGBA8, 1024, 1024); /* 4 MiB */
	t = (struct gl_transfer){.handle = 7, .w = 1024, .h = 1024, .d = 1};
	cr_assert(walk(&r, &t, 4 << 20, 0) == 4);
	r = is(0, R8, 3 << 20, 1); /* one row of 3 MiB */
	t = (struct gl_transfer){.handle = 7, .x = 5, .w = (3 << 20) - 5, .h = 1, .d = 1};
	cr_assert(walk(&r, &t, 3 << 20, 5) == 3);
	r = is(3, RGBA8, 256, 256); /* layers of 256 KiB */
	r.depth = 10;
	t = (struct gl_transfer){.handle = 7, .z = 1, .w = 256, .h = 256, .d = 9};
	cr_assert(walk(&r, &t, 10 << 18, 1 << 18) == 3);
	r = is(3, RGBA8, 1024, 512); /* layers of 2 MiB */
	r.depth = 2;
	t = (struct gl_transfer){.handle = 7, .w = 1024, .h = 512, .d = 2};
	cr_assert(walk(&r, &t, 4 << 20, 0) == 4);
	r = is(2, BC5, 30, 30);
	t = (struct gl_transfer){.handle = 7, .x = 4, .y = 8, .w = 26, .h = 22, .d = 1};
	cr_assert(walk(&r, &t, 8 * 8 * 16, (2 * 8 + 1) * 16) == 1);
}

Test(boxes, that_are_none)
{
	static const struct gl_transfer none[] = {
		{.level = 1, .w = 1, .h = 1, .d = 1},
		{.w = 0, .h = 1, .d = 1},
		{.w = 65, .h = 1, .d = 1},
		{.x = 64, .w = 1, .h = 1, .d = 1},
		{.x = 1, .w = UINT32_MAX, .h = 1, .d = 1},
		{.w = 1, .h = 1, .d = 2},
		{.y = 60, .w = 1, .h = 5, .d = 1},
	};
	struct resource r = {.is = is(2, RGBA8, 64, 64)};
	struct box b;

	gl_format(RGBA8, &r.format);
	for (unsigned i = 0; i < sizeof(none) / sizeof(*none); i++)
		cr_assert(resource_box(&r, &none[i], &b) == -EINVAL, "%u", i);
	r.is = is(2, BC5, 30, 30);
	gl_format(BC5, &r.format);
	cr_assert(resource_box(&r, &(struct gl_transfer){.x = 2, .w = 4, .h = 4, .d = 1},
			       &b) == -EINVAL);
	cr_assert(resource_box(&r, &(struct gl_transfer){.w = 6, .h = 4, .d = 1}, &b) ==
		  -EINVAL);
	r.is = is(2, RGBA8, 1024, 1024);
	gl_format(RGBA8, &r.format);
	cr_assert(resource_box(&r, &(struct gl_transfer){.w = 1024, .h = 257, .d = 1},
			       &b) == -EINVAL);
}
