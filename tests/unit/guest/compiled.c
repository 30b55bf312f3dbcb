/* SPDX-License-Identifier: Apache-2.0 */
/* PTX that a host's driver compiles: once, for all processes of the guest. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "feature.h"
#include "core/guest.h"
#include "fake.h"

static const char image[] = ".version 9.0\n.target sm_75\n";
static const char other[] = ".version 9.0\n.target sm_80\n";

static struct fake *start(uint32_t features)
{
	struct fake *f = fake_start(true);
	CUcontext ctx;

	f->features = features;
	cr_assert_eq(cuInit(0), CUDA_SUCCESS);
	cr_assert_eq(cuCtxCreate_v2(&ctx, 0, 0), CUDA_SUCCESS);
	return f;
}

static char folder[64];

static void setup(void)
{
	strcpy(folder, "/tmp/weft-compiled-XXXXXX");
	cr_assert(mkdtemp(folder));
	setenv("CUDA_CACHE_PATH", folder, 1);
	unsetenv("CUDA_CACHE_DISABLE");
}

static void teardown(void)
{
	char cmd[96];

	snprintf(cmd, sizeof(cmd), "rm -r %s", folder);
	cr_expect_eq(system(cmd), 0);
}

TestSuite(guest_compiled, .init = setup, .fini = teardown);

static void load(const char *text)
{
	CUmodule m;

	cr_assert_eq(cuModuleLoadData(&m, text), CUDA_SUCCESS);
}

Test(guest_compiled, an_image_is_compiled_once)
{
	struct fake *f = start(FEATURE_COMPILES);

	load(image);
	fake_drain(f);
	cr_expect_eq(f->links, 1);
	cr_expect_str_eq(f->last_image, FAKE_CODE, "machine code is what is loaded");
	load(image);
	cr_expect_eq(f->links, 1);
	load(other);
	cr_expect_eq(f->links, 2);
}

/* A host that asks for it gets what the code was compiled from. */
Test(guest_compiled, what_it_was_compiled_from)
{
	struct fake *f = start(FEATURE_COMPILES | FEATURE_SOURCES);

	for (int i = 0; i < 2; i++) {
		load(image);
		fake_drain(f);
		cr_expect_eq(f->links, 1);
		cr_expect_str_eq(f->last_image, image);
		cr_expect_neq(f->last_source, 0);
	}
}

Test(guest_compiled, next_process)
{
	struct fake *f;
	int status;

	if (fork() == 0) {
		start(FEATURE_COMPILES);
		load(image);
		_exit(0);
	}
	cr_assert_gt(wait(&status), 0);
	cr_assert_eq(status, 0);
	f = start(FEATURE_COMPILES);
	load(image);
	fake_drain(f);
	cr_expect_eq(f->links, 0);
	cr_expect_str_eq(f->last_image, FAKE_CODE);
}

Test(guest_compiled, options_count)
{
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *value = (void *)32;
	struct fake *f = start(FEATURE_COMPILES);
	CUmodule m;

	load(image);
	cr_assert_eq(cuModuleLoadDataEx(&m, image, 1, &option, &value), CUDA_SUCCESS);
	cr_expect_eq(f->links, 2);
}

Test(guest_compiled, switched_off)
{
	struct fake *f;

	setenv("CUDA_CACHE_DISABLE", "1", 1);
	f = start(FEATURE_COMPILES);
	load(image);
	fake_drain(f);
	cr_expect_eq(f->links, 0);
	cr_expect_str_eq(f->last_image, image);
}

Test(guest_compiled, a_device_without_machine_code)
{
	struct fake *f = start(0);

	load(image);
	fake_drain(f);
	cr_expect_eq(f->links, 0);
	cr_expect_str_eq(f->last_image, image);
}

/* Code that is kept may have become useless; the image is then loaded as it is. */
Test(guest_compiled, refused_code)
{
	struct fake *f = start(FEATURE_COMPILES);
	CUmodule m;

	load(image);
	f->load_status = CUDA_ERROR_INVALID_IMAGE;
	cr_expect_eq(cuModuleLoadData(&m, image), CUDA_ERROR_INVALID_IMAGE);
	fake_drain(f);
	cr_expect_str_eq(f->last_image, image);
	f->load_status = 0;
	load(image);
	cr_expect_eq(f->links, 2, "compiled anew");
}
