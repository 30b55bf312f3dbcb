/* SPDX-License-Identifier: Apache-2.0 */
/* Code compiled by a link of one input has second forms of its kernels, too. By our own library
 * as the driver, which links PTX. */
#include "ptx/rewrite/persist.h"
#include "test.h"

static char text[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
		     ".visible .entry work() { ret; }\n";
static char other[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
		      ".visible .entry more() { ret; }\n";

/* How many of two inputs, n of which are linked, have copies in the result. */
static unsigned linked(enum rewrite_mode mode, unsigned n)
{
	const struct device_ops *ops = device_rewritten(&device_cuda_ops);
	struct device_config cfg = {.tpcs = 0};
	struct fix *f = calloc(1, sizeof(*f));
	struct dev_jit jit = {.optimization_level = 4};
	struct dev_link *link;
	const void *data;
	unsigned found;
	size_t size;

	f->ops = ops;
	device_cuda_nests = true;
	device_band_release();
	cr_assert_eq(device_rewrite(mode), 0);
	cr_assert_eq(ops->open(&cfg, &f->dev), 0);
	OK(ops->ctx.create(f->dev, 0, &f->ctx));
	OK(ops->link->create(f->ctx, &jit, &link));
	OK(ops->link->add(link, CU_JIT_INPUT_PTX, text, sizeof(text), "work", &jit));
	if (n > 1)
		OK(ops->link->add(link, CU_JIT_INPUT_PTX, other, sizeof(other), "more",
				  &jit));
	OK(ops->link->complete(link, &jit, &data, &size));
	found = !!memmem(data, size, PTX_PERSIST_NAME "work", 12) +
		!!memmem(data, size, PTX_PERSIST_NAME "more", 12);
	ops->link->destroy(link);
	ops->ctx.destroy(f->ctx);
	ops->close(f->dev);
	free(f);
	return found;
}

Test(device_links, one_input_has_copies)
{
	cr_assert_eq(linked(REWRITE_SHARE, 1), 1);
}

Test(device_links, further_inputs_are_linked_as_they_are)
{
	cr_assert_eq(linked(REWRITE_SHARE, 2), 1);
}

Test(device_links, off_is_off)
{
	cr_assert_eq(linked(REWRITE_OFF, 1), 0);
}
