/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU with kernels in a second form. */
#ifndef WEFT_TEST_DEVICE_REWRITTEN_H
#define WEFT_TEST_DEVICE_REWRITTEN_H

#include <stdlib.h>

#include "device/rewrite/rewrite.h"
#include "test.h"

/* A part of so many random moments where a sanitizer makes each ten times as long. */
static inline unsigned moments(unsigned n)
{
#ifdef __SANITIZE_ADDRESS__
	return n / 4;
#else
	return n;
#endif
}

static inline void with_mode_of(const struct device_ops *under, enum rewrite_mode mode,
				void (*body)(struct fix *f))
{
	struct device_config cfg = {.tpcs = 2};
	struct fix *f = calloc(1, sizeof(*f));

	device_band_release();
	f->ops = device_rewritten(under);
	cr_assert_eq(device_rewrite(mode), 0);
	cr_assert_eq(f->ops->open(&cfg, &f->dev), 0);
	f->ops->info(f->dev, &f->info);
	OK(f->ops->ctx.create(f->dev, 0, &f->ctx));
	body(f);
	f->ops->ctx.destroy(f->ctx);
	f->ops->close(f->dev);
	free(f);
}

static inline void with_mode(enum rewrite_mode mode, void (*body)(struct fix *f))
{
	with_mode_of(&device_soft_ops, mode, body);
}

#endif
