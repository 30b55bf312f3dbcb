/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving memory out of the device and back, on the software GPU: whatever happens, what a
 * guest sees at its addresses stays what it wrote, and the books are exact.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "items.h"
#include "memory/transfer.h"

static uint64_t size_of_kind(enum kind kind)
{
	return kind == SMALL   ? 4 + (uint64_t)rand() % (200 << 10)
	       : kind == LARGE ? MIB + 4 + (uint64_t)rand() % (3 * MIB)
			       : 4 + (uint64_t)rand() % (3 * MIB);
}

#define ITEMS 40

static void move_somehow(struct session *s)
{
	uint64_t bytes = (uint64_t)rand() % (12 * MIB);
	struct space_residency before = residency(s);
	struct space_moved moved;
	int r;

	switch (rand() % 5) {
	case 0:
	case 1:
	case 2:
		r = space_move_out(s->space, bytes, UINT64_MAX,
				   rand() % 2 ? PLACE_MAPPED : PLACE_SWAPPED, &moved);
		cr_assert_eq(r, bytes > before.movable ? -ENOSPC : 0);
		cr_assert_geq(moved.bytes, MIN(bytes, before.movable));
		cr_assert_eq(residency(s).movable, before.movable - moved.bytes);
		break;
	case 3:
		cr_assert_eq(space_move_in(s->space, bytes, &moved), 0);
		cr_assert_leq(moved.bytes, bytes);
		cr_assert_eq(residency(s).movable, before.movable + moved.bytes);
		if (bytes >= before.mapped + before.swapped)
			cr_assert_eq(moved.bytes, before.mapped + before.swapped);
		break;
	default:
		within_reach(s);
	}
}

static bool takes_turns;

static void random_against_model(const struct placement *policy, uint64_t piece)
{
	struct session *s = start();
	struct item it[ITEMS];
	unsigned n = 0;

	srand(5);
	cr_assert_eq(space_set_piece(s->space, piece), 0);
	if (takes_turns)
		space_set_turns(s->space);
	space_set_placement(s->space, policy);
	space_host_pool_set(s->space, 4 * MIB);
	for (unsigned step = 0; step < 600; step++) {
		if (n < ITEMS && rand() % 3 == 0) {
			enum kind kind = (enum kind)(rand() % KINDS);

			within_reach(s);
			if (rand() % 3 == 0)
				counted.room = (uint64_t)rand() % 24 * PIECE;
			it[n++] = new_item(s, kind, size_of_kind(kind), (uint32_t)rand());
			counted.room = UINT64_MAX;
		} else if (n && rand() % 4 == 0) {
			unsigned i = (unsigned)rand() % n;

			free_item(s, &it[i]);
			it[i] = it[--n];
		} else {
			move_somehow(s);
		}
		check_books(s);
		if (n && rand() % 4 == 0) {
			unsigned i = (unsigned)rand() % n;

			within_reach(s);
			check_item(s, &it[i]);
			write_item(s, &it[i], (uint32_t)rand());
		}
		if (step % 50 == 0) {
			within_reach(s);
			for (unsigned i = 0; i < n; i++)
				check_item(s, &it[i]);
		}
	}
	cr_assert_gt(counted.evicted_freed, 0);
	while (n)
		free_item(s, &it[--n]);
	counted_end(s);
}

Test(move, random_against_model)
{
	random_against_model(NULL, PIECE);
}

Test(move, random_against_model_by_policy)
{
	random_against_model(&placement_random, PIECE);
}

/* Pieces that are large enough for digests, which are made where there are turns. */
Test(move, random_against_model_with_digests)
{
	takes_turns = true;
	random_against_model(&placement_random, MIB);
}

static uint64_t all_out(struct session *s)
{
	struct space_moved moved;

	cr_assert_eq(space_move_out(s->space, TOTAL, UINT64_MAX, PLACE_SWAPPED, &moved),
		     -ENOSPC);
	cr_assert_leq(moved.unchanged, moved.bytes);
	return moved.unchanged;
}

static void all_in(struct session *s)
{
	struct space_moved moved;

	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
}

