/* SPDX-License-Identifier: Apache-2.0 */
/* The memory manager against a model, on a device that checks how it is used. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "memory/region.h"
#include "memory/slab.h"
#include "memory/space.h"

#define PAGE (2ull << 20)

/* ---- slabs ---- */

#define LIVE 600

struct part {
	uint32_t at, bytes;
};

static bool overlap(struct part a, struct part b)
{
	return a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

static void check_slab(const struct slab *s, const struct part *p, unsigned n)
{
	uint32_t base, bytes, units = 0;

	for (unsigned i = 0; i < n; i++) {
		units += (p[i].bytes + SLAB_UNIT - 1) / SLAB_UNIT;
		for (unsigned j = 0; j < i; j++)
			cr_assert(!overlap(p[i], p[j]));
		cr_assert_eq(slab_find(s, p[i].at + p[i].bytes - 1, &base, &bytes), 0);
		cr_assert(base == p[i].at && bytes == p[i].bytes);
	}
	cr_assert_eq(s->free_units, SLAB_UNITS - units);
	cr_assert_eq(s->live, n);
}

Test(slab, random_against_model)
{
	struct slab *s = malloc(sizeof(*s));
	struct part p[LIVE];
	unsigned n = 0;

	srand(7);
	slab_init(s);
	for (unsigned step = 0; step < 20000; step++) {
		if (n < LIVE && rand() % 5 < 3) {
			uint32_t bytes = 1 + rand() % (rand() % 8 ? 5000 : 200000);
			int64_t at = slab_alloc(s, bytes);

			if (at >= 0)
				p[n++] = (struct part){(uint32_t)at, bytes};
		} else if (n) {
			unsigned i = rand() % n;

			cr_assert_eq(slab_free(s, p[i].at), 0);
			cr_assert_lt(slab_free(s, p[i].at), 0, "freed twice");
			p[i] = p[--n];
		}
		if (step % 200 == 0)
			check_slab(s, p, n);
	}
	while (n)
		cr_assert_eq(slab_free(s, p[--n].at), 0);
	cr_assert_eq(slab_alloc(s, SLAB_BYTES), 0, "whole again");
	free(s);
}

Test(slab, a_slab_knows_where_allocations_begin_and_end)
{
	struct slab *s = malloc(sizeof(*s));
	uint32_t base, bytes;

	slab_init(s);
	cr_assert_lt(slab_alloc(s, 0), 0);
	cr_assert_lt(slab_alloc(s, SLAB_BYTES + 1), 0);
	cr_assert_eq(slab_alloc(s, 1), 0);
	cr_assert_eq(slab_alloc(s, 513), 512);
	cr_assert_eq(slab_alloc(s, 1), 512 + 1024);
	cr_assert_lt(slab_free(s, 1), 0);
	cr_assert_lt(slab_free(s, 1024), 0, "inside of an allocation");
	cr_assert_lt(slab_free(s, SLAB_BYTES), 0);
	cr_assert_lt(slab_find(s, 1, &base, &bytes), 0, "past the end of one byte");
	cr_assert_eq(slab_find(s, 512 + 512, &base, &bytes), 0);
	cr_assert(base == 512 && bytes == 513);
	free(s);
}

/* ---- allocations ---- */

struct block {
	CUdeviceptr addr;
	uint64_t bytes;
	unsigned owner;
};

static void check_blocks(struct space *sp, const struct block *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct space_range r;

		cr_assert_eq(b[i].addr % 512, 0);
		cr_assert_eq(space_find(sp, b[i].addr + b[i].bytes - 1, &r),
			     CUDA_SUCCESS);
		cr_assert(r.base == b[i].addr && r.size == b[i].bytes &&
			  r.owner == b[i].owner);
		for (unsigned j = 0; j < i; j++)
			cr_assert(b[i].addr + b[i].bytes <= b[j].addr ||
				  b[j].addr + b[j].bytes <= b[i].addr);
	}
}

