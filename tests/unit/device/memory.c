/* SPDX-License-Identifier: Apache-2.0 */
/* device_ops: addresses, allocations, access, copies. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

static void put32(struct fix *f, CUdeviceptr at, uint32_t v)
{
	OK(f->ops->copy.write(f->ctx, NULL, at, &v, sizeof(v)));
}

static uint32_t get32(struct fix *f, CUdeviceptr at)
{
	uint32_t v = 0xdeadbeef;

	OK(f->ops->copy.read(f->ctx, NULL, &v, at, sizeof(v)));
	return v;
}

DEVICE_TEST(device_memory, addresses_lie_in_the_band)
{
	uint64_t c = f->info.granularity;
	CUdeviceptr a, b;

	OK(f->ops->memory.reserve(f->dev, c, 0, 0, &a));
	OK(f->ops->memory.reserve(f->dev, 3 * c, 64 * c, 0, &b));
	cr_assert(a >= DEVICE_BAND_BASE && a + c <= DEVICE_BAND_BASE + DEVICE_BAND_SIZE);
	cr_assert(b >= DEVICE_BAND_BASE && !(b % (64 * c)));
	cr_assert(a + c <= b || b + 3 * c <= a);
	OK(f->ops->memory.unreserve(f->dev, a, c));
	OK(f->ops->memory.unreserve(f->dev, b, 3 * c));
}

DEVICE_TEST(device_memory, a_fixed_address_is_given_or_refused)
{
	uint64_t c = f->info.granularity;
	CUdeviceptr want = DEVICE_BAND_BASE + (1ull << 40), got, again;

	OK(f->ops->memory.reserve(f->dev, 4 * c, 0, want, &got));
	cr_assert(got == want);
	FAILS(f->ops->memory.reserve(f->dev, c, 0, want + c, &again),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.unreserve(f->dev, want, 4 * c));
	OK(f->ops->memory.reserve(f->dev, c, 0, want + c, &again));
	OK(f->ops->memory.unreserve(f->dev, want + c, c));
}

DEVICE_TEST(device_memory, nonsense_is_refused)
{
	uint64_t c = f->info.granularity;
	struct dev_mem *mem;
	CUdeviceptr a;

	FAILS(f->ops->memory.reserve(f->dev, 0, 0, 0, &a), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.reserve(f->dev, c + 1, 0, 0, &a), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.reserve(f->dev, c, 3 * c, 0, &a), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.reserve(f->dev, c, 0, 0x1000 * c, &a),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.reserve(f->dev, ALIGN_DOWN(~0ull, c), 0, DEVICE_BAND_BASE,
				     &a),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.reserve(f->dev, 2 * DEVICE_BAND_SIZE, 0, 0, &a),
	      CUDA_ERROR_OUT_OF_MEMORY);
	FAILS(f->ops->memory.unreserve(f->dev, DEVICE_BAND_BASE, c),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.unmap(f->dev, DEVICE_BAND_BASE, c),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.set_access(f->dev, DEVICE_BAND_BASE, c,
					CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.create(f->dev, c / 2, DEV_MEMORY_DEVICE, &mem),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.create(f->dev, 0, DEV_MEMORY_DEVICE, &mem),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.create(f->dev, c, DEV_MEMORY_DEVICE, &mem));
	FAILS(f->ops->memory.map(f->dev, DEVICE_BAND_BASE, mem),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.reserve(f->dev, 2 * c, 0, 0, &a));
	FAILS(f->ops->memory.map(f->dev, a + c / 2, mem), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.map(f->dev, a + 2 * c, mem), CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.map(f->dev, a, mem));
	FAILS(f->ops->memory.unmap(f->dev, a, 2 * c), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.unreserve(f->dev, a, 2 * c), CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.unmap(f->dev, a, c));
	OK(f->ops->memory.unreserve(f->dev, a, 2 * c));
	f->ops->memory.release(f->dev, mem);
}

DEVICE_TEST(device_memory, contents_move_with_the_allocation)
{
	uint64_t c = f->info.granularity;
	struct fix_mem m = fix_alloc(f, c);
	CUdeviceptr other;

	put32(f, m.addr, 0x1234);
	put32(f, m.addr + c - 4, 0x5678);
	OK(f->ops->memory.unmap(f->dev, m.addr, c));
	OK(f->ops->memory.reserve(f->dev, c, 0, 0, &other));
	OK(f->ops->memory.map(f->dev, other, m.mem));
	OK(f->ops->memory.set_access(f->dev, other, c,
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	cr_assert(get32(f, other) == 0x1234);
	cr_assert(get32(f, other + c - 4) == 0x5678);
	OK(f->ops->memory.unmap(f->dev, other, c));
	OK(f->ops->memory.unreserve(f->dev, other, c));
	OK(f->ops->memory.map(f->dev, m.addr, m.mem));
	fix_free(f, &m);
}

DEVICE_TEST(device_memory, a_range_of_allocations_is_one_address_space)
{
	uint64_t c = f->info.granularity;
	struct dev_mem *mem[4];
	static char in[3 * 2 << 20], out[sizeof(in)];
	CUdeviceptr a;
	size_t n = MIN(sizeof(in), 3 * c);

	OK(f->ops->memory.reserve(f->dev, 4 * c, 0, 0, &a));
	for (int i = 0; i < 4; i++) {
		OK(f->ops->memory.create(f->dev, c,
					 i == 2 ? DEV_MEMORY_HOST : DEV_MEMORY_DEVICE,
					 &mem[i]));
		OK(f->ops->memory.map(f->dev, a + (uint64_t)i * c, mem[i]));
	}
	OK(f->ops->memory.set_access(f->dev, a, 4 * c,
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	for (size_t i = 0; i < n; i++)
		in[i] = (char)(i * 7 + i / 4096);
	OK(f->ops->copy.write(f->ctx, NULL, a + c / 2, in, n));
	OK(f->ops->copy.read(f->ctx, NULL, out, a + c / 2, n));
	cr_assert(!memcmp(in, out, n));
	OK(f->ops->memory.unmap(f->dev, a, 4 * c));
	OK(f->ops->memory.unreserve(f->dev, a, 4 * c));
	for (int i = 0; i < 4; i++)
		f->ops->memory.release(f->dev, mem[i]);
}

/* The soft device zeroes; a released allocation's contents are gone. */
SOFT_TEST(device_memory, new_memory_is_zero)
{
	for (int round = 0; round < 3; round++) {
		struct fix_mem m = fix_alloc(f, 8 * MIB);

		for (uint64_t at = 0; at < m.size; at += MIB)
			cr_assert(get32(f, m.addr + at) == 0);
		OK(f->ops->copy.fill(f->ctx, NULL, m.addr, 0, 0xaaaaaaaa, 4, m.size / 4,
				     1));
		cr_assert(get32(f, m.addr + m.size - 4) == 0xaaaaaaaa);
		fix_free(f, &m);
	}
}