Test(move, what_has_not_changed_is_not_copied)
{
	struct session *s = start();
	struct item it;
	uint32_t word = 77;

	cr_assert_eq(space_set_piece(s->space, MIB), 0);
	it = new_item(s, ARENA, 8 * MIB, 4);
	cr_assert_eq(all_out(s), 0);
	all_in(s);
	cr_assert_eq(all_out(s), 0, "there are no turns");
	all_in(s);
	space_set_turns(s->space);
	cr_assert_eq(all_out(s), 0, "it leaves for the first time");
	all_in(s);
	cr_assert_eq(all_out(s), 8 * MIB);
	all_in(s);
	check_item(s, &it);
	/* One word of one piece. */
	OK(s->ops->copy.write(s->primary->dev, NULL, it.addr + 3 * MIB + 4096, &word,
			      sizeof(word)));
	cr_assert_eq(all_out(s), 7 * MIB);
	all_in(s);
	cr_assert_eq(all_out(s), 8 * MIB);
	/* Kernels may have written where it was mapped. */
	within_reach(s);
	word = 78;
	OK(s->ops->copy.write(s->primary->dev, NULL, it.addr, &word, sizeof(word)));
	all_in(s);
	cr_assert_eq(all_out(s), 0);
	/* All of it changes: it is asked twice, and then no more for a while. */
	for (unsigned i = 0; i < 4; i++) {
		all_in(s);
		write_item(s, &it, 100 + i);
		cr_assert_eq(all_out(s), 0);
		all_in(s);
		check_item(s, &it);
	}
	free_item(s, &it);
	/* Another has something else there now. */
	it = new_item(s, ARENA, 8 * MIB, 4);
	cr_assert_eq(all_out(s), 0);
	all_in(s);
	check_item(s, &it);
	free_item(s, &it);
	counted_end(s);
}

static void (*prepare)(struct session *s);

/* Every call of the device that moving makes fails once; nothing is lost, ever. */
static void fail_everywhere(enum placement_where where, bool in)
{
	struct session *s = start();
	struct space_moved moved;
	struct item it[3];
	unsigned failed = 0;
	int r;

	if (prepare)
		prepare(s);
	cr_assert_eq(space_set_piece(s->space, 4 * PIECE), 0);
	it[0] = new_item(s, SMALL, 5000, 1);
	it[1] = new_item(s, ARENA, PAGE, 2);
	it[2] = new_item(s, RANGE, PAGE, 3);
	for (int64_t at = 1; at < 4000; at++) {
		if (in)
			cr_assert_eq(space_move_out(s->space, TOTAL, UINT64_MAX, where,
						    &moved),
				     -ENOSPC);
		atomic_store(&counted.fail_in, at);
		r = in ? space_move_in(s->space, TOTAL, &moved)
		       : space_move_out(s->space, 7 * MIB, UINT64_MAX, where, &moved);
		if (atomic_exchange(&counted.fail_in, 0) > 0) {
			cr_assert_eq(r, 0, "nothing failed any more");
			break;
		}
		failed += r < 0;
		cr_assert(r == 0 || r == -ENOMEM || r == -EIO);
		within_reach(s);
		check_books(s);
		for (unsigned i = 0; i < ARRAY_SIZE(it); i++)
			check_item(s, &it[i]);
		cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
		check_books(s);
		for (unsigned i = 0; i < ARRAY_SIZE(it); i++) {
			check_item(s, &it[i]);
			write_item(s, &it[i], it[i].seed + 77);
		}
	}
	cr_assert_gt(failed, 20);
	counted_end(s);
}

Test(move, failures_on_the_way_out_to_mapped)
{
	fail_everywhere(PLACE_MAPPED, false);
}

static void nobody(void *arg, uint64_t bytes)
{
}

/* If somebody waits for what leaves, all is copied before anything is mapped. */
static void wait_for_what_leaves(struct session *s)
{
	space_on_left(s->space, nobody, NULL);
}

Test(move, failures_on_the_way_out_while_somebody_waits)
{
	prepare = wait_for_what_leaves;
	fail_everywhere(PLACE_MAPPED, false);
}

Test(move, failures_on_the_way_out_to_swapped)
{
	fail_everywhere(PLACE_SWAPPED, false);
}

Test(move, failures_on_the_way_in_from_mapped)
{
	fail_everywhere(PLACE_MAPPED, true);
}

Test(move, failures_on_the_way_in_from_swapped)
{
	fail_everywhere(PLACE_SWAPPED, true);
}

