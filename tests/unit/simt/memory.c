/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State spaces, generic addresses, checked accesses, printf and the heap
 * (tests/ptx/cu/memory.cu).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define KERNELS "memory"
#include "builds.h"

/* Text that was printed belongs to one build. */
#undef EACH_BUILD
#define EACH_BUILD                                                                       \
	for (const char *_list = all_builds(); said[0] = 0, next_build(&_list);)

static char said[65536];

static int print(void *user, const void *rec, size_t bytes)
{
	char buf[512];

	(void)user;
	cr_assert(simt_printf_text(rec, bytes, buf, sizeof(buf)) == (int)strlen(buf));
	strcat(said, buf);
	/* a record that is cut anywhere is refused or formatted, never overrun */
	for (size_t n = 0; n < bytes; n++) {
		char *copy = malloc(n + 1);

		memcpy(copy, rec, n);
		cr_expect(simt_printf_text(copy, n, buf, sizeof(buf)) < 0);
		free(copy);
	}
	return 0;
}

static void assert_fail(void *user, const char *text)
{
	(void)user;
	strcat(said, text);
}

static int heap_left, heap_live;

static uint64_t heap_alloc(void *user, uint64_t bytes)
{
	(void)user;
	if (heap_left-- <= 0)
		return 0;
	heap_live++;
	return (uint64_t)(uintptr_t)gpu_alloc(&g, bytes);
}

static int heap_free(void *user, uint64_t addr)
{
	(void)user, (void)addr;
	heap_live--;
	return 0;
}

static const struct simt_calls calls = {print, assert_fail, heap_alloc, heap_free};

static void init(void)
{
	cr_assert(gpu_init(&g) == 0);
	g.calls = &calls;
}

TestSuite(simt_memory, .init = init, .fini = fini, .timeout = 60);

#define OK(s) cr_assert((s) == SIMT_DONE, "%s", simt_fault_name(g.fault.code))

static void expect_fault(const char *kernel, const void *params,
			 enum simt_fault_code code, uint64_t addr)
{
	cr_assert(gpu_launch(&g, kernel, 1, 32, params) == SIMT_FAULT, "%s", kernel);
	cr_expect(g.fault.code == code, "%s: %s", kernel, simt_fault_name(g.fault.code));
	cr_expect(g.fault.addr == addr, "%s: 0x%llx", kernel,
		  (unsigned long long)g.fault.addr);
	cr_expect(g.fault.line > 0);
	cr_expect_str_eq(g.fault.func, kernel);
}

Test(simt_memory, a_generic_pointer_reaches_every_space)
{
	EACH_BUILD
	{
		int *out = gpu_alloc(&g, 1024);

		OK(gpu_launch(&g, "spaces", 1, 32, &out));
		for (int t = 0; t < 32; t++) {
			int k = t % 4;
			int want = k == 0   ? (31 - t) * 2
				   : k == 1 ? t + t % 8 * 100
				   : k == 2 ? 3
					    : 7000 + t;

			cr_expect(out[32 + t] == want || k == 2, "%d: %d", t,
				  out[32 + t]);
			cr_expect(out[96 + t] ==
					  10 * (k + 1) + t % 2 + 1 + "a text"[t % 6],
				  "%d: %d", t, out[96 + t]);
			cr_expect(out[128 + t] == (k == 0 ? 1 : k == 1 ? 4 : 2));
		}
		/* all lanes that add to one place read 3 first */
		cr_expect(*(int *)((char *)gpu_var(&g, "scalars") + 8) == 4);
	}
}

Test(simt_memory, dynamic_shared)
{
	EACH_BUILD
	{
		struct {
			int *out;
			int n;
		} p = {gpu_alloc(&g, 256), 50};

		g.shared_bytes = 200;
		OK(gpu_launch(&g, "dynamic_shared", 1, 64, &p));
		cr_expect(p.out[0] == 3675 && p.out[63] == 3675);
		p.n = 51;
		cr_expect(gpu_launch(&g, "dynamic_shared", 1, 64, &p) == SIMT_FAULT);
		cr_expect(g.fault.code == SIMT_FAULT_ADDRESS);
		g.shared_bytes = 0;
	}
}

struct vec {
	char c;
	short s;
	int v[4] __attribute__((aligned(16)));
	double d[2] __attribute__((aligned(16)));
	float f;
	unsigned char b[3];
};

Test(simt_memory, vectors_are_loaded_and_stored_by_element)
{
	EACH_BUILD
	{
		struct vec *in = gpu_alloc(&g, 32 * sizeof(*in));
		struct vec *out = gpu_alloc(&g, 32 * sizeof(*out));

		for (int i = 0; i < 32; i++)
			in[i] = (struct vec){(char)(i * 9),    (short)(i * 1000),
					     {i, 2, 3, i * i}, {i, i * 0.5},
					     (float)i,         {1, 2, (unsigned char)i}};
		OK(gpu_launch(&g, "vectors", 1, 32, &(void *[]){in, out}));
		for (int i = 0; i < 32; i++) {
			const struct vec *a = &in[i], *b = &out[31 - i];

			cr_expect(b->c == (char)(a->c + 1) && b->s == (short)(a->s - 2));
			cr_expect(b->v[0] == a->v[0] + a->v[3] && b->v[2] == 3);
			cr_expect(b->d[0] == a->d[0] && b->d[1] == 2 * a->d[1]);
			cr_expect(b->f == a->f + 0.5f && b->b[2] == (a->b[2] ^ 1));
		}
	}
}