static uint64_t random_size(void)
{
	switch (rand() % 4) {
	case 0:
		return 1 + rand() % 4096;
	case 1:
		return 1 + rand() % (1 << 20);
	case 2:
		return (1 << 20) + rand() % (8 << 20);
	default:
		return PAGE * (1 + rand() % 3);
	}
}

Test(space, random_against_model)
{
	struct session *s = fake_session();
	struct space *sp = s->space;
	struct block b[200];
	uint64_t used, peak;
	unsigned n = 0;

	srand(11);
	for (unsigned step = 0; step < 6000; step++) {
		if (n < 200 && rand() % 5 < 3) {
			struct block k = {.bytes = random_size(),
					  .owner = 1 + rand() % 3};

			cr_assert_eq(space_alloc(sp, k.bytes, k.owner, &k.addr),
				     CUDA_SUCCESS);
			b[n++] = k;
		} else if (n) {
			unsigned i = rand() % n;

			if (b[i].bytes > 512)
				cr_assert_eq(space_release(sp, b[i].addr + 512),
					     CUDA_ERROR_INVALID_VALUE);
			cr_assert_eq(space_release(sp, b[i].addr), CUDA_SUCCESS);
			cr_assert_eq(space_release(sp, b[i].addr),
				     CUDA_ERROR_INVALID_VALUE);
			b[i] = b[--n];
		}
		if (step % 100 == 0) {
			check_blocks(sp, b, n);
			space_flush(sp);
			space_usage(sp, &used, &peak);
			cr_assert_eq(used, fake.created);
			cr_assert_eq(used, fake_charged);
			cr_assert_eq(fake.accessible, fake.mapped);
			cr_assert_leq(used, peak);
		}
	}
	for (unsigned owner = 1; owner <= 3; owner++)
		space_release_owner(sp, owner);
	space_usage(sp, &used, &peak);
	cr_assert_eq(used, 0);
	cr_assert_eq(fake_charged, 0);
	sess_free(s);
	cr_assert(fake.created == 0 && fake.mapped == 0 && fake.reserved == 0);
	cr_assert_eq(fake_charged, 0);
}