DEVICE_TEST_CFG(device_memory, memory_is_finite, true, .memory_bytes = 16 * MIB)
{
	uint64_t c = f->info.granularity;
	struct dev_mem *mem[8], *more;

	for (int i = 0; i < 8; i++)
		OK(f->ops->memory.create(f->dev, c, DEV_MEMORY_DEVICE, &mem[i]));
	FAILS(f->ops->memory.create(f->dev, c, DEV_MEMORY_DEVICE, &more),
	      CUDA_ERROR_OUT_OF_MEMORY);
	OK(f->ops->memory.create(f->dev, 4 * c, DEV_MEMORY_HOST,
				 &more)); /* host memory is not */
	f->ops->memory.release(f->dev, more);
	f->ops->memory.release(f->dev, mem[3]);
	OK(f->ops->memory.create(f->dev, c, DEV_MEMORY_DEVICE, &mem[3]));
	for (int i = 0; i < 8; i++)
		f->ops->memory.release(f->dev, mem[i]);
	OK(f->ops->memory.create(f->dev, 8 * c, DEV_MEMORY_DEVICE, &more));
	FAILS(f->ops->memory.create(f->dev, ALIGN_DOWN(~0ull, c), DEV_MEMORY_DEVICE,
				    &mem[0]),
	      CUDA_ERROR_OUT_OF_MEMORY);
	f->ops->memory.release(f->dev, more);
}

