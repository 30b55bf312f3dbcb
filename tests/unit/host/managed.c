/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory of a session, on the software device: who has a piece, and what is in it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "../device/band.h"
#include "memory/hostmem.h"
#include "memory/managed.h"
#include "memory/space.h"
#include "session/command.h"
#include "session/session.h"

#define MIB    (1ull << 20)
#define FIRST  MIB
#define SIZE   (64 * MIB)
#define DEVICE (32 * MIB)
#define BYTES  (2 * MANAGED_PIECE + 3 * MIB)
#define MAPPED (2 * MANAGED_PIECE + 4 * MIB)

static uint64_t charged, host_charged, spills;

/* Charges of the device's memory; the last `spills` bytes lie in host memory. */
static int charge(void *arg, uint64_t bytes, bool spare, uint64_t *ret_evicted)
{
	if (charged + bytes > DEVICE)
		return -EDQUOT;
	charged += bytes;
	*ret_evicted = spills;
	return 0;
}

static void uncharge(void *arg, uint64_t bytes)
{
	charged -= bytes;
}

static int host_charge(void *arg, uint64_t bytes, uint64_t *ret_offset)
{
	if (host_charged + bytes > SIZE)
		return -EDQUOT;
	*ret_offset = FIRST + host_charged;
	host_charged += bytes;
	return 0;
}

static void host_uncharge(void *arg, uint64_t offset, uint64_t bytes)
{
	host_charged -= bytes;
}

static const struct accounts broker = {.charge_part = charge,
				       .uncharge = uncharge,
				       .host_charge = host_charge,
				       .host_uncharge = host_uncharge};

static struct {
	struct session *s;
	struct managed *m;
	struct dev_ctx *ctx;
	char *file;
	int fd, quiet; /* what quiet() says instead of working */
} f;

static struct managed_wait soon = {.us = 1000}, long_after;

static int quiet(void *arg, struct managed_wait *wait, int (*work)(void *what),
		 void *what)
{
	return f.quiet ? f.quiet : work(what);
}

static void start(void)
{
	struct device_config cfg = {.tpcs = 1, .memory_bytes = 2 * DEVICE, .threads = 1};
	struct hostmem_file file = {.first = FIRST, .placed = true};

	f.fd = file.fd = fd_memfd("test", FIRST + SIZE);
	f.file = mmap(NULL, FIRST + SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd, 0);
	cr_assert_neq(f.file, MAP_FAILED);
	device_band_release();
	cr_assert_eq(sess_new(&device_soft_ops, &cfg, &broker, &f.s), 0);
	cr_assert_eq(sess_set_hostmem(f.s, &file), 0);
	f.m = f.s->managed;
	managed_on_quiet(f.m, quiet, NULL);
	cr_assert_eq(f.s->ops->ctx.create(f.s->dev, 0, &f.ctx), CUDA_SUCCESS);
	charged = host_charged = 0;
}

static void stop(void)
{
	sess_free(f.s);
	munmap(f.file, FIRST + SIZE);
	close(f.fd);
}

static uint64_t moved(const struct managed_region *g, uint64_t at, uint64_t size,
		      bool to_device)
{
	uint64_t bytes = 77;

	cr_assert_eq(managed_move(f.m, g->addr + at, size, to_device, &soon, &bytes),
		     CUDA_SUCCESS);
	return bytes;
}

static char on_device(CUdeviceptr addr)
{
	char c;

	cr_assert_eq(f.s->ops->copy.read(f.ctx, NULL, &c, addr, 1), CUDA_SUCCESS);
	return c;
}

static void put(CUdeviceptr addr, char c)
{
	cr_assert_eq(f.s->ops->copy.write(f.ctx, NULL, addr, &c, 1), CUDA_SUCCESS);
	cr_assert_eq(f.s->ops->stream.synchronize(f.ctx, NULL), CUDA_SUCCESS);
}

TestSuite(managed, .init = start, .fini = stop);