Test(move, no_host_memory)
{
	struct session *s = start();
	struct item a = new_item(s, LARGE, 5 * MIB, 9), b = new_item(s, LARGE, PAGE, 10);
	struct space_moved moved;

	counted.no_host = true;
	cr_assert_eq(space_move_out(s->space, MIB, UINT64_MAX, PLACE_MAPPED, &moved),
		     -ENOMEM);
	cr_assert_eq(moved.bytes, 0);
	check_books(s);
	check_item(s, &a);
	counted.no_host = false;
	cr_assert_eq(space_move_out(s->space, MIB, UINT64_MAX, PLACE_MAPPED, &moved), 0);
	counted.no_device = true;
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), -ENOMEM);
	cr_assert_eq(moved.bytes, 0);
	check_item(s, &a);
	check_item(s, &b);
	counted.no_device = false;
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
	check_item(s, &a);
	counted_end(s);
}

static void expect_zero(struct session *s, CUdeviceptr addr, uint64_t bytes)
{
	char *w = malloc(bytes), *zero = calloc(bytes, 1);

	OK(s->ops->copy.read(s->primary->dev, NULL, w, addr, bytes));
	cr_assert(!memcmp(w, zero, bytes));
	free(w);
	free(zero);
}

/* Partly in host memory from the beginning, and on the device once there is room. */
Test(move, a_part_that_spilled_moves_like_the_rest)
{
	struct session *s = start();
	struct space_moved moved;
	struct item it[KINDS];
	CUdeviceptr addr;

	counted.room = 3 * PIECE;
	OK(space_alloc(s->space, 8 * MIB, 1, &addr));
	cr_assert_eq(residency(s).movable, 3 * PIECE);
	cr_assert_eq(residency(s).mapped, 8 * MIB - 3 * PIECE);
	expect_zero(s, addr, 8 * MIB);
	OK(space_release(s->space, addr));
	cr_assert_eq(counted.evicted_freed, 8 * MIB - 3 * PIECE);
	check_books(s);
	for (unsigned k = 0; k < KINDS; k++)
		it[k] = new_item(s, (enum kind)k, k == SMALL ? 5000 : PAGE, k);
	cr_assert_eq(counted.on_device, 3 * PIECE * 5);
	check_books(s);
	cr_assert_eq(space_move_out(s->space, PIECE, UINT64_MAX, PLACE_SWAPPED, &moved),
		     0);
	within_reach(s);
	for (unsigned k = 0; k < KINDS; k++)
		check_item(s, &it[k]);
	cr_assert_eq(space_move_in(s->space, UINT64_MAX, &moved), 0);
	cr_assert_eq(residency(s).mapped, 0);
	check_books(s);
	for (unsigned k = 0; k < KINDS; k++) {
		check_item(s, &it[k]);
		free_item(s, &it[k]);
	}
	counted.room = UINT64_MAX;
	counted_end(s);
}

/* All that was charged is given back, whatever cannot be had. */
Test(move, a_spill_fails)
{
	struct session *s = start();
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	CUdeviceptr addr;

	counted.room = 3 * PIECE;
	counted.no_host = true;
	cr_assert_eq(space_alloc(s->space, 8 * MIB, 1, &addr), r);
	cr_assert_eq(space_alloc(s->space, 8, 1, &addr), r);
	counted.no_host = false;
	counted.no_device = true;
	cr_assert_eq(space_alloc(s->space, 8 * MIB, 1, &addr), r);
	counted.no_device = false;
	cr_assert_eq(counted.charged, 0);
	check_books(s);
	for (int64_t at = 1; r != CUDA_SUCCESS; at++) {
		cr_assert_lt(at, 1000);
		counted.fail_in = at;
		r = space_alloc(s->space, 4 * MIB, 1, &addr);
		check_books(s);
		cr_assert_eq(counted.charged, r == CUDA_SUCCESS ? 4 * MIB : 0);
	}
	OK(space_release(s->space, addr));
	counted.room = UINT64_MAX;
	counted_end(s);
}