/* A mapping keeps the memory when the allocation is released first. */
DEVICE_TEST_CFG(device_memory, a_mapping_keeps_its_memory, false,
		.memory_bytes = 64 * MIB)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);

	put32(f, m.addr + 8, 99);
	f->ops->memory.release(f->dev, m.mem);
	cr_assert(get32(f, m.addr + 8) == 99);
	OK(f->ops->memory.unmap(f->dev, m.addr, m.size));
	OK(f->ops->memory.unreserve(f->dev, m.addr, m.size));
}

static long pages_of_this_process(void)
{
	FILE *s = fopen("/proc/self/statm", "r");
	long size, resident = 0;

	if (s && fscanf(s, "%ld %ld", &size, &resident) != 2)
		resident = 0;
	if (s)
		fclose(s);
	return resident;
}

SOFT_TEST(device_memory, freed_memory_returns_to_the_host)
{
	long page = sysconf(_SC_PAGESIZE), before = pages_of_this_process(), full, after;
	struct fix_mem m = fix_alloc(f, 64 * MIB);

	OK(f->ops->copy.fill(f->ctx, NULL, m.addr, 0, 1, 1, m.size, 1));
	OK(f->ops->stream.synchronize(f->ctx, NULL));
	full = pages_of_this_process();
	cr_assert((full - before) * page >= (long)(60 * MIB));
	fix_free(f, &m);
	after = pages_of_this_process();
	cr_assert((full - after) * page >= (long)(60 * MIB));
}

DEVICE_TEST(device_memory, copies_check_addresses)
{
	uint64_t c = f->info.granularity;
	struct fix_mem m = fix_alloc(f, c);
	char b[64] = {0};
	CUdeviceptr bad[] = {0,
			     4096,
			     m.addr + c - 32,
			     DEVICE_BAND_BASE + (3ull << 40),
			     (CUdeviceptr)(uintptr_t)b,
			     ~0ull - 8};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		FAILS(f->ops->copy.write(f->ctx, NULL, bad[i], b, sizeof(b)),
		      CUDA_ERROR_INVALID_VALUE);
		FAILS(f->ops->copy.read(f->ctx, NULL, b, bad[i], sizeof(b)),
		      CUDA_ERROR_INVALID_VALUE);
		FAILS(f->ops->copy.fill(f->ctx, NULL, bad[i], 0, 1, 1, sizeof(b), 1),
		      CUDA_ERROR_INVALID_VALUE);
	}
	OK(f->ops->ctx.status(f->ctx)); /* refused, not faulted */
	fix_free(f, &m);
}