Test(managed, pieces_go_to_and_fro_with_what_is_in_them)
{
	struct managed_region g;
	char *host;

	cr_assert_eq(managed_alloc(f.m, BYTES, &g), CUDA_SUCCESS);
	cr_assert_eq(g.size, MAPPED);
	cr_assert_eq(host_charged, MAPPED);
	cr_assert_eq(charged, 0, "nothing of it is the device's");
	host = f.file + g.offset;
	host[0] = 'a';
	host[MANAGED_PIECE] = 'b';
	host[MAPPED - 1] = 'c';
	cr_assert_eq(on_device(g.addr), 'a', "the device sees the host's");
	put(g.addr + 1, 'x');
	cr_assert_eq(host[1], 'x');

	cr_assert_eq(moved(&g, 0, MAPPED, true), MAPPED);
	cr_assert_eq(charged, MAPPED);
	cr_assert_eq(on_device(g.addr), 'a');
	cr_assert_eq(on_device(g.addr + MANAGED_PIECE), 'b');
	cr_assert_eq(on_device(g.addr + MAPPED - 1), 'c');
	put(g.addr + MANAGED_PIECE, 'd');
	cr_assert_eq(host[MANAGED_PIECE], 'b', "the host's is an old one now");

	cr_assert_eq(moved(&g, MANAGED_PIECE, 1, false), MANAGED_PIECE);
	cr_assert_eq(charged, MAPPED - MANAGED_PIECE);
	cr_assert_eq(host[MANAGED_PIECE], 'd');
	host[MANAGED_PIECE] = 'e';
	cr_assert_eq(on_device(g.addr + MANAGED_PIECE), 'e');
	cr_assert_eq(moved(&g, 0, MAPPED, true), MAPPED, "those that are there stay");
	cr_assert_eq(moved(&g, 0, MAPPED, false), MAPPED);
	cr_assert_eq(moved(&g, 0, MAPPED, false), MAPPED);
	cr_assert_eq(charged, 0);
	cr_assert(host[0] == 'a' && host[1] == 'x' && host[MAPPED - 1] == 'c');
	cr_assert_eq(managed_release(f.m, g.addr), CUDA_SUCCESS);
	cr_assert_eq(host_charged, 0);
}

Test(managed, what_there_is_no_room_for_stays)
{
	struct managed_region g;

	cr_assert_eq(managed_alloc(f.m, BYTES, &g), CUDA_SUCCESS);
	charged = DEVICE - MANAGED_PIECE - MIB;
	cr_assert_eq(moved(&g, 0, MAPPED, true), MANAGED_PIECE);
	cr_assert_eq(charged, DEVICE - MIB, "nothing is charged for what did not move");
	cr_assert_eq(moved(&g, MANAGED_PIECE, MANAGED_PIECE, true), 0);
	charged = MANAGED_PIECE;
	cr_assert_eq(managed_release(f.m, g.addr), CUDA_SUCCESS);
	cr_assert_eq(charged, 0, "what it had on the device is free again");
}

Test(managed, what_spills_is_as_evicted_memory)
{
	struct managed_region g;
	char *host;

	cr_assert_eq(managed_alloc(f.m, BYTES, &g), CUDA_SUCCESS);
	host = f.file + g.offset;
	host[0] = 'a';
	spills = MANAGED_PIECE;
	cr_assert_eq(moved(&g, 0, MANAGED_PIECE, true), MANAGED_PIECE);
	spills = 0;
	cr_assert_eq(charged, MANAGED_PIECE);
	cr_assert_eq(on_device(g.addr), 'a');
	put(g.addr, 'b');
	cr_assert_eq(host[0], 'a', "this part of the file is an old one now");
	cr_assert_eq(moved(&g, 0, MANAGED_PIECE, false), MANAGED_PIECE);
	cr_assert_eq(host[0], 'b');
	cr_assert_eq(charged, 0);
	cr_assert_eq(managed_release(f.m, g.addr), CUDA_SUCCESS);
}

Test(managed, nothing_moves_before_the_session_is_quiet)
{
	struct managed_region g;
	uint64_t bytes = 77;

	cr_assert_eq(managed_alloc(f.m, BYTES, &g), CUDA_SUCCESS);
	f.file[g.offset] = 'a';
	f.quiet = -EBUSY;
	cr_assert_eq(managed_move(f.m, g.addr, MAPPED, true, &soon, &bytes),
		     CUDA_ERROR_NOT_READY);
	cr_assert_eq(bytes, 0);
	f.quiet = -EPIPE;
	cr_assert_eq(managed_move(f.m, g.addr, MAPPED, true, &long_after, &bytes),
		     CUDA_ERROR_UNKNOWN);
	cr_assert_eq(charged, 0);
	f.quiet = 0;
	managed_on_quiet(f.m, NULL, NULL);
	cr_assert_eq(managed_move(f.m, g.addr, MAPPED, true, &long_after, &bytes),
		     CUDA_ERROR_NOT_SUPPORTED);
	cr_assert_eq(on_device(g.addr), 'a');
}