Test(move, what_is_pinned_stays)
{
	struct session *s = start();
	struct backing *twice, *unmapped, *host;
	struct space_moved moved;
	CUdeviceptr base;

	OK(space_reserve(s->space, 4 * PAGE, 0, 0, &base));
	OK(backing_new(s->space, PAGE, DEV_MEMORY_DEVICE, &twice));
	OK(backing_new(s->space, PAGE, DEV_MEMORY_DEVICE, &unmapped));
	OK(backing_new(s->space, PAGE, DEV_MEMORY_HOST, &host));
	OK(space_map(s->space, base, PAGE, twice));
	OK(space_map(s->space, base + PAGE, PAGE, twice));
	OK(space_map(s->space, base + 2 * PAGE, PAGE, host));
	cr_assert_eq(residency(s).pinned, 3 * PAGE);
	cr_assert_eq(space_move_out(s->space, 1, UINT64_MAX, PLACE_MAPPED, &moved),
		     -ENOSPC);
	cr_assert_eq(moved.bytes, 0);
	OK(space_unmap(s->space, base + PAGE, PAGE));
	cr_assert_eq(residency(s).movable, PAGE);
	cr_assert_eq(space_move_out(s->space, 1, UINT64_MAX, PLACE_SWAPPED, &moved), 0);
	cr_assert_eq(moved.bytes, PAGE);
	backing_put(s->space, twice);
	backing_put(s->space, unmapped);
	backing_put(s->space, host);
	counted_end(s);
}

