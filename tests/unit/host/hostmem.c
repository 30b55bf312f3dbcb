/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of a session, on the software device: places, limits, what is freed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "../device/band.h"
#include "memory/hostmem.h"
#include "session/command.h"
#include "session/session.h"

#define FIRST (1ull << 20)
#define SIZE  (4ull << 20)
#define LIMIT (3ull << 20)

static uint64_t charged;

static int host_charge(void *arg, uint64_t bytes, uint64_t *ret_offset)
{
	if (charged + bytes > LIMIT)
		return -EDQUOT;
	*ret_offset = FIRST + charged;
	charged += bytes;
	return 0;
}

static void host_uncharge(void *arg, uint64_t offset, uint64_t bytes)
{
	charged -= bytes;
}

static const struct accounts broker = {.host_charge = host_charge,
				       .host_uncharge = host_uncharge};

struct fixture {
	struct session *s;
	struct hostmem *h;
	struct dev_ctx *ctx;
	int fd;
};

static struct fixture start(const struct accounts *b, bool placed)
{
	struct fixture f = {.fd = fd_memfd("test", FIRST + SIZE)};
	struct hostmem_file file = {
		.fd = f.fd, .first = FIRST, .size = placed ? 0 : SIZE, .placed = placed};
	struct device_config cfg = {.tpcs = 1, .memory_bytes = 64 << 20, .threads = 1};

	device_band_release();
	cr_assert_eq(sess_new(&device_soft_ops, &cfg, b, &f.s), 0);
	cr_assert_eq(hostmem_new(&f.s->env, &file, &f.h), 0);
	f.s->hostmem = f.h;
	cr_assert_eq(f.s->ops->ctx.create(f.s->dev, 0, &f.ctx), CUDA_SUCCESS);
	return f;
}

static void stop(struct fixture *f)
{
	sess_free(f->s);
	close(f->fd);
}

static uint64_t blocks(const struct fixture *f)
{
	struct stat st;

	cr_assert_eq(fstat(f->fd, &st), 0);
	return (uint64_t)st.st_blocks;
}

Test(hostmem, places_do_not_overlap_and_come_back)
{
	struct accounts none = {0};
	struct fixture f = start(&none, false);
	struct hostmem_region g[4], again;

	for (unsigned i = 0; i < 4; i++) {
		cr_assert_eq(hostmem_alloc(f.h, f.ctx, 100000 * (i + 1), &g[i]),
			     CUDA_SUCCESS);
		cr_assert_geq(g[i].size, 100000 * (i + 1));
		cr_assert(g[i].offset >= FIRST &&
			  g[i].offset + g[i].size <= FIRST + SIZE);
		for (unsigned j = 0; j < i; j++)
			cr_assert((g[i].addr >= g[j].addr + g[j].size ||
				   g[j].addr >= g[i].addr + g[i].size) &&
				  (g[i].offset >= g[j].offset + g[j].size ||
				   g[j].offset >= g[i].offset + g[i].size));
	}
	cr_assert_eq(hostmem_alloc(f.h, f.ctx, SIZE, &again), CUDA_ERROR_OUT_OF_MEMORY);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(hostmem_release(f.h, f.ctx, g[i].addr), CUDA_SUCCESS);
	cr_assert_eq(hostmem_alloc(f.h, f.ctx, SIZE, &again), CUDA_SUCCESS);
	stop(&f);
}

Test(hostmem, freed_pages_go_back_to_the_host)
{
	struct accounts none = {0};
	struct fixture f = start(&none, false);
	struct hostmem_region g;
	uint64_t before = blocks(&f);

	cr_assert_eq(hostmem_alloc(f.h, f.ctx, 1 << 20, &g), CUDA_SUCCESS);
	cr_assert_eq(pwrite(f.fd, "x", 1, (off_t)g.offset), 1);
	cr_assert_gt(blocks(&f), before);
	cr_assert_eq(hostmem_release(f.h, f.ctx, g.addr), CUDA_SUCCESS);
	cr_assert_eq(blocks(&f), before);
	stop(&f);
}

Test(hostmem, the_broker_limits_and_places)
{
	struct fixture f = start(&broker, true);
	struct hostmem_region a, b;

	charged = 0;
	cr_assert_eq(hostmem_alloc(f.h, f.ctx, 2 << 20, &a), CUDA_SUCCESS);
	cr_assert_eq(a.offset, FIRST);
	cr_assert_eq(hostmem_alloc(f.h, f.ctx, 2 << 20, &b), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(charged, 2 << 20, "what was refused is not charged");
	cr_assert_eq(hostmem_release(f.h, f.ctx, a.addr), CUDA_SUCCESS);
	cr_assert_eq(charged, 0);
	stop(&f);
}

Test(hostmem, nonsense_is_refused)
{
	struct fixture f = start(&broker, false);
	struct hostmem_region g;

	charged = 0;
	cr_assert_eq(hostmem_alloc(NULL, f.ctx, 4096, &g), CUDA_ERROR_NOT_SUPPORTED);
	cr_assert_eq(hostmem_alloc(f.h, f.ctx, 0, &g), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(hostmem_alloc(f.h, f.ctx, UINT64_MAX, &g), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(hostmem_release(f.h, f.ctx, DEVICE_HOST_BASE),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(hostmem_alloc(f.h, f.ctx, 4096, &g), CUDA_SUCCESS);
	cr_assert_eq(hostmem_release(f.h, f.ctx, g.addr + 4096),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(hostmem_release(f.h, f.ctx, g.addr), CUDA_SUCCESS);
	cr_assert_eq(hostmem_release(f.h, f.ctx, g.addr), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(charged, 0);
	stop(&f);
}