Test(managed, what_is_duplicated_stays_where_it_is)
{
	struct managed_region g;
	char *host;

	cr_assert_eq(managed_alloc(f.m, BYTES, &g), CUDA_SUCCESS);
	host = f.file + g.offset;
	host[MANAGED_PIECE - 1] = 'a';
	host[MANAGED_PIECE] = 'b';
	cr_assert_eq(moved(&g, 0, MANAGED_PIECE, true), MANAGED_PIECE);
	put(g.addr + 5, 'd');
	put(g.addr + MANAGED_PIECE - 1, 'e');
	f.quiet = -EBUSY;
	cr_assert_eq(managed_duplicate(f.m, g.addr, MAPPED, &soon), CUDA_ERROR_NOT_READY);
	f.quiet = 0;
	/* The second piece is the host's. */
	cr_assert_eq(managed_duplicate(f.m, g.addr + MANAGED_PIECE - 2, 4, &soon),
		     CUDA_SUCCESS);
	cr_assert(host[MANAGED_PIECE - 1] == 'e' && host[MANAGED_PIECE] == 'b');
	cr_assert_eq(host[5], 0, "and no more than was asked for");
	put(g.addr + MANAGED_PIECE - 1, 'f');
	cr_assert_eq(host[MANAGED_PIECE - 1], 'e');
	cr_assert_eq(charged, MANAGED_PIECE);
	cr_assert_eq(managed_duplicate(f.m, g.addr, MAPPED, &soon), CUDA_SUCCESS);
	cr_assert(host[5] == 'd' && host[MANAGED_PIECE - 1] == 'f');
	cr_assert_eq(moved(&g, 0, MANAGED_PIECE, false), MANAGED_PIECE);
	cr_assert(host[5] == 'd' && host[MANAGED_PIECE - 1] == 'f');
	managed_on_quiet(f.m, NULL, NULL);
	cr_assert_eq(managed_duplicate(f.m, g.addr, MAPPED, &soon),
		     CUDA_ERROR_NOT_SUPPORTED);
}

Test(managed, nonsense_is_refused)
{
	struct managed_region g, h;
	CUdeviceptr reserved;
	uint64_t bytes;

	cr_assert_eq(managed_alloc(f.m, 0, &g), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(managed_alloc(f.m, UINT64_MAX, &g), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(managed_alloc(f.m, SIZE + 1, &g), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(managed_alloc(f.m, BYTES, &g), CUDA_SUCCESS);
	cr_assert_eq(managed_alloc(f.m, 1, &h), CUDA_SUCCESS);
	const struct {
		uint64_t at, size;
	} bad[] = {
		{0, 0},
		{1, MANAGED_PIECE},
		{MANAGED_PIECE, MAPPED},
		{MAPPED, MANAGED_PIECE},
		{0, MAPPED + 1},
		{0, UINT64_MAX},
		{-MANAGED_PIECE, MANAGED_PIECE},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(managed_move(f.m, g.addr + bad[i].at, bad[i].size, i % 2,
					  &soon, &bytes),
			     CUDA_ERROR_INVALID_VALUE, "%zu", i);
		cr_assert(i == 1 ||
				  managed_duplicate(f.m, g.addr + bad[i].at, bad[i].size,
						    &soon) == CUDA_ERROR_INVALID_VALUE,
			  "%zu", i);
	}
	/* A guest may do all this to ranges of its own. */
	cr_assert_eq(space_unmap(f.s->space, g.addr, MAPPED), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_unreserve(f.s->space, g.addr, MAPPED),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_set_access(f.s->space, g.addr, MAPPED,
				      CU_MEM_ACCESS_FLAGS_PROT_NONE),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_release(f.s->space, g.addr), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_reserve(f.s->space, MAPPED, 0, g.addr, &reserved),
		     CUDA_SUCCESS);
	cr_assert_neq(reserved, g.addr);
	cr_assert_eq(managed_release(f.m, g.addr + MANAGED_PIECE),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(managed_release(f.m, g.addr), CUDA_SUCCESS);
	cr_assert_eq(managed_release(f.m, g.addr), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(managed_move(f.m, g.addr, MAPPED, true, &long_after, &bytes),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(host_charged, 2 * MIB, "the other one");
}