/* Compressible memory is plain while it is evicted, and made again as it was. */
Test(move, compressible_again)
{
	struct session *s = start();
	struct item it = {.bytes = 3 * PAGE};
	struct space_moved moved;
	struct backing *c;

	OK(space_reserve(s->space, it.bytes, 0, 0, &it.addr));
	OK(backing_new(s->space, it.bytes, DEV_MEMORY_COMPRESSIBLE, &c));
	cr_assert(backing_compressible(c));
	OK(space_map(s->space, it.addr, it.bytes, c));
	OK(space_set_access(s->space, it.addr, it.bytes,
			    CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	write_item(s, &it, 17);
	cr_assert_eq(counted_compressible(), it.bytes);
	for (enum placement_where where = PLACE_MAPPED; where <= PLACE_SWAPPED; where++) {
		OK(space_move_out(s->space, it.bytes, UINT64_MAX, where, &moved));
		cr_assert_eq(counted_compressible(), 0);
		OK(space_move_in(s->space, it.bytes, &moved));
		cr_assert_eq(counted_compressible(), it.bytes);
		check_item(s, &it);
	}
	backing_put(s->space, c);
	OK(space_unmap(s->space, it.addr, it.bytes));
	counted_end(s);
}

/* The guest goes on mapping while its memory is evicted. */
Test(move, mapped_and_closed_while_evicted)
{
	struct session *s = start();
	struct item it = {.bytes = PAGE};
	struct space_moved moved;
	struct backing *c;
	CUdeviceptr base;

	OK(space_reserve(s->space, 4 * PAGE, 0, 0, &base));
	OK(backing_new(s->space, PAGE, DEV_MEMORY_DEVICE, &c));
	OK(space_map(s->space, base, PAGE, c));
	OK(space_set_access(s->space, base, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	it.addr = base;
	write_item(s, &it, 3);

	cr_assert_eq(space_move_out(s->space, PAGE, UINT64_MAX, PLACE_SWAPPED, &moved),
		     0);
	OK(space_set_access(s->space, base, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READ));
	cr_assert_eq(space_set_access(s->space, base, PAGE, (CUmemAccess_flags)9),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_move_in(s->space, PAGE, &moved), 0);
	check_item(s, &it);
	cr_assert_neq(s->ops->copy.write(s->primary->dev, NULL, base, &it, 4),
		      CUDA_SUCCESS, "only readable, as it was asked for");

	/* out while nobody may look at it, and back */
	OK(space_set_access(s->space, base, PAGE, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	cr_assert_eq(space_move_out(s->space, PAGE, UINT64_MAX, PLACE_MAPPED, &moved), 0);
	cr_assert_neq(s->ops->copy.read(s->primary->dev, NULL, &it.seed, base, 4),
		      CUDA_SUCCESS);
	cr_assert_eq(space_move_in(s->space, PAGE, &moved), 0);
	cr_assert_neq(s->ops->copy.read(s->primary->dev, NULL, &moved, base, 4),
		      CUDA_SUCCESS);
	OK(space_set_access(s->space, base, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	check_item(s, &it);

	/* elsewhere: unmapped, it is nobody's to bring back */
	cr_assert_eq(space_move_out(s->space, PAGE, UINT64_MAX, PLACE_SWAPPED, &moved),
		     0);
	OK(space_map(s->space, base + PAGE, PAGE, c));
	OK(space_unmap(s->space, base, PAGE));
	OK(space_unmap(s->space, base + PAGE, PAGE));
	cr_assert_eq(residency(s).swapped, 0);
	cr_assert_eq(space_move_in(s->space, PAGE, &moved), 0);
	cr_assert_eq(moved.bytes, 0);
	OK(space_map(s->space, base + 2 * PAGE, PAGE, c));
	OK(space_set_access(s->space, base + 2 * PAGE, PAGE,
			    CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	it.addr = base + 2 * PAGE;
	check_item(s, &it);

	/* at two addresses at once it cannot leave, but return */
	OK(space_map(s->space, base, PAGE, c));
	OK(space_set_access(s->space, base, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READ));
	cr_assert_eq(space_move_in(s->space, PAGE, &moved), 0);
	cr_assert_eq(moved.bytes, PAGE);
	check_item(s, &it);
	it.addr = base;
	check_item(s, &it);
	backing_put(s->space, c);
	check_books(s);
	counted_end(s);
}

/* An extent leaves whole; it comes back in runs, and what is less than that in pieces. */
Test(move, pieces_and_runs)
{
	const uint64_t run = SPACE_RETURN_PIECES * PIECE;
	struct session *s = start();
	struct item it = new_item(s, LARGE, 2 * PAGE, 1);
	struct space_moved moved;

	cr_assert_eq(space_move_out(s->space, PIECE, UINT64_MAX, PLACE_SWAPPED, &moved),
		     0);
	cr_assert_eq(moved.bytes, 2 * PAGE, "an extent leaves whole");
	cr_assert_eq(space_move_in(s->space, 3 * PIECE + 1, &moved), 0);
	cr_assert_eq(moved.bytes, 3 * PIECE);
	cr_assert_eq(space_move_out(s->space, PIECE, UINT64_MAX, PLACE_MAPPED, &moved),
		     0);
	cr_assert_eq(moved.bytes, PIECE);
	within_reach(s);
	check_item(s, &it);
	/* two pieces of the first run are there, and one is mapped */
	cr_assert_eq(space_move_in(s->space, 2 * PAGE - 3 * PIECE, &moved), 0);
	cr_assert_eq(moved.bytes, 2 * PAGE - 3 * PIECE);
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
	cr_assert_eq(moved.bytes, PIECE);
	cr_assert_eq(space_move_out(s->space, TOTAL, UINT64_MAX, PLACE_SWAPPED, &moved),
		     -ENOSPC);
	cr_assert_eq(space_move_in(s->space, run + 3 * PIECE, &moved), 0);
	cr_assert_eq(moved.bytes, run + 3 * PIECE, "as much as may, whatever is left");
	cr_assert_eq(space_move_out(s->space, PIECE, UINT64_MAX, PLACE_SWAPPED, &moved),
		     0);
	cr_assert_eq(moved.bytes, run, "a run is one piece from then on");
	within_reach(s);
	check_item(s, &it);
	counted_end(s);
}

/* With a policy there is a largest extent; and never more moves than has room. */
Test(move, large_ones_are_several_extents)
{
	const uint64_t extent = SPACE_EXTENT_PIECES * PIECE,
		       bytes = 2 * extent + 4 * PAGE;
	struct session *s = start();
	struct space_moved moved;
	struct item it;

	/* in either order */
	cr_assert_eq(space_set_piece(s->space, 2 * PIECE), 0);
	space_set_placement(s->space, &placement_lru);
	cr_assert_eq(space_set_piece(s->space, PIECE), 0);
	it = new_item(s, LARGE, bytes, 3);
	cr_assert_eq(counted.on_device, bytes);
	cr_assert_eq(space_move_out(s->space, 1, 4 * PAGE - 1, PLACE_MAPPED, &moved),
		     -ENOSPC);
	cr_assert_eq(moved.bytes, 0);
	cr_assert_eq(space_move_out(s->space, 1, 4 * PAGE, PLACE_MAPPED, &moved), 0);
	cr_assert_eq(moved.bytes, 4 * PAGE);
	cr_assert_eq(space_move_out(s->space, bytes, extent, PLACE_MAPPED, &moved),
		     -ENOSPC);
	cr_assert_eq(moved.bytes, extent);
	check_item(s, &it);
	cr_assert_eq(space_move_in(s->space, bytes, &moved), 0);
	cr_assert_eq(moved.bytes, extent + 4 * PAGE);
	check_item(s, &it);
	cr_assert_eq(space_move_out(s->space, 1, extent, PLACE_SWAPPED, &moved), 0);
	cr_assert_eq(moved.bytes, SPACE_RETURN_PIECES * PIECE, "it came back in runs");
	free_item(s, &it);
	check_books(s);
	it = new_item(s, LARGE, bytes, 4); /* what lay idle */
	check_item(s, &it);
	counted_end(s);
}

/* ---- other lanes go on ---- */

static struct {
	struct session *s;
	struct item it;
	pthread_t thread;
} waits;

static void *set_access(void *arg)
{
	OK(space_set_access(waits.s->space, waits.it.addr, waits.it.bytes,
			    CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	return NULL;
}

static void begin_to_wait(void)
{
	cr_assert_eq(pthread_create(&waits.thread, NULL, set_access, NULL), 0);
	usleep(20000);
}

/* A thread that waits for a backing does not keep the rest of it out of reach. */
Test(move, mapped_though_somebody_waits)
{
	struct session *s = waits.s = start();
	struct space_moved moved;

	waits.it = new_item(s, RANGE, 2 * PAGE, 1);
	cr_assert_eq(space_move_out(s->space, TOTAL, UINT64_MAX, PLACE_SWAPPED, &moved),
		     -ENOSPC);
	cr_assert_eq(space_move_in(s->space, 3 * PIECE, &moved), 0);
	counted.on_map = begin_to_wait;
	within_reach(s);
	pthread_join(waits.thread, NULL);
	check_item(s, &waits.it);
	free_item(s, &waits.it);
	counted_end(s);
}

struct churn {
	struct session *s;
	_Atomic bool end;
	unsigned seed;
	uint64_t done;
};

/* Allocates, maps and frees; its contents are checked when all is quiet. */
static void *churn(void *arg)
{
	struct churn *c = arg;
	struct session *s = c->s;
	unsigned r = c->seed;

	while (!atomic_load(&c->end)) {
		uint64_t bytes = 1 + (r = r * 1103515245u + 12345u) % (3 * MIB);
		struct space_range range;
		CUdeviceptr a, base;

		OK(space_alloc(s->space, bytes, c->seed, &a));
		OK(space_find(s->space, a, &range));
		OK(space_reserve(s->space, 2 * PAGE, 0, 0, &base));
		map_backing(s, base, PAGE);
		OK(space_set_access(s->space, base, PAGE,
				    CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
		OK(space_unmap(s->space, base, PAGE));
		OK(space_unreserve(s->space, base, 2 * PAGE));
		if (r >> 16 & 1)
			OK(space_release(s->space, a));
		else
			space_release_owner(s->space, c->seed);
		c->done++;
	}
	return NULL;
}

static void *move_in_all_the_time(void *arg)
{
	struct churn *c = arg;
	struct space_moved moved;

	while (!atomic_load(&c->end)) {
		cr_assert_eq(space_move_in(c->s->space, 8 * MIB, &moved), 0);
		c->done += moved.bytes;
	}
	return NULL;
}

Test(move, while_others_allocate_and_both_ways)
{
	struct session *s = start();
	struct churn c[3] = {{.s = s, .seed = 2}, {.s = s, .seed = 3}, {.s = s}};
	struct space_moved moved;
	pthread_t t[3];
	struct item it[6];

	for (unsigned i = 0; i < ARRAY_SIZE(it); i++)
		it[i] = new_item(s, (enum kind)(i % KINDS), 2 * MIB + i, i);
	for (unsigned i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, i == 2 ? move_in_all_the_time : churn, &c[i]);
	for (unsigned i = 0; i < 40; i++) {
		int r = space_move_out(s->space, 6 * MIB, UINT64_MAX,
				       i % 2 ? PLACE_MAPPED : PLACE_SWAPPED, &moved);

		cr_assert(r == 0 || r == -ENOSPC);
	}
	for (unsigned i = 0; i < 3; i++) {
		atomic_store(&c[i].end, true);
		pthread_join(t[i], NULL);
	}
	cr_assert(c[0].done && c[1].done);
	within_reach(s);
	check_books(s);
	for (unsigned i = 0; i < ARRAY_SIZE(it); i++)
		check_item(s, &it[i]);
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(it); i++)
		check_item(s, &it[i]);
	counted_end(s);
}

/* ---- what leaves to be mapped ---- */

static void expect_maps_between(struct session *s, unsigned n)
{
	struct space_moved moved;

	counted.copies = 0;
	cr_assert_eq(space_move_out(s->space, 2 * PAGE, UINT64_MAX, PLACE_MAPPED, &moved),
		     0);
	cr_assert_eq(counted.copies, 2 * PAGE / PIECE);
	cr_assert_eq(counted.maps_last - counted.maps_first, n);
	cr_assert_eq(space_move_in(s->space, TOTAL, &moved), 0);
}

/* Each piece is mapped while others are copied: not the last ones before all have been;
 * what leaves later is read elsewhere, too, and the same if somebody waits. */
Test(move, mapped_while_it_is_copied)
{
	const unsigned n = 2 * PAGE / PIECE - STEPS;
	const unsigned runs = 2 * PAGE / PIECE / SPACE_RETURN_PIECES;
	struct session *s = start();
	struct item it = new_item(s, LARGE, 2 * PAGE, 1);

	expect_maps_between(s, n);
	expect_maps_between(s, n + runs - 1);
	wait_for_what_leaves(s);
	expect_maps_between(s, n + runs - 1);
	check_item(s, &it);
	counted_end(s);
}

static struct {
	struct session *s;
	uint64_t bytes, before;
	unsigned n;
} left;

static void on_left(void *arg, uint64_t bytes)
{
	struct space_residency r;

	space_residency(left.s->space, &r);
	cr_assert_eq(arg, &left);
	cr_assert_eq(counted.on_device + left.bytes + bytes, left.before,
		     "it is given back");
	cr_assert_eq(r.mapped, left.bytes, "and not mapped yet");
	left.bytes += bytes;
	left.n++;
}

/* Each piece is heard of before it is mapped, when the device has its own back. */
Test(move, heard_of_before_it_is_mapped, .timeout = 60)
{
	struct session *s = left.s = start();
	struct item it[2] = {new_item(s, LARGE, PAGE, 1),
			     new_item(s, LARGE, 2 * PAGE, 2)};
	struct space_moved moved;

	left.before = counted.on_device;
	space_on_left(s->space, on_left, &left);
	cr_assert_eq(space_move_out(s->space, 3 * PAGE, UINT64_MAX, PLACE_MAPPED, &moved),
		     0);
	cr_assert_eq(left.n, 2);
	cr_assert_eq(left.bytes, moved.bytes);
	space_on_left(s->space, NULL, NULL);
	for (unsigned i = 0; i < ARRAY_SIZE(it); i++)
		check_item(s, &it[i]);
	counted_end(s);
}

/* At the end the device's memory goes back, whatever of it is evicted; the rest when the
 * process does, or here the session. */
Test(move, given_back_at_the_end)
{
	for (unsigned where = 0; where < 2; where++) {
		struct session *s = start();
		struct space_residency before;
		struct space_moved moved;
		uint64_t in_host;

		for (unsigned i = 0; i < 4 * KINDS; i++)
			(void)new_item(s, (enum kind)(i % KINDS), PAGE + i * PIECE, i);
		cr_assert_eq(space_move_out(s->space, 15 * MIB, UINT64_MAX,
					    where ? PLACE_SWAPPED : PLACE_MAPPED, &moved),
			     0);
		before = residency(s);
		in_host = counted.in_host;
		cr_assert_gt(before.movable, 0);
		counted.fail_in = 1; /* what stays mapped stays charged */
		space_give_back(s->space);
		cr_assert_gt(counted.on_device, 0);
		cr_assert_eq(counted.charged,
			     counted.on_device + before.mapped + before.swapped);
		for (unsigned times = 0; times < 2; times++) {
			space_give_back(s->space);
			cr_assert_eq(counted.on_device, 0);
			cr_assert_eq(counted.in_host, in_host);
			cr_assert_eq(residency(s).movable, 0);
			cr_assert_eq(residency(s).mapped, before.mapped);
			cr_assert_eq(residency(s).swapped, before.swapped);
			cr_assert_eq(counted.charged, before.mapped + before.swapped);
		}
		counted_end(s);
	}
}