SOFT_TEST(device_memory, access_is_what_was_set)
{
	uint64_t c = f->info.granularity;
	struct fix_mem m = fix_alloc(f, 2 * c);
	uint32_t v = 1;

	OK(f->ops->memory.set_access(f->dev, m.addr + c, c,
				     CU_MEM_ACCESS_FLAGS_PROT_READ));
	put32(f, m.addr, 5);
	cr_assert(get32(f, m.addr + c) == 0);
	FAILS(f->ops->copy.write(f->ctx, NULL, m.addr + c, &v, 4),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.set_access(f->dev, m.addr, c, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	FAILS(f->ops->copy.read(f->ctx, NULL, &v, m.addr, 4), CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.set_access(f->dev, m.addr, 2 * c,
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	cr_assert(get32(f, m.addr) == 5);
	fix_free(f, &m);
}

DEVICE_TEST(device_memory, rows_are_copied_with_their_pitches)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	unsigned char in[8 * 16], out[8 * 32];
	struct dev_copy_2d copy = {.dst = m.addr + MIB,
				   .src = m.addr,
				   .dst_pitch = 32,
				   .src_pitch = 16,
				   .width = 10,
				   .height = 8};

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i + 1);
	OK(f->ops->copy.write(f->ctx, NULL, m.addr, in, sizeof(in)));
	OK(f->ops->copy.fill(f->ctx, NULL, m.addr + MIB, 0, 0xee, 1, sizeof(out), 1));
	OK(f->ops->copy.rows(f->ctx, NULL, &copy));
	OK(f->ops->copy.read(f->ctx, NULL, out, m.addr + MIB, sizeof(out)));
	for (size_t i = 0; i < sizeof(out); i++) {
		size_t row = i / 32, col = i % 32;

		cr_assert(out[i] == (col < 10 ? row * 16 + col + 1 : 0xee));
	}
	copy.dst_pitch = 8;
	FAILS(f->ops->copy.rows(f->ctx, NULL, &copy), CUDA_ERROR_INVALID_VALUE);
	fix_free(f, &m);
}

DEVICE_TEST(device_memory, rows_of_nothing_take_no_time)
{
	const struct dev_copy_2d c = {
		.height = 1ull << 60, .dst_pitch = 8, .src_pitch = 8};
	CUresult r[] = {f->ops->copy.rows(f->ctx, NULL, &c),
			f->ops->copy.fill(f->ctx, NULL, 0, 8, 1, 4, 0, 1ull << 60)};

	/* A driver may have its own opinion. */
	cr_assert(!f->soft || (r[0] == CUDA_SUCCESS && r[1] == CUDA_SUCCESS));
}

DEVICE_TEST(device_memory, fills_of_each_width)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	uint32_t v[16];

	OK(f->ops->copy.fill(f->ctx, NULL, m.addr, 0, 0, 1, 4096, 1));
	OK(f->ops->copy.fill(f->ctx, NULL, m.addr, 16, 0x12345678, 4, 2, 3));
	OK(f->ops->copy.fill(f->ctx, NULL, m.addr + 8, 16, 0xabcd, 2, 2, 3));
	OK(f->ops->copy.fill(f->ctx, NULL, m.addr + 12, 16, 0x11, 1, 3, 3));
	OK(f->ops->copy.read(f->ctx, NULL, v, m.addr, sizeof(v)));
	for (int i = 0; i < 3; i++) {
		cr_assert(v[4 * i] == 0x12345678 && v[4 * i + 1] == 0x12345678);
		cr_assert(v[4 * i + 2] == 0xabcdabcd && v[4 * i + 3] == 0x00111111);
	}
	cr_assert(v[12] == 0 && v[15] == 0);
	FAILS(f->ops->copy.fill(f->ctx, NULL, m.addr, 0, 0, 3, 16, 1),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->copy.fill(f->ctx, NULL, m.addr + 2, 0, 0, 4, 16, 1),
	      CUDA_ERROR_INVALID_VALUE);
	fix_free(f, &m);
}

/* Few bytes are taken whatever is before them; the device says when they are too many. */
DEVICE_TEST(device_memory, what_is_taken_does_not_wait)
{
	const size_t piece = DEV_TAKEN_LEAST, most = 24u << 20;
	struct fix_mem m = fix_alloc(f, most);
	static char in[DEV_TAKEN_LEAST];
	struct dev_stream *st;
	CUresult r = CUDA_SUCCESS;
	struct block b;
	size_t at = 0;

	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &st));
	block_put(f, st, &b);
	block_wait(&b);
	while (!r && at < most) {
		memset(in, (int)(1 + at / piece % 100), piece);
		r = f->ops->copy.write_taken(f->ctx, st, m.addr + at, piece / 4, in,
					     piece / 4, 4);
		at += r ? 0 : piece;
	}
	cr_assert_eq(r, CUDA_ERROR_NOT_READY);
	cr_assert_geq(at, DEV_TAKEN_ALL_LEAST);
	block_release(&b);
	OK(f->ops->stream.synchronize(f->ctx, st));
	OK(f->ops->copy.write_taken(f->ctx, st, m.addr + at, 4, in, 4, 1));
	OK(f->ops->stream.synchronize(f->ctx, st));
	while (at) {
		at -= piece;
		cr_assert_eq(get32(f, m.addr + at), 0x1010101u * (1 + at / piece % 100));
	}
	f->ops->stream.destroy(st);
	fix_free(f, &m);
}

