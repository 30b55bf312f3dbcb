/* SPDX-License-Identifier: Apache-2.0 */
/* Links of a driver that calls back: one input alone is loaded, and its code is what was
 * loaded; more are linked. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* as cuda.h has it */
#include <elf.h>
#include <errno.h>

#include "device/cuda/device.h"
#include "device/cuda/module.h"
#include "test.h"

static struct {
	void (*fn)(void *arg, int domain, int event, const void *params);
	bool on, loads, tells;
	unsigned n_added, n_linked;
	char added[3];
} driver;

static struct device dev = {.still = {.lock = PTHREAD_MUTEX_INITIALIZER,
				      .changed = PTHREAD_COND_INITIALIZER}};
static struct dev_ctx ctx = {.dev = &dev};
static Elf64_Ehdr loaded, linked;

static CUresult subscribe(uint32_t *ret, void (*fn)(void *, int, int, const void *),
			  void *arg)
{
	driver.fn = fn;
	*ret = 1;
	return CUDA_SUCCESS;
}

static CUresult enable(uint32_t on, uint32_t subscriber, int domain, int event)
{
	driver.on = on;
	return CUDA_SUCCESS;
}

static const void *table[12] = {(void *)sizeof(table)};

static CUresult export_table(const void **ret, const CUuuid *id)
{
	*ret = table;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI link_create(unsigned n, CUjit_option *options, void **values,
				    CUlinkState *ret)
{
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI link_add(CUlinkState l, CUjitInputType type, void *data,
				 size_t size, const char *name, unsigned n,
				 CUjit_option *options, void **values)
{
	driver.added[driver.n_added++] = *(char *)data;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI link_complete(CUlinkState l, void **ret, size_t *ret_size)
{
	driver.n_linked++;
	*ret = &linked;
	*ret_size = sizeof(linked);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI link_destroy(CUlinkState l)
{
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI load(CUmodule *ret, const void *image, unsigned n,
			     CUjit_option *options, void **values)
{
	struct {
		uint64_t size;
		void *unknown[3];
		const void *code;
		uint64_t code_size;
	} p = {sizeof(p), {NULL}, &loaded, sizeof(loaded)};

	/* Kernels do not stand still meanwhile: the driver may wait for them. */
	cr_assert_eq(dev.still.n_thawed, 1);
	if (!driver.loads)
		return CUDA_ERROR_INVALID_PTX;
	if (driver.on && driver.tells)
		driver.fn(NULL, 2, 17, &p);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI unload(CUmodule m)
{
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI set_current(CUcontext c)
{
	return CUDA_SUCCESS;
}

static void setup(void)
{
	table[3] = (const void *)subscribe;
	table[6] = (const void *)enable;
	cu.cuGetExportTable = export_table;
	cu.cuLinkCreate = link_create;
	cu.cuLinkAddData = link_add;
	cu.cuLinkComplete = link_complete;
	cu.cuLinkDestroy = link_destroy;
	cu.cuModuleLoadDataEx = load;
	cu.cuModuleUnload = unload;
	cu.cuCtxSetCurrent = set_current;
	memcpy(loaded.e_ident, ELFMAG, SELFMAG);
	loaded.e_ident[EI_CLASS] = ELFCLASS64;
	loaded.e_shentsize = sizeof(Elf64_Shdr);
	loaded.e_shnum = 1;
	loaded.e_shoff = 0;
	driver.loads = driver.tells = true;
	ctx.id = 1;
}

TestSuite(device_link, .init = setup);

/* Links that many inputs; returns whether the result is what was loaded. */
static bool is_loaded(unsigned n, CUjitInputType type)
{
	struct dev_jit jit = {.optimization_level = 4};
	struct dev_link *l;
	const void *code;
	size_t size;
	bool is;

	cr_assert_eq(cuda_link_create(&ctx, &jit, &l), CUDA_SUCCESS);
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(cuda_link_add(l, type, i ? "b" : "a", 2, "input", &jit),
			     CUDA_SUCCESS);
	cr_assert_eq(cuda_link_complete(l, &jit, &code, &size), CUDA_SUCCESS);
	is = size == sizeof(loaded) && !memcmp(code, &loaded, size);
	cuda_link_destroy(l);
	return is;
}

Test(device_link, one_input_is_what_was_loaded)
{
	cr_assert(is_loaded(1, CU_JIT_INPUT_PTX));
	cr_assert_eq(driver.n_added, 0);
	cr_assert_eq(driver.n_linked, 0);
	cr_assert_not(driver.on, "nobody else pays");
}

Test(device_link, several_are_linked_in_order)
{
	cr_assert_not(is_loaded(2, CU_JIT_INPUT_PTX));
	cr_assert_str_eq(driver.added, "ab");
	cr_assert_eq(driver.n_linked, 1);
}

Test(device_link, others_are_linked)
{
	cr_assert_not(is_loaded(1, CU_JIT_INPUT_LIBRARY));
	driver.loads = false;
	cr_assert_not(is_loaded(1, CU_JIT_INPUT_PTX), "a part is missing");
	driver.loads = true;
	driver.tells = false;
	cr_assert_not(is_loaded(1, CU_JIT_INPUT_PTX), "a driver that says nothing");
	cr_assert_eq(driver.n_linked, 3);
}