Test(space, wild_frees)
{
	struct session *s = fake_session();
	CUdeviceptr a, big;

	cr_assert_eq(space_alloc(s->space, 4096, 1, &a), CUDA_SUCCESS);
	cr_assert_eq(space_alloc(s->space, 5 * PAGE, 1, &big), CUDA_SUCCESS);
	cr_assert_eq(space_release(s->space, 0), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_release(s->space, 0x1000), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_release(s->space, a + 512), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_release(s->space, big + PAGE), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_release(s->space, UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_release(s->space, DEVICE_BAND_BASE + DEVICE_BAND_SIZE),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert(space_is_alloc(s->space, a) && !space_is_alloc(s->space, a + 1));
	sess_free(s);
}

/* Alone in its slab, which stays behind, beside others, and of its own. */
Test(space, ids_are_not_reused)
{
	const uint64_t sizes[] = {4096, 64 << 10, 1 << 20, PAGE + 1};
	struct session *s = fake_session();
	uint64_t seen[32] = {0};
	struct space_range r;
	CUdeviceptr a, kept;
	unsigned n = 0;

	for (unsigned i = 0; i < 32; i++) {
		if (i == 16)
			cr_assert_eq(space_alloc(s->space, 512, 1, &kept), CUDA_SUCCESS);
		cr_assert_eq(space_alloc(s->space, sizes[i % 4], 1, &a), CUDA_SUCCESS);
		cr_assert_eq(space_find(s->space, a + sizes[i % 4] - 1, &r),
			     CUDA_SUCCESS);
		for (unsigned j = 0; j < n; j++)
			cr_assert_neq(r.id, seen[j], "the id of %u is that of %u", i, j);
		seen[n++] = r.id;
		cr_assert_eq(space_find(s->space, a, &r), CUDA_SUCCESS);
		cr_assert_eq(r.id, seen[i], "one id while it is there");
		cr_assert_eq(space_release(s->space, a), CUDA_SUCCESS);
	}
	sess_free(s);
}

Test(space, quota_and_full_device)
{
	struct session *s = fake_session();
	CUdeviceptr a, b;

	fake_quota = 4 * PAGE;
	cr_assert_eq(space_alloc(s->space, 5 * PAGE, 1, &a), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(space_alloc(s->space, UINT64_MAX, 1, &a), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(space_alloc(s->space, 0, 1, &a), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_alloc(s->space, 100, 1, &a), CUDA_SUCCESS);
	cr_assert_eq(space_release(s->space, a), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 0, "what is kept for a moment is not charged");
	cr_assert_eq(space_alloc(s->space, 4 * PAGE, 1, &a), CUDA_SUCCESS);
	cr_assert_eq(space_release(s->space, a), CUDA_SUCCESS);
	fake_quota = UINT64_MAX;
	fake.limit = 2 * PAGE;
	cr_assert_eq(space_alloc(s->space, 2 * PAGE, 1, &a), CUDA_SUCCESS);
	cr_assert_eq(space_alloc(s->space, 10, 1, &b), CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(fake_charged, 2 * PAGE, "a failed allocation is not charged");
	sess_free(s);
	cr_assert_eq(fake_charged, 0);
}

/* However many slabs there are, one with room is found in as many steps as their tree is
 * high, and full ones are not looked at. */
Test(space, slabs_are_found_by_their_room)
{
	static CUdeviceptr a[3 * 4000];
	struct session *s = fake_session();
	const struct tree *rooms = &s->space->rooms[SPACE_CLASSES - 1];
	CUdeviceptr b;

	for (unsigned i = 0; i < ARRAY_SIZE(a); i++)
		cr_assert_eq(space_alloc(s->space, 600 << 10, 1, &a[i]), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 4000 * PAGE, "three in each");
	cr_assert_leq(rooms->root->height, 18);
	cr_assert_eq(space_alloc(s->space, 300 << 10, 2, &b), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 4001 * PAGE, "another context's");
	cr_assert_eq(space_release(s->space, a[4000]), CUDA_SUCCESS);
	cr_assert_eq(space_release(s->space, a[7000]), CUDA_SUCCESS);
	cr_assert_eq(space_release(s->space, a[7001]), CUDA_SUCCESS);
	cr_assert_eq(space_alloc(s->space, 600 << 10, 1, &b), CUDA_SUCCESS);
	cr_assert_eq(b, a[4000], "the fullest that has room");
	cr_assert_eq(space_alloc(s->space, 1 << 20, 1, &b), CUDA_SUCCESS);
	cr_assert_eq(b / PAGE, a[7000] / PAGE);
	/* Room that is in pieces is found out once. */
	cr_assert_eq(space_release(s->space, a[30]), CUDA_SUCCESS);
	cr_assert_eq(space_release(s->space, a[32]), CUDA_SUCCESS);
	cr_assert_eq(a[30] / PAGE, a[32] / PAGE);
	cr_assert_eq(space_alloc(s->space, 1000 << 10, 1, &b), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 4002 * PAGE);
	cr_assert_eq(space_alloc(s->space, 700 << 10, 1, &b), CUDA_SUCCESS);
	cr_assert_eq(b / PAGE, a[30] / PAGE);
	sess_free(s);
	cr_assert_eq(fake_charged, 0);
}

/* Freed memory is the device's again as fast as it is freed, but for a little. */
Test(space, little_lies_idle)
{
	static CUdeviceptr a[3000];
	struct session *s = fake_session();

	for (unsigned i = 0; i < ARRAY_SIZE(a); i++)
		cr_assert_eq(space_alloc(s->space, PAGE, 1, &a[i]), CUDA_SUCCESS);
	for (unsigned i = 0; i < ARRAY_SIZE(a); i++) {
		cr_assert_eq(space_release(s->space, a[i]), CUDA_SUCCESS);
		cr_assert_leq(fake.created - fake_charged, 513 * PAGE);
	}
	sess_free(s);
	cr_assert_eq(fake.created, 0);
}

/* ---- while a charge waits ---- */

static struct space *asking;
static CUdeviceptr given_up;

/* Plays other threads while weftd makes room: a lock that was held would be met here. */
static void give_up(void)
{
	uint64_t used, peak;

	space_usage(asking, &used, &peak);
	if (given_up)
		cr_assert_eq(space_release(asking, given_up), CUDA_SUCCESS);
	given_up = 0;
}

Test(space, others_go_on_while_a_charge_waits, .timeout = 20)
{
	struct session *s = fake_session();
	struct backing *c;
	CUdeviceptr a;

	asking = s->space;
	fake_quota = 4 * PAGE;
	cr_assert_eq(space_alloc(s->space, 4 * PAGE, 1, &given_up), CUDA_SUCCESS);
	fake_while_charging = give_up;
	cr_assert_eq(space_alloc(s->space, 3 * PAGE, 1, &a), CUDA_SUCCESS);
	given_up = a;
	cr_assert_eq(space_alloc(s->space, 4 * PAGE - 1, 1, &a), CUDA_SUCCESS);
	given_up = a;
	cr_assert_eq(space_alloc(s->space, 100, 1, &a), CUDA_SUCCESS);
	cr_assert_eq(backing_new(s->space, 3 * PAGE, DEV_MEMORY_DEVICE, &c),
		     CUDA_SUCCESS);
	given_up = a;
	cr_assert_eq(space_charge(s->space, PAGE), CUDA_SUCCESS);
	space_uncharge(s->space, PAGE);
	backing_put(s->space, c);
	fake_while_charging = NULL;
	sess_free(s);
	cr_assert_eq(fake_charged, 0);
}

static void *free_meanwhile(void *arg)
{
	while (!atomic_load(&fake_refused))
		sched_yield();
	cr_assert_eq(space_release(asking, given_up), CUDA_SUCCESS);
	return NULL;
}

/* An allocation that waits for a full device finds memory that another thread frees. The
 * thread has eight times five milliseconds, so it may be late now and then. */
Test(space, others_go_on_while_the_device_is_full, .timeout = 60)
{
	struct session *s = fake_session();
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_t thread;
	CUdeviceptr a;

	asking = s->space;
	fake.limit = 2 * PAGE;
	for (unsigned i = 0; i < 50 && r; i++) {
		cr_assert_eq(space_alloc(s->space, 2 * PAGE, 1, &given_up), CUDA_SUCCESS);
		fake_refused = 0;
		pthread_create(&thread, NULL, free_meanwhile, NULL);
		r = space_alloc(s->space, 2 * PAGE, 1, &a);
		pthread_join(thread, NULL);
	}
	cr_assert_eq(r, CUDA_SUCCESS);
	sess_free(s);
	cr_assert_eq(fake_charged, 0);
}

static struct {
	CUdeviceptr addr;
	bool nested;
} other;

static void take_a_slab(void)
{
	if (other.nested)
		return;
	other.nested = true;
	cr_assert_eq(space_alloc(asking, 512, 1, &other.addr), CUDA_SUCCESS);
}

/* Two threads want a slab at once: they share one, and it is charged once. */
Test(space, a_slab_that_came_meanwhile, .timeout = 20)
{
	struct session *s = fake_session();
	CUdeviceptr a;

	asking = s->space;
	fake_while_charging = take_a_slab;
	cr_assert_eq(space_alloc(s->space, 512, 1, &a), CUDA_SUCCESS);
	fake_while_charging = NULL;
	cr_assert(other.nested && a != other.addr);
	cr_assert_eq(a / PAGE, other.addr / PAGE);
	cr_assert_eq(fake_charged, PAGE);
	cr_assert_eq(space_release(s->space, a), CUDA_SUCCESS);
	cr_assert_eq(space_release(s->space, other.addr), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 0);
	sess_free(s);
}

/* ---- the guest's own mappings ---- */

Test(space, mappings_cover_whole_handles_inside_a_reservation)
{
	struct session *s = fake_session();
	struct space *sp = s->space;
	struct backing *one, *two;
	CUmemAccess_flags access;
	struct space_range r;
	CUdeviceptr base;
	enum dev_memory memory;
	uint64_t h, id;

	cr_assert_eq(space_reserve(sp, 8 * PAGE, 0, 0, &base), CUDA_SUCCESS);
	cr_assert_eq(backing_new(sp, PAGE + 1, DEV_MEMORY_DEVICE, &one),
		     CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(backing_new(sp, 1ull << 50, DEV_MEMORY_DEVICE, &one),
		     CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(backing_new(sp, PAGE, DEV_MEMORY_DEVICE, &one), CUDA_SUCCESS);
	cr_assert_eq(backing_new(sp, 3 * PAGE, DEV_MEMORY_DEVICE, &two), CUDA_SUCCESS);
	backing_set_handle(sp, two, 77);
	cr_assert_eq(space_map(sp, base, PAGE, one), CUDA_SUCCESS);
	cr_assert_eq(space_map(sp, base, PAGE, one), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_map(sp, base + PAGE, 2 * PAGE, two), CUDA_ERROR_INVALID_VALUE,
		     "a part of a handle");
	cr_assert_eq(space_map(sp, base + 6 * PAGE, 3 * PAGE, two),
		     CUDA_ERROR_INVALID_VALUE, "past the end");
	cr_assert_eq(space_map(sp, base + PAGE, 3 * PAGE, two), CUDA_SUCCESS);
	cr_assert_eq(space_handle_at(sp, base + 2 * PAGE + 5, &h, &id, &memory),
		     CUDA_SUCCESS);
	cr_assert_eq(h, 77);
	cr_assert_eq(memory, DEV_MEMORY_DEVICE);

	/* the handles may go, the memory stays while it is mapped */
	backing_put(sp, one);
	backing_put(sp, two);
	cr_assert_eq(fake.created, 4 * PAGE);
	cr_assert_eq(
		space_set_access(sp, base, 5 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
		CUDA_ERROR_INVALID_VALUE, "not all mapped");
	cr_assert_eq(
		space_set_access(sp, base, 4 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
		CUDA_SUCCESS);
	cr_assert_eq(space_get_access(sp, base + 3 * PAGE, &access), CUDA_SUCCESS);
	cr_assert_eq(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	cr_assert_eq(space_find(sp, base + 2 * PAGE, &r), CUDA_SUCCESS);
	cr_assert(r.mapped && r.base == base + PAGE && r.size == 3 * PAGE);
	cr_assert_eq(space_find(sp, base + 6 * PAGE, &r), CUDA_SUCCESS);
	cr_assert(!r.mapped);

	cr_assert_eq(space_unreserve(sp, base, 8 * PAGE), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_unmap(sp, base, 2 * PAGE), CUDA_ERROR_INVALID_VALUE,
		     "through the middle of a mapping");
	cr_assert_eq(space_release(sp, base), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_unmap(sp, base, 4 * PAGE), CUDA_SUCCESS);
	cr_assert_eq(fake_charged, 0);
	space_flush(sp);
	cr_assert_eq(fake.created, 0);
	cr_assert_eq(space_unreserve(sp, base, 4 * PAGE), CUDA_ERROR_INVALID_VALUE);
	cr_assert_eq(space_unreserve(sp, base, 8 * PAGE), CUDA_SUCCESS);
	cr_assert_eq(backing_new(sp, PAGE, DEV_MEMORY_DEVICE, &one), CUDA_SUCCESS);
	cr_assert_eq(space_map(sp, base, PAGE, one), CUDA_ERROR_INVALID_VALUE);
	backing_put(sp, one);
	sess_free(s);
}

/* Compressible memory is as the device made it, and not kept for plain requests. */
Test(space, compressible_memory_is_not_kept_for_plain_requests)
{
	struct session *s = fake_session();
	struct space *sp = s->space;
	struct backing *c;
	enum dev_memory memory;
	uint64_t h, id;
	CUdeviceptr base;

	cr_assert_eq(backing_new(sp, PAGE, DEV_MEMORY_COMPRESSIBLE, &c), CUDA_SUCCESS);
	cr_assert_not(backing_compressible(c), "this device cannot");
	backing_put(sp, c);
	cr_assert_eq(fake.created, PAGE, "as other memory, so kept for a moment");
	space_flush(sp);

	fake.compresses = true;
	cr_assert_eq(space_reserve(sp, PAGE, 0, 0, &base), CUDA_SUCCESS);
	cr_assert_eq(backing_new(sp, PAGE, DEV_MEMORY_COMPRESSIBLE, &c), CUDA_SUCCESS);
	cr_assert(backing_compressible(c));
	cr_assert(fake_charged == PAGE && fake.created == PAGE);
	cr_assert_eq(space_map(sp, base, PAGE, c), CUDA_SUCCESS);
	cr_assert_eq(space_handle_at(sp, base, &h, &id, &memory), CUDA_SUCCESS);
	cr_assert_eq(memory, DEV_MEMORY_COMPRESSIBLE);
	backing_put(sp, c);
	cr_assert_eq(space_unmap(sp, base, PAGE), CUDA_SUCCESS);
	cr_assert(fake_charged == 0 && fake.created == 0);

	cr_assert_eq(backing_new(sp, PAGE, DEV_MEMORY_DEVICE, &c), CUDA_SUCCESS);
	cr_assert_not(backing_compressible(c));
	backing_put(sp, c);
	cr_assert_eq(backing_new(sp, PAGE, DEV_MEMORY_COMPRESSIBLE, &c), CUDA_SUCCESS);
	cr_assert(backing_compressible(c), "not what lay idle");
	backing_put(sp, c);

	fake_quota = PAGE;
	cr_assert_eq(backing_new(sp, 2 * PAGE, DEV_MEMORY_COMPRESSIBLE, &c),
		     CUDA_ERROR_OUT_OF_MEMORY);
	fake_quota = 4 * PAGE;
	space_flush(sp);
	fake.limit = PAGE;
	cr_assert_eq(backing_new(sp, 2 * PAGE, DEV_MEMORY_COMPRESSIBLE, &c),
		     CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert(fake_charged == 0 && fake.created == 0);
	fake.limit = 0;
	sess_free(s);
}

Test(space, left_mapped)
{
	struct session *s = fake_session();
	struct backing *c;
	CUdeviceptr base, again;

	cr_assert_eq(space_reserve(s->space, 4 * PAGE, PAGE, 0, &base), CUDA_SUCCESS);
	cr_assert_eq(space_reserve(s->space, PAGE, 0, base, &again), CUDA_SUCCESS);
	cr_assert_neq(base, again, "a taken address is a wish");
	cr_assert_eq(backing_new(s->space, 2 * PAGE, DEV_MEMORY_HOST, &c), CUDA_SUCCESS);
	cr_assert_eq(space_map(s->space, base + PAGE, 2 * PAGE, c), CUDA_SUCCESS);
	backing_put(s->space, c);
	sess_free(s);
	cr_assert(fake.created == 0 && fake.mapped == 0 && fake.reserved == 0);
}

Test(space, variables_of_modules)
{
	struct session *s = fake_session();
	struct space_range r;
	int module;

	cr_assert_eq(space_global_add(s->space, 0x1000, 16, 3, &module), CUDA_SUCCESS);
	cr_assert_eq(space_global_add(s->space, 0x1000, 16, 3, &module), CUDA_SUCCESS);
	cr_assert_eq(space_find(s->space, 0x100f, &r), CUDA_SUCCESS);
	cr_assert(r.base == 0x1000 && r.size == 16 && r.owner == 3);
	cr_assert_neq(space_find(s->space, 0x1010, &r), CUDA_SUCCESS);
	space_global_drop(s->space, &module);
	cr_assert_neq(space_find(s->space, 0x1000, &r), CUDA_SUCCESS);
	sess_free(s);
}