/* Nor are they ever very many, however few bytes each has. */
DEVICE_TEST(device_memory, not_everything_is_taken)
{
	struct fix_mem m = fix_alloc(f, 1);
	CUresult r = CUDA_SUCCESS;
	struct dev_stream *st;
	struct block b;
	char byte = 1;

	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &st));
	block_put(f, st, &b);
	block_wait(&b);
	for (unsigned i = 0; !r && i < 1000; i++)
		r = f->ops->copy.write_taken(f->ctx, st, m.addr, 1, &byte, 1, 1);
	cr_assert_eq(r, CUDA_ERROR_NOT_READY);
	block_release(&b);
	OK(f->ops->stream.synchronize(f->ctx, st));
	OK(f->ops->copy.write_taken(f->ctx, st, m.addr, 1, &byte, 1, 1));
	OK(f->ops->stream.synchronize(f->ctx, st));
	f->ops->stream.destroy(st);
	fix_free(f, &m);
}

/* Copies work through allocations of another size. */
DEVICE_TEST_CFG(device_memory, allocations_may_be_small, true, .granularity = 128 << 10)
{
	struct fix_mem m = fix_alloc(f, 1), n = fix_alloc(f, 1);

	cr_assert(f->info.granularity == 128 << 10 && m.size == 128 << 10);
	put32(f, m.addr + m.size - 4, 1);
	put32(f, n.addr, 2);
	cr_assert(get32(f, m.addr + m.size - 4) == 1 && get32(f, n.addr) == 2);
	fix_free(f, &m);
	fix_free(f, &n);
}

SOFT_TEST(device_memory, bad_configurations_are_refused)
{
	struct device_config bad[] = {{.granularity = 3 << 20},
				      {.granularity = 4096},
				      {.tpcs = 1000000},
				      {.memory_bytes = ~0ull}};
	struct device *dev;

	cr_assert(f->ops->open(&(struct device_config){0}, &dev) == -EBUSY);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_assert(f->ops->open(&bad[i], &dev) == -EINVAL);
}

struct flip {
	struct fix *f;
	struct fix_mem *m;
	bool stop;
};

