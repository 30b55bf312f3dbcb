/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of memory: by the device, by its kernel on the software GPU, and here. */
#include <stdlib.h>
#include <string.h>

#include "device/digest.h"
#include "test.h"

#define BYTES (4 * MIB)

static uint32_t words[BYTES / 4];

static struct digest_key setup(void)
{
	struct digest_key key;

	srand(9);
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = (uint32_t)rand() * 2654435761u;
	memset(words, 0xff, 4096); /* the largest words */
	cr_assert_eq(digest_key_new(&key), 0);
	return key;
}

static struct digest here(const struct digest_key *key, const void *p, uint64_t bytes)
{
	struct digest d = {{0, 0}};

	for (uint64_t b = 0; b < bytes / DIGEST_BLOCK; b++)
		digest_add(key, (const char *)p + b * DIGEST_BLOCK, b, &d);
	return d;
}

static bool same(struct digest a, struct digest b)
{
	return !memcmp(&a, &b, sizeof(a));
}

DEVICE_TEST(device_digest, is_what_it_is_here)
{
	struct digest_key key = setup();
	struct fix_mem m = fix_alloc(f, BYTES);
	/* More than a launch has, and of several sizes. */
	struct digest_range r[DIGEST_RANGES + 3];
	struct digest d[ARRAY_SIZE(r)];

	OK(f->ops->copy.write(f->ctx, NULL, m.addr, words, BYTES));
	for (unsigned i = 0; i < ARRAY_SIZE(r); i++)
		r[i] = (struct digest_range){m.addr + i % 3 * DIGEST_BLOCK,
					     (1 + i % 4) * DIGEST_BLOCK};
	OK(f->ops->copy.digest(f->ctx, NULL, &key, r, ARRAY_SIZE(r), d));
	for (unsigned i = 0; i < ARRAY_SIZE(r); i++)
		cr_assert(same(d[i], here(&key, (char *)words + (r[i].addr - m.addr),
					  r[i].bytes)),
			  "%u", i);
	fix_free(f, &m);
}

DEVICE_TEST(device_digest, whatever_changes_is_seen)
{
	struct digest_key key = setup();
	struct digest was = here(&key, words, BYTES), is;

	for (unsigned i = 0; i < 20; i++) {
		unsigned at = (unsigned)rand() % ARRAY_SIZE(words);

		words[at] ^= 1u << i;
		cr_assert_not(same(was, here(&key, words, BYTES)));
		words[at] ^= 1u << i;
	}
	/* Places are exchanged: of words, of chains, of blocks. */
	for (unsigned apart = 1; apart < ARRAY_SIZE(words) / 2; apart *= 2) {
		uint32_t a = words[5000], b = words[5000 + apart];

		words[5000] = b;
		words[5000 + apart] = a;
		is = here(&key, words, BYTES);
		cr_assert(a == b || !same(was, is), "%u", apart);
		words[5000] = a;
		words[5000 + apart] = b;
	}
	cr_assert(same(was, here(&key, words, BYTES)));
	cr_assert_eq(digest_key_new(&key), 0);
	cr_assert_not(same(was, here(&key, words, BYTES)), "of another key");
}

SOFT_TEST(device_digest, the_kernel_says_so_too)
{
	struct digest_args args = {.key = setup()};
	struct fix_mem m = fix_alloc(f, BYTES), sums = fix_alloc(f, 4096);
	struct dev_launch l = {.grid = {3, 2, 1},
			       .block = {DIGEST_CHAINS, 1, 1},
			       .params = &args,
			       .params_size = sizeof(args)};
	struct dev_jit jit = {0};
	struct dev_module *mod;
	uint64_t got[2][4];

	OK(f->ops->copy.write(f->ctx, NULL, m.addr, words, BYTES));
	OK(f->ops->copy.fill(f->ctx, NULL, sums.addr, 0, 0, 4, 1024, 1));
	args.sums = sums.addr;
	args.range[0].addr = m.addr;
	args.range[0].blocks = 3;
	args.range[1].addr = m.addr + DIGEST_BLOCK;
	args.range[1].blocks = 1;
	OK(f->ops->module.load(f->ctx, digest_ptx, strlen(digest_ptx) + 1, &jit, &mod));
	OK(f->ops->module.function(mod, "digest", &l.func));
	OK(f->ops->func.launch(f->ctx, NULL, &l));
	OK(f->ops->copy.read(f->ctx, NULL, got, sums.addr, sizeof(got)));
	cr_assert(same(digest_of_sums(got[0]), here(&args.key, words, 3 * DIGEST_BLOCK)));
	cr_assert(same(digest_of_sums(got[1]),
		       here(&args.key, (char *)words + DIGEST_BLOCK, DIGEST_BLOCK)));
	fix_free(f, &sums);
	fix_free(f, &m);
}
