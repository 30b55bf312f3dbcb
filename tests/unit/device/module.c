/* SPDX-License-Identifier: Apache-2.0 */
/* device_ops: images good and bad, functions, variables, attributes, occupancy. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fd.h"
#define TEST_REWRITTEN
#include "test.h"
#include "ptx.h"

static char error_log[4096];

static CUresult load(struct fix *f, const void *image, size_t size,
		     struct dev_module **mod)
{
	struct dev_jit jit = {.error_log = error_log, .error_size = sizeof(error_log)};
	CUresult r;

	memset(error_log, 'x', sizeof(error_log));
	r = f->ops->module.load(f->ctx, image, size, &jit, mod);
	cr_assert(jit.error_size <= sizeof(error_log));
	cr_assert(memchr(error_log, 0, sizeof(error_log)));
	return r;
}

static CUresult load_text(struct fix *f, const char *text, struct dev_module **mod)
{
	return load(f, text, strlen(text) + 1, mod);
}

DEVICE_TEST(device_module, names_are_found)
{
	const char text[] = PTX_HEAD PTX_VARS PTX_NUMBER PTX_EMPTY;
	struct dev_func *fn, *other;
	struct dev_module *mod;
	const char *name;
	CUdeviceptr p;
	size_t size;
	unsigned n = 0;

	OK(load_text(f, text, &mod));
	OK(f->ops->module.function(mod, "number", &fn));
	FAILS(f->ops->module.function(mod, "Number", &fn), CUDA_ERROR_NOT_FOUND);
	FAILS(f->ops->module.function(mod, "", &fn), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->module.function(mod, "counter", &fn), CUDA_ERROR_NOT_FOUND);
	while (f->ops->module.function_at(mod, n, &other, &name) == CUDA_SUCCESS) {
		OK(f->ops->module.function(mod, name, &fn));
		cr_assert(fn == other);
		n++;
	}
	cr_assert(n == 3);
	OK(f->ops->module.global(mod, "counter", &p, &size));
	cr_assert(size == 4 && (p >= DEVICE_BAND_BASE || !f->soft));
	OK(f->ops->module.global(mod, "limit", &p, &size));
	cr_assert(size == 4);
	FAILS(f->ops->module.global(mod, "number", &p, &size), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->module.global(mod, "", &p, &size), CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->module.global(mod, "nothing", &p, &size), CUDA_ERROR_NOT_FOUND);
	cr_assert(f->ops->module.memory(mod) >= 16 || strcmp(f->ops->name, "soft"));
	f->ops->module.unload(mod);
}

DEVICE_TEST(device_module, variables_hold_what_they_should)
{
	const char text[] = PTX_HEAD PTX_VARS;
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_launch l = {.grid = {1, 1, 1},
			       .block = {1, 1, 1},
			       .params = &m.addr,
			       .params_size = 8};
	CUdeviceptr counter, limit;
	struct dev_module *mod;
	uint32_t v = 0;
	size_t size;

	OK(load_text(f, text, &mod));
	OK(f->ops->module.function(mod, "bump", &l.func));
	OK(f->ops->module.global(mod, "counter", &counter, &size));
	OK(f->ops->module.global(mod, "limit", &limit, &size));
	OK(f->ops->copy.read(f->ctx, NULL, &v, counter, 4));
	cr_assert(v == 40);
	v = 1000;
	OK(f->ops->copy.write(f->ctx, NULL, m.addr, &v, 4));
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	OK(f->ops->copy.read(f->ctx, NULL, &v, m.addr, 4));
	cr_assert(v == 1042);
	v = 100; /* cudaMemcpyToSymbol to constant memory */
	OK(f->ops->copy.write(f->ctx, NULL, limit, &v, 4));
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	OK(f->ops->copy.read(f->ctx, NULL, &v, m.addr, 4));
	cr_assert(v == 1042 + 41 + 100);
	OK(f->ops->copy.read(f->ctx, NULL, &v, counter, 4));
	cr_assert(v == 42);
	f->ops->module.unload(mod);
	fix_free(f, &m);
}