/* Takes the allocation away and puts it back, again and again. */
static void *flip_main(void *arg)
{
	struct flip *p = arg;
	struct fix *f = p->f;

	while (!__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) {
		OK(f->ops->memory.unmap(f->dev, p->m->addr, p->m->size));
		OK(f->ops->memory.map(f->dev, p->m->addr, p->m->mem));
		OK(f->ops->memory.set_access(f->dev, p->m->addr, p->m->size,
					     CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	}
	return NULL;
}

/* Copies that race with unmapping succeed, are refused, or lose the context. */
SOFT_TEST(device_memory, unmapping_under_a_copy_is_no_crash)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct flip p = {.f = f, .m = &m};
	static char buf[2 << 20];
	bool lost = false, refused = false;
	pthread_t t;

	pthread_create(&t, NULL, flip_main, &p);
	for (int i = 0; i < 3000 && !(lost && refused); i++) {
		CUresult r = f->ops->copy.write(f->ctx, NULL, m.addr, buf, sizeof(buf));

		refused |= r == CUDA_ERROR_INVALID_VALUE;
		lost |= r == CUDA_ERROR_ILLEGAL_ADDRESS;
		cr_assert(!r || r == CUDA_ERROR_INVALID_VALUE ||
			  r == CUDA_ERROR_ILLEGAL_ADDRESS);
		if (r == CUDA_ERROR_ILLEGAL_ADDRESS) {
			f->ops->ctx.destroy(f->ctx);
			OK(f->ops->ctx.create(f->dev, 0, &f->ctx));
		}
	}
	__atomic_store_n(&p.stop, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	cr_assert(lost || refused);
	fix_free(f, &m);
}

/* Copies that meet an unmapping give up what was taken of them: there is as much room as before. */
SOFT_TEST(device_memory, refused_copies_take_nothing)
{
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct flip p = {.f = f, .m = &m};
	uint64_t end = clock_now_ns() + 30000000000ull;
	static char buf[64 << 10];
	pthread_t t;
	int lost = 0;

	pthread_create(&t, NULL, flip_main, &p);
	while (lost < 3 && clock_now_ns() < end) {
		CUresult r = f->ops->copy.write_taken(f->ctx, NULL, m.addr, 0, buf,
						      sizeof(buf), 1);

		cr_assert(!r || r == CUDA_ERROR_INVALID_VALUE ||
			  r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_NOT_READY);
		if (r == CUDA_ERROR_ILLEGAL_ADDRESS) {
			lost++;
			f->ops->ctx.destroy(f->ctx);
			OK(f->ops->ctx.create(f->dev, 0, &f->ctx));
		}
	}
	__atomic_store_n(&p.stop, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	cr_assert(lost, "no copy met an unmapping");
	OK(f->ops->stream.synchronize(f->ctx, NULL));
	for (size_t n = 0; n < DEV_TAKEN_ALL_LEAST; n += sizeof(buf))
		OK(f->ops->copy.write_taken(f->ctx, NULL, m.addr, 0, buf, sizeof(buf),
					    1));
	OK(f->ops->stream.synchronize(f->ctx, NULL));
	fix_free(f, &m);
}

/* ---- host memory of the guest ---- */

#define HOST_BYTES (2 * DEVICE_HOST_GRAIN)

/* A file as a guest would have it, with the guest's view of it. */
struct shared {
	int fd;
	uint32_t *view;
};

static struct shared shared_new(void)
{
	struct shared s = {.fd = fd_memfd("test", 4 * HOST_BYTES)};

	cr_assert_geq(s.fd, 0);
	s.view = mmap(NULL, 4 * HOST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	cr_assert_neq(s.view, MAP_FAILED);
	return s;
}

DEVICE_TEST(device_memory, host_memory_is_one_for_guest_and_device)
{
	struct shared s = shared_new();
	CUdeviceptr at = DEVICE_HOST_BASE + 5 * DEVICE_HOST_GRAIN;
	uint32_t *guest = s.view + HOST_BYTES / sizeof(uint32_t);
	struct dev_copy_2d copy = {.dst = at + 64, .src = at, .width = 4, .height = 1};

	OK(f->ops->memory.host_map(f->ctx, at, HOST_BYTES, s.fd, HOST_BYTES));
	guest[0] = 42;
	cr_assert_eq(get32(f, at), 42, "the device reads what the guest wrote");
	put32(f, at + HOST_BYTES - 4, 43);
	OK(f->ops->stream.synchronize(f->ctx, NULL));
	cr_assert_eq(guest[HOST_BYTES / 4 - 1], 43, "and the other way round");
	OK(f->ops->copy.rows(f->ctx, NULL, &copy));
	OK(f->ops->copy.fill(f->ctx, NULL, at + 128, 0, 7, 4, 3, 1));
	OK(f->ops->stream.synchronize(f->ctx, NULL));
	cr_assert_eq(guest[16], 42);
	cr_assert(guest[32] == 7 && guest[34] == 7 && !guest[35]);
	cr_assert_eq(s.view[0], 0, "and nothing else of the file");
	OK(f->ops->memory.host_unmap(f->ctx, at));
	FAILS(f->ops->copy.write(f->ctx, NULL, at, &copy, 4), CUDA_ERROR_INVALID_VALUE);
	close(s.fd);
}

DEVICE_TEST(device_memory, host_memory_has_ends)
{
	struct shared s = shared_new();
	CUdeviceptr at = DEVICE_HOST_BASE + DEVICE_HOST_SIZE - HOST_BYTES, device;
	struct dev_copy_2d copy = {.width = 64, .height = 1};

	OK(f->ops->memory.host_map(f->ctx, at, HOST_BYTES, s.fd, 0));
	copy.dst = at;
	copy.src = at + HOST_BYTES - 63;
	FAILS(f->ops->copy.rows(f->ctx, NULL, &copy), CUDA_ERROR_INVALID_VALUE);
	copy.src = at - 1;
	FAILS(f->ops->copy.rows(f->ctx, NULL, &copy), CUDA_ERROR_INVALID_VALUE);
	copy.src = DEVICE_HOST_BASE;
	FAILS(f->ops->copy.rows(f->ctx, NULL, &copy), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.reserve(f->dev, f->info.granularity, 0, DEVICE_HOST_BASE,
				     &device),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.host_unmap(f->ctx, at));
	close(s.fd);
}

DEVICE_TEST(device_memory, host_memory_where_it_cannot_be)
{
	struct shared s = shared_new();
	CUdeviceptr at = DEVICE_HOST_BASE;
	const struct {
		uint64_t addr, size, offset;
	} bad[] = {
		{at, 0, 0},
		{at, HOST_BYTES - 4096, 0},
		{at + 4096, HOST_BYTES, 0},
		{at, HOST_BYTES, 4096},
		{DEVICE_BAND_BASE, HOST_BYTES, 0},
		{at + DEVICE_HOST_SIZE - DEVICE_HOST_GRAIN, HOST_BYTES, 0},
		{at, ~0ull & ~(DEVICE_HOST_GRAIN - 1), 0},
		{0, HOST_BYTES, 0},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		FAILS(f->ops->memory.host_map(f->ctx, bad[i].addr, bad[i].size, s.fd,
					      bad[i].offset),
		      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.host_map(f->ctx, at, HOST_BYTES, s.fd, 0));
	FAILS(f->ops->memory.host_map(f->ctx, at + DEVICE_HOST_GRAIN, HOST_BYTES, s.fd,
				      0),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.host_unmap(f->ctx, at + DEVICE_HOST_GRAIN),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.host_unmap(f->ctx, at));
	FAILS(f->ops->memory.host_unmap(f->ctx, at), CUDA_ERROR_INVALID_VALUE);
	close(s.fd);
}

/* Memory in the guest's file is mapped as any other, and more than once. */
DEVICE_TEST(device_memory, memory_in_a_file_of_the_guest)
{
	const CUmemAccess_flags rw = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	uint64_t size = f->info.granularity;
	struct shared s = {.fd = fd_memfd("test", 3 * size)};
	struct dev_mem *mem;
	CUdeviceptr at;

	s.view = mmap(NULL, 3 * size, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	cr_assert_neq(s.view, MAP_FAILED);
	FAILS(f->ops->memory.create_in_file(f->ctx, s.fd, 4096, size, &mem),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.create_in_file(f->ctx, s.fd, 0, size - 4096, &mem),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.create_in_file(f->ctx, s.fd, size, size, &mem));
	OK(f->ops->memory.reserve(f->dev, 2 * size, 0, 0, &at));
	OK(f->ops->memory.map(f->dev, at, mem));
	OK(f->ops->memory.map(f->dev, at + size, mem));
	OK(f->ops->memory.set_access(f->dev, at, 2 * size, rw));
	s.view[size / 4] = 42;
	cr_assert_eq(get32(f, at), 42);
	put32(f, at + size + 4, 43);
	OK(f->ops->stream.synchronize(f->ctx, NULL));
	cr_assert_eq(s.view[size / 4 + 1], 43);
	cr_assert_eq(get32(f, at + 4), 43);
	cr_assert(!s.view[0] && !s.view[2 * size / 4], "and nothing else of the file");
	OK(f->ops->memory.unmap(f->dev, at, 2 * size));
	f->ops->memory.release(f->dev, mem);
	OK(f->ops->memory.unreserve(f->dev, at, 2 * size));
	cr_assert_eq(s.view[size / 4 + 1], 43, "the file has it still");
	munmap(s.view, 3 * size);
	close(s.fd);
}

/* Host memory, too, with what was in it and wherever it is mapped. */
DEVICE_TEST_CFG(device_memory, host_memory_by_descriptor, false, .memory_bytes = 16 * MIB)
{
	const CUmemAccess_flags rw = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	struct dev_mem *host, *in;
	CUdeviceptr at;
	int fd = -1;

	OK(f->ops->memory.create(f->dev, 2 * MIB, true, &host));
	OK(f->ops->memory.reserve(f->dev, 6 * MIB, 0, 0, &at));
	OK(f->ops->memory.map(f->dev, at, host));
	OK(f->ops->memory.map(f->dev, at + 2 * MIB, host));
	OK(f->ops->memory.set_access(f->dev, at, 4 * MIB, rw));
	put32(f, at + 8, 1);
	OK(f->ops->memory.export(f->dev, host, &fd));
	OK(f->ops->memory.import(f->dev, fd, 2 * MIB, &in));
	close(fd);
	OK(f->ops->memory.map(f->dev, at + 4 * MIB, in));
	OK(f->ops->memory.set_access(f->dev, at + 4 * MIB, 2 * MIB, rw));
	put32(f, at + 4 * MIB + 12, 2);
	cr_assert(get32(f, at + 4 * MIB + 8) == 1);
	cr_assert(get32(f, at + 12) == 2 && get32(f, at + 2 * MIB + 12) == 2);
	OK(f->ops->memory.unmap(f->dev, at, 4 * MIB));
	f->ops->memory.release(f->dev, host);
	cr_assert(get32(f, at + 4 * MIB + 12) == 2, "it outlives the mem");
	OK(f->ops->memory.unmap(f->dev, at + 4 * MIB, 2 * MIB));
	f->ops->memory.release(f->dev, in);
	OK(f->ops->memory.unreserve(f->dev, at, 6 * MIB));
}

/* Memory is shared through a descriptor, as another process gets it; only that memory. */
DEVICE_TEST_CFG(device_memory, shared_by_descriptor, true, .memory_bytes = 16 * MIB)
{
	struct fix_mem a = fix_alloc(f, 2 * MIB), other = fix_alloc(f, 2 * MIB);
	struct dev_mem *in = NULL, *more;
	CUdeviceptr at;
	int fd = -1, again = -1;

	put32(f, a.addr + 8, 1);
	put32(f, a.addr + a.size - 4, 2);
	put32(f, other.addr, 3);
	OK(f->ops->memory.export(f->dev, a.mem, &fd));
	OK(f->ops->memory.export(f->dev, a.mem, &again));
	cr_assert_eq(lseek(fd, 0, SEEK_END), (off_t)a.size,
		     "nothing else is in the file");
	FAILS(f->ops->memory.import(f->dev, fd, 2 * a.size, &in),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.import(f->dev, fd, 0, &in), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.import(f->dev, -1, a.size, &in), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->memory.import(f->dev, 0, a.size, &in), CUDA_ERROR_INVALID_VALUE);
	cr_assert(get32(f, a.addr + 8) == 1 && get32(f, a.addr + a.size - 4) == 2);
	OK(f->ops->memory.import(f->dev, again, a.size, &in));
	close(again);
	FAILS(f->ops->memory.export(f->dev, in, &again), CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->memory.reserve(f->dev, a.size, 0, 0, &at));
	OK(f->ops->memory.map(f->dev, at, in));
	OK(f->ops->memory.set_access(f->dev, at, a.size,
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	put32(f, at + 12, 4);
	cr_assert(get32(f, at + 8) == 1 && get32(f, a.addr + 12) == 4);
	fix_free(f, &a);
	close(fd);
	cr_assert(get32(f, at + 12) == 4, "it outlives the mem");
	/* what is imported takes nothing of this device: all but one allocation is free
	 * */
	OK(f->ops->memory.create(f->dev, 14 * MIB, DEV_MEMORY_DEVICE, &more));
	f->ops->memory.release(f->dev, more);
	OK(f->ops->memory.unmap(f->dev, at, a.size));
	f->ops->memory.release(f->dev, in);
	OK(f->ops->memory.unreserve(f->dev, at, a.size));
	cr_assert(get32(f, other.addr) == 3);
	fix_free(f, &other);
}