Test(simt_memory, parameters_of_32_kib)
{
	EACH_BUILD
	{
		static struct {
			int v[8000];
			int *out;
		} p;

		for (int i = 0; i < 8000; i++)
			p.v[i] = i * 3;
		p.out = gpu_alloc(&g, 256);
		OK(gpu_launch(&g, "large_param", 1, 64, &p));
		for (int t = 0; t < 64; t++)
			cr_expect(p.out[t] == 3 * (t * 100) + 3 * (7999 - t));
	}
}

Test(simt_memory, wild_accesses)
{
	EACH_BUILD
	{
		uint64_t buf = (uint64_t)(uintptr_t)gpu_alloc(&g, 65536), out = buf;
		/* null, in front of and behind the allocation, outside the band, host
		 * memory, windows of the executor, the highest address */
		const uint64_t bad[] = {0,
					buf - 4,
					buf + 65536,
					g.mem.base,
					g.mem.base - 4096,
					g.mem.base + g.mem.size,
					(uint64_t)(uintptr_t)&g,
					SIMT_SHARED_BASE,
					SIMT_CODE_BASE,
					SIMT_PARAM_BASE + 64,
					~3ull};

		g.as_is = true; /* no shared memory of our own */
		for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
			struct {
				uint64_t p;
				uint64_t v;
			} p = {bad[i], out};
			uint64_t at = bad[i];

			expect_fault("load_at", &p, SIMT_FAULT_ADDRESS, at);
			p.v = 1;
			/* lanes go up from there; the first one that is wrong is named */
			if (at == buf - 4 || at == ~3ull)
				at = bad[i];
			expect_fault("store_at", &p, SIMT_FAULT_ADDRESS, at);
			cr_expect(g.fault.write && g.fault.bytes == 4);
		}
	}
}

Test(simt_memory, read_only_and_misaligned)
{
	EACH_BUILD
	{
		uint64_t buf = (uint64_t)(uintptr_t)gpu_alloc(&g, 65536);
		struct {
			uint64_t p, v;
		} p = {buf, buf};

		expect_fault("store_at", &(uint64_t[]){buf + 2, 1}, SIMT_FAULT_MISALIGNED,
			     buf + 2);
		expect_fault("load_at", &(uint64_t[]){buf + 1, buf},
			     SIMT_FAULT_MISALIGNED, buf + 1);
		OK(gpu_launch(&g, "store_at", 1, 32, &(uint64_t[]){buf, 7}));
		cr_expect(*(int *)(uintptr_t)(buf + 31 * 4) == 7);
		g.perm[(buf - g.mem.base) >> SIMT_PAGE_SHIFT] = SIMT_PERM_READ;
		expect_fault("store_at", &p, SIMT_FAULT_ADDRESS, buf);
		g.perm[(buf - g.mem.base) >> SIMT_PAGE_SHIFT] = SIMT_PERM_NONE;
		expect_fault("load_at", &p, SIMT_FAULT_ADDRESS, buf);
	}
}

Test(simt_memory, shared_overrun)
{
	EACH_BUILD
	{
		struct {
			int64_t i;
			void *out;
		} p = {15, gpu_alloc(&g, 4)};

		g.as_is = true; /* no shared memory behind the kernel's */
		OK(gpu_launch(&g, "shared_at", 1, 32, &p));
		p.i = 16;
		cr_expect(gpu_launch(&g, "shared_at", 1, 32, &p) == SIMT_FAULT);
		p.i = -1;
		cr_expect(gpu_launch(&g, "shared_at", 1, 32, &p) == SIMT_FAULT);
		cr_expect(g.fault.code == SIMT_FAULT_ADDRESS);
	}
}

Test(simt_memory, a_trap_is_a_fault_that_names_its_thread)
{
	EACH_BUILD
	{
		int n = 40;

		OK(gpu_launch(&g, "trap_if", 1, 40, &n));
		n = 37;
		cr_assert(gpu_launch(&g, "trap_if", 3, 40, &n) == SIMT_FAULT);
		cr_expect(g.fault.code == SIMT_FAULT_TRAP && g.fault.thread[0] == 37);
	}
}

Test(simt_memory, a_failed_assertion_says_where_and_is_a_fault)
{
	EACH_BUILD
	{
		int n = 31;

		cr_assert(gpu_launch(&g, "check", 1, 32, &n) == SIMT_FAULT);
		cr_expect(g.fault.code == SIMT_FAULT_ASSERT);
		cr_expect_not_null(strstr(said, "memory.cu:"));
		cr_expect_not_null(strstr(said,
					  "check(int): block: [0,0,0], thread: [31,0,0] "
					  "Assertion `threadIdx.x < n` failed.\n"));
	}
}

Test(simt_memory, printf_formats_as_on_the_host)
{
	EACH_BUILD
	{
		char want[2048] = "", line[256];
		int n = 3;

		OK(gpu_launch(&g, "say", 1, 32, &n));
		for (int t = 0; t < n; t++) {
			snprintf(line, sizeof(line),
				 "%d of %d: %5.2f|%-6s|%c|%lld|%p|%%|%08x|%*d|%.3s\n", t,
				 n, t * 1.5, "str", 'A' + t, 123456789012345LL,
				 (void *)0x1234, 0xbeef, 5, 42, "abcdef");
			strcat(want, line);
		}
		cr_expect_str_eq(said, want);
	}
}

Test(simt_memory, malloc_in_a_kernel_fails_when_the_heap_is_used_up)
{
	EACH_BUILD
	{
		int *out = gpu_alloc(&g, 256);

		heap_left = 20;
		heap_live = 0;
		OK(gpu_launch(&g, "heap", 1, 32, &out));
		for (int t = 0; t < 32; t++)
			cr_expect(out[t] == (t < 20 ? t * 120 : -1), "%d: %d", t, out[t]);
		cr_expect(heap_live == 0);
	}
}