DEVICE_TEST(device_module, bad_images_have_their_codes)
{
	static const unsigned char elf[1024] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x33};
	static const unsigned char junk[256] = {1, 2, 3, 0xff, 0xfe};
	struct dev_module *mod;

	FAILS(load(f, elf, sizeof(elf), &mod),
	      f->soft ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE);
	FAILS(load(f, junk, sizeof(junk), &mod), CUDA_ERROR_INVALID_IMAGE);
	FAILS(load(f, "", 1, &mod), CUDA_ERROR_INVALID_IMAGE);
}

/* Says for what the code is that an image has, and nothing of images that it can run. */
SOFT_TEST(device_module, machine_code_is_told_by_its_architecture)
{
	static unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x33, 8};
	static const char ptx[] = PTX_HEAD ".visible .entry f() { ret; }\n";
	struct dev_jit jit = {0};
	struct dev_module *mod;

	elf[49] = 90;
	cr_assert(f->ops->module.load(f->ctx, elf, sizeof(elf), &jit, &mod) ==
		  CUDA_ERROR_NO_BINARY_FOR_GPU);
	cr_expect_str_eq(jit.no_code, "sm_90");
	OK(f->ops->module.load_library(f->ctx, elf, sizeof(elf), &jit, &mod));
	cr_expect_str_eq(jit.no_code, "sm_90");
	f->ops->module.unload(mod);
	OK(f->ops->module.load(f->ctx, ptx, sizeof(ptx), &jit, &mod));
	cr_expect_str_eq(jit.no_code, "");
	f->ops->module.unload(mod);
}

DEVICE_TEST(device_module, bad_ptx_is_told_with_its_line)
{
	const char *const bad[] = {
		PTX_HEAD ".visible .entry f() {\n frobnicate.u32 %r1, %r2;\n ret;\n}\n",
		PTX_HEAD
		".visible .entry f() {\n .reg .b32 %r<2>;\n add.u32 %r1, %r9, 1;\n"
		" ret;\n}\n",
		PTX_HEAD ".visible .entry f() {\n bra nowhere;\n}\n",
		PTX_HEAD ".visible .entry f( {\n ret;\n}\n",
	};
	struct dev_module *mod;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		FAILS(load_text(f, bad[i], &mod), CUDA_ERROR_INVALID_PTX);
		cr_assert(strstr(error_log, "line"), "%zu: %s", i, error_log);
	}
}

DEVICE_TEST(device_module, ptx_for_other_times_and_gpus)
{
	const char later[] = ".version 99.0\n.target sm_75\n.address_size 64\n";
	const char larger[] =
		".version 9.0\n.target sm_120\n.address_size 64\n" PTX_EMPTY;
	const char specific[] =
		".version 9.0\n.target sm_90a\n.address_size 64\n" PTX_EMPTY;
	struct dev_module *mod;

	FAILS(load_text(f, later, &mod), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	FAILS(load_text(f, larger, &mod), CUDA_ERROR_INVALID_PTX);
	cr_assert(strstr(error_log, ".target"), "%s", error_log);
	OK(load_text(f, specific, &mod));
	f->ops->module.unload(mod);
}

DEVICE_TEST(device_module, what_is_undefined_is_named)
{
	const char text[] = PTX_HEAD ".extern .func missing_one();\n"
				     ".visible .entry f() { call missing_one; ret; }\n";
	struct dev_module *mod;

	FAILS(load_text(f, text, &mod), CUDA_ERROR_INVALID_PTX);
	cr_assert(strstr(error_log, "missing_one"), "%s", error_log);
}

/* A log of any size is filled, never overrun. */
DEVICE_TEST(device_module, logs_fit_their_buffers)
{
	const char text[] = PTX_HEAD ".visible .entry f() {\n frobnicate;\n}\n";
	struct dev_module *mod;
	char log[64];

	for (size_t n = 0; n < sizeof(log); n++) {
		struct dev_jit jit = {.error_log = log, .error_size = n};

		memset(log, 'x', sizeof(log));
		FAILS(f->ops->module.load(f->ctx, text, sizeof(text), &jit, &mod),
		      CUDA_ERROR_INVALID_PTX);
		cr_assert(jit.error_size <= n && log[n] == 'x');
		cr_assert(!n || !log[jit.error_size - 1]);
	}
}

/* Drivers may load variables only when somebody asks for one. */
static void load_big(struct fix *f, const char *text, struct dev_module **mod)
{
	CUdeviceptr p;
	size_t size;

	OK(load_text(f, text, mod));
	OK(f->ops->module.global(*mod, "big", &p, &size));
}

/* The footprint counts code and all else that the process has of the device but
 * allocations, if the device can say. */
DEVICE_TEST(device_module, footprint)
{
	const char text[] = PTX_HEAD ".visible .global .align 8 .b8 big[104857600];\n";
	uint64_t first, with, most;
	struct dev_mem *mem;
	struct dev_module *mod;

	load_big(f, text, &mod); /* a driver may keep something for the next one */
	f->ops->module.unload(mod);
	OK(f->ops->memory.create(f->dev, 64 * MIB, DEV_MEMORY_DEVICE, &mem));
	f->ops->memory.release(f->dev, mem);
	if (!f->ops->footprint(f->dev, &first, &most)) {
		cr_assert(!f->soft);
		return;
	}
	cr_assert(first == most && (!f->soft || !first));
	load_big(f, text, &mod);
	OK(f->ops->memory.create(f->dev, 64 * MIB, DEV_MEMORY_DEVICE, &mem));
	cr_assert(f->ops->footprint(f->dev, &with, &most));
	cr_assert(with == most && with - first >= 100 * MIB && with - first < 110 * MIB,
		  "%llu, then %llu", (unsigned long long)first, (unsigned long long)with);
	f->ops->module.unload(mod);
	cr_assert(f->ops->footprint(f->dev, &with, &most));
	cr_assert(with == first && most == first);
	f->ops->memory.release(f->dev, mem);
	cr_assert(f->ops->footprint(f->dev, &with, &most));
	cr_assert(with == first && most == first);
}

SOFT_TEST(device_module, memory_of_modules_is_given_back)
{
	const char text[] = PTX_HEAD ".visible .global .align 8 .b8 big[104857600];\n";
	struct dev_module *mod;

	for (int i = 0; i < 100; i++) {
		OK(load_text(f, text, &mod));
		cr_assert(f->ops->module.memory(mod) >= 104857600);
		f->ops->module.unload(mod);
	}
	for (int i = 0; i < 100; i++) {
		CUresult r = load_text(f, text, &mod);

		if (r == CUDA_ERROR_OUT_OF_MEMORY)
			return;
		cr_assert(!r);
	}
	cr_assert(false, "never out of memory");
}

DEVICE_TEST(device_module, attributes_of_functions)
{
	const char text[] = PTX_HEAD
		".visible .entry f(.param .u64 a, .param .u32 b, .param .align 8 .b8 "
		"c[24])\n"
		".maxntid 256, 1, 1 {\n .shared .align 4 .b8 s[1000]; .reg .b32 %r<2>;\n"
		" mov.u32 %r1, s; st.shared.u32 [%r1], 1; ret; }\n";
	struct dev_module *mod;
	struct dev_func *fn;
	struct dev_param p;
	int v = -1;

	OK(load_text(f, text, &mod));
	OK(f->ops->module.function(mod, "f", &fn));
	OK(f->ops->func.attribute(fn, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &v));
	cr_assert(v == 256);
	OK(f->ops->func.attribute(fn, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &v));
	cr_assert(v == 1000);
	OK(f->ops->func.attribute(fn, CU_FUNC_ATTRIBUTE_NUM_REGS, &v));
	cr_assert(v > 0 && v < 256);
	OK(f->ops->func.attribute(fn, CU_FUNC_ATTRIBUTE_BINARY_VERSION, &v));
	cr_assert(v >= 75);
	for (int a = 0; a < CU_FUNC_ATTRIBUTE_MAX && f->soft; a++)
		OK(f->ops->func.attribute(fn, (CUfunction_attribute)a, &v));
	FAILS(f->ops->func.attribute(fn, CU_FUNC_ATTRIBUTE_MAX, &v),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->func.attribute(fn, (CUfunction_attribute)-1, &v),
	      CUDA_ERROR_INVALID_VALUE);
	FAILS(f->ops->func.set_attribute(fn, CU_FUNC_ATTRIBUTE_NUM_REGS, 1),
	      CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->func.param(fn, 0, &p));
	cr_assert(p.offset == 0 && p.size == 8);
	OK(f->ops->func.param(fn, 1, &p));
	cr_assert(p.offset == 8 && p.size == 4);
	OK(f->ops->func.param(fn, 2, &p));
	cr_assert(p.offset == 16 && p.size == 24);
	FAILS(f->ops->func.param(fn, 3, &p), CUDA_ERROR_INVALID_VALUE);
	OK(f->ops->func.occupancy(fn, 256, 0, 0, &v));
	cr_assert(v >= 1 && v <= 8);
	OK(f->ops->func.occupancy(fn, 32, 40 << 10, 0, &v));
	cr_assert(v == 5, "%d", v);
	f->ops->module.unload(mod);
}

DEVICE_TEST(device_module, blocks_larger_than_the_function_allows)
{
	const char text[] = PTX_HEAD ".visible .entry f() .maxntid 64, 1, 1 { ret; }\n";
	struct dev_launch l = {.grid = {1, 1, 1}, .block = {65, 1, 1}};
	struct dev_module *mod;

	OK(load_text(f, text, &mod));
	OK(f->ops->module.function(mod, "f", &l.func));
	FAILS(f->ops->func.launch(f->ctx, NULL, &l), CUDA_ERROR_INVALID_VALUE);
	l.block[0] = 64;
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	OK(f->ops->ctx.synchronize(f->ctx));
	f->ops->module.unload(mod);
}

DEVICE_TEST(device_module, unloading_waits_for_the_kernels)
{
	const char text[] = PTX_HEAD PTX_LOOP;
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct {
		CUdeviceptr p;
		uint32_t n;
	} args = {m.addr, 300000};
	struct dev_launch l = {.grid = {4, 1, 1},
			       .block = {32, 1, 1},
			       .params = &args,
			       .params_size = 12};
	struct dev_module *mod;

	for (int i = 0; i < 5; i++) {
		OK(load_text(f, text, &mod));
		OK(f->ops->module.function(mod, "loop", &l.func));
		OK(f->ops->func.launch(f->ctx, NULL, &l));
		f->ops->module.unload(mod);
	}
	OK(f->ops->ctx.synchronize(f->ctx));
	fix_free(f, &m);
}

/* ---- containers ---- */

/* As nvcc writes it: the entry's header ends with its (empty) options and name. */
struct container {
	uint32_t magic;
	uint16_t version, hdr_bytes;
	uint64_t body_bytes;
	uint16_t kind, entry_version;
	uint32_t entry_hdr_bytes;
	uint64_t payload_bytes;
	uint32_t packed_bytes, options_at;
	uint16_t minor, major;
	uint32_t sm, zero1, zero2;
	uint64_t flags, zero3, plain_bytes;
	uint64_t name_at, zero4;
};

/* Puts a container with one entry at p; returns its bytes. */
static size_t put_container(char *p, unsigned kind, const void *data, size_t size)
{
	size_t padded = ALIGN_UP(size, (size_t)8);
	struct container c = {
		.magic = 0xba55ed50,
		.version = 1,
		.hdr_bytes = 16,
		.body_bytes = sizeof(c) - 16 + padded,
		.kind = (uint16_t)kind,
		.entry_version = 0x101,
		.entry_hdr_bytes = sizeof(c) - 16,
		.payload_bytes = padded,
		.options_at = 64,
		.major = 8,
		.sm = 75,
		.flags = 0x11,
		.name_at = 72,
	};

	memcpy(p, &c, sizeof(c));
	memset(p + sizeof(c), 0, padded);
	memcpy(p + sizeof(c), data, size);
	return sizeof(c) + padded;
}

DEVICE_TEST(device_module, a_container_is_opened)
{
	const char text[] = PTX_HEAD PTX_EMPTY;
	struct dev_module *mod;
	struct dev_func *fn;
	char image[4096];
	size_t n = put_container(image, 1, text, sizeof(text));

	OK(load(f, image, n, &mod));
	OK(f->ops->module.function(mod, "empty", &fn));
	f->ops->module.unload(mod);
	for (size_t cut = 1; cut < n; cut += 7)
		cr_assert(load(f, image, n - cut, &mod) != CUDA_SUCCESS);
	n = put_container(image, 2, "\177ELF nothing", 12);
	cr_assert(load(f, image, n, &mod) != CUDA_SUCCESS);
	FAILS(load(f, image, 16, &mod), CUDA_ERROR_INVALID_IMAGE);
}

/* Output of nvcc -rdc=true: machine code, then the objects; one calls another. */
SOFT_TEST(device_module, containers_in_a_row_are_linked)
{
	const char a[] =
		PTX_HEAD ".extern .func (.param .b32 r) twice(.param .b32 x);\n"
			 ".extern .global .align 4 .u32 shared_count;\n"
			 ".visible .entry calls(.param .u64 p) {\n"
			 " .reg .b64 %rd<2>; .reg .b32 %r<4>; ld.param.u64 %rd1, [p];\n"
			 " ld.global.u32 %r1, [shared_count];\n"
			 " { .param .b32 x; st.param.b32 [x], %r1; .param .b32 r;\n"
			 " call.uni (r), twice, (x); ld.param.b32 %r2, [r]; }\n"
			 " st.global.u32 [%rd1], %r2; ret; }\n";
	const char b[] = PTX_HEAD
		".visible .global .align 4 .u32 shared_count = 21;\n"
		".visible .func (.param .b32 r) twice(.param .b32 x) {\n"
		" .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.s32 %r2, %r1, %r1;\n"
		" st.param.b32 [r], %r2; ret; }\n";
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_launch l = {.grid = {1, 1, 1},
			       .block = {1, 1, 1},
			       .params = &m.addr,
			       .params_size = 8};
	struct dev_module *mod;
	char image[8192];
	uint32_t v = 0;
	size_t n, alone, more;

	n = put_container(image, 2, "\177ELF nothing", 12);
	n += put_container(image + n, 1, a, sizeof(a));
	FAILS(load(f, image, n, &mod), CUDA_ERROR_INVALID_PTX);
	cr_assert(strstr(error_log, "twice") || strstr(error_log, "shared_count"), "%s",
		  error_log);
	alone = n;
	n += put_container(image + n, 1, b, sizeof(b));
	/* a library of machine code alone, as libcudadevrt: needed, and not needed */
	more = put_container(image + n, 2, "\177ELF nothing", 12);
	OK(load(f, image, n + more, &mod));
	f->ops->module.unload(mod);
	more = put_container(image + alone, 2, "\177ELF nothing", 12);
	FAILS(load(f, image, alone + more, &mod), CUDA_ERROR_NO_BINARY_FOR_GPU);
	put_container(image + alone, 1, b, sizeof(b));
	OK(load(f, image, n, &mod));
	OK(f->ops->module.function(mod, "calls", &l.func));
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	OK(f->ops->copy.read(f->ctx, NULL, &v, m.addr, 4));
	cr_assert(v == 42);
	f->ops->module.unload(mod);
	FAILS(load(f, image, n - 8, &mod), CUDA_ERROR_INVALID_IMAGE);
	image[n] = 1;
	FAILS(load(f, image, n + 1, &mod), CUDA_ERROR_INVALID_IMAGE);
	fix_free(f, &m);
}

/* ---- launches in batches ---- */

#define BATCHES 200u /* more than a device needs to see that they come */

struct step {
	CUdeviceptr p;
	uint32_t v;
};

/* n steps, of either function; the middle one cannot be launched if bad. */
static CUresult batch(struct fix *f, struct dev_func *const fn[2], CUdeviceptr p,
		      unsigned n, uint32_t *is, bool bad)
{
	struct dev_launch l[DEV_BATCH_MAX] = {0};
	struct step params[DEV_BATCH_MAX];

	for (unsigned i = 0; i < n; i++) {
		unsigned which = *is >> i & 1;

		params[i] = (struct step){p, *is % 1000 + i};
		l[i] = (struct dev_launch){.func = fn[which],
					   .grid = {1, 1, 1},
					   .block = {1, 1, 1},
					   .params = &params[i],
					   .params_size = 12};
		if (bad && i == n / 2)
			l[i].block[0] = 5000;
		else
			*is = *is * (which ? 5 : 3) + params[i].v;
	}
	return device_launch(f->ops, f->ctx, NULL, l, n);
}

static void load_steps(struct fix *f, const char *text, struct dev_module **mod,
		       struct dev_func **fn)
{
	OK(load_text(f, text, mod));
	OK(f->ops->module.function(*mod, "step", fn));
}

static void check_steps(struct fix *f, CUdeviceptr p, uint32_t is)
{
	uint32_t v = ~is;

	OK(f->ops->copy.read(f->ctx, NULL, &v, p, sizeof(v)));
	cr_assert_eq(v, is);
}

DEVICE_TEST(device_module, launches_in_batches)
{
	const char text[2][1024] = {PTX_HEAD PTX_STEP("3"), PTX_HEAD PTX_STEP("5")};
	struct fix_mem m = fix_alloc(f, 2 * MIB);
	struct dev_module *mod[2];
	struct dev_func *fn[2];
	uint32_t is = 1;

	for (unsigned i = 0; i < 2; i++)
		load_steps(f, text[i], &mod[i], &fn[i]);
	OK(f->ops->copy.write(f->ctx, NULL, m.addr, &is, sizeof(is)));
	for (unsigned i = 0; i < BATCHES; i++)
		OK(batch(f, fn, m.addr, i % DEV_BATCH_MAX + 1, &is, false));
	check_steps(f, m.addr, is);
	/* one that cannot be launched is left out */
	for (unsigned i = 0; i < 3; i++) {
		CUresult r = batch(f, fn, m.addr, DEV_BATCH_MAX, &is, true);

		cr_assert(r == CUDA_ERROR_INVALID_VALUE, "%d", (int)r);
	}
	check_steps(f, m.addr, is);
	/* code that goes, and other code in its place */
	for (unsigned i = 0; i < 4; i++) {
		f->ops->module.unload(mod[1]);
		load_steps(f, text[1], &mod[1], &fn[1]);
		for (unsigned j = 0; j < 8; j++)
			OK(batch(f, fn, m.addr, DEV_BATCH_MAX, &is, false));
	}
	check_steps(f, m.addr, is);
	f->ops->module.unload(mod[0]);
	f->ops->module.unload(mod[1]);
	fix_free(f, &m);
}

/* Variables in managed memory have their first values once, where they are said to be. */
DEVICE_TEST(device_module, variables_in_managed_memory)
{
	static const char ptx[] =
		".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .global .attribute(.managed) .align 4 .u32 counter = 5;\n"
		".visible .entry k()\n{\n.reg .u32 %r;\n"
		"ld.global.u32 %r, [counter];\nadd.u32 %r, %r, 1;\n"
		"st.global.u32 [counter], %r;\nret;\n}\n";
	const uint64_t size = DEVICE_HOST_GRAIN;
	int fd = fd_memfd("test", size);
	struct dev_managed *v;
	struct dev_jit jit = {.optimization_level = 4};
	struct dev_module *first, *second;
	uint32_t *view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned n = 0;

	if (!f->soft) /* it places those of machine code alone */
		return;
	cr_assert_neq(view, MAP_FAILED);
	OK(f->ops->module.managed(f->ctx, ptx, sizeof(ptx), &v, &n));
	cr_assert_eq(n, 1);
	cr_assert_str_eq(v->name, "counter");
	cr_assert_eq(v->bytes, 4);
	FAILS(f->ops->module.load_library(f->ctx, ptx, sizeof(ptx), &jit, &first),
	      CUDA_ERROR_NOT_SUPPORTED);
	OK(f->ops->memory.host_map(f->ctx, DEVICE_HOST_BASE, size, fd, 0));
	v->addr = DEVICE_HOST_BASE + 64;
	view[16] = 77;
	jit.managed = v;
	jit.n_managed = n;
	OK(f->ops->module.load_library(f->ctx, ptx, sizeof(ptx), &jit, &first));
	cr_assert_eq(view[16], 5);
	view[16] = 6;
	jit.managed_set = true;
	OK(f->ops->module.load_library(f->ctx, ptx, sizeof(ptx), &jit, &second));
	cr_assert_eq(view[16], 6, "in a further context it is what it was");
	f->ops->module.unload(second);
	f->ops->module.unload(first);
	OK(f->ops->memory.host_unmap(f->ctx, DEVICE_HOST_BASE));
	free(v);
	munmap(view, size);
	close(fd);
}
