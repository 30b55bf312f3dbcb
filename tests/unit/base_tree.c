/* SPDX-License-Identifier: Apache-2.0 */
/* The tree against a sorted array, and how high it becomes. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/tree.h"

#define MOST 512

static struct tree tree;
static struct tree_node nodes[MOST], *sorted[MOST];
static unsigned n_sorted;

static unsigned lower_bound(const struct tree_node *n)
{
	unsigned i = 0;

	while (i < n_sorted &&
	       (sorted[i]->key < n->key || (sorted[i]->key == n->key && sorted[i] < n)))
		i++;
	return i;
}

static void add(struct tree_node *n, uint64_t key)
{
	unsigned i;

	n->key = key;
	tree_insert(&tree, n);
	i = lower_bound(n);
	memmove(&sorted[i + 1], &sorted[i], (n_sorted++ - i) * sizeof(*sorted));
	sorted[i] = n;
}

static void drop(struct tree_node *n)
{
	unsigned i = lower_bound(n);

	cr_assert_eq(sorted[i], n);
	tree_remove(&tree, n);
	memmove(&sorted[i], &sorted[i + 1], (--n_sorted - i) * sizeof(*sorted));
}

static unsigned check_heights(const struct tree_node *n)
{
	unsigned a, b;

	if (!n)
		return 0;
	a = check_heights(n->child[0]);
	b = check_heights(n->child[1]);
	cr_assert(a <= b + 1 && b <= a + 1);
	cr_assert_eq(n->height, 1 + MAX(a, b));
	return n->height;
}

static void same_as_sorted(uint64_t key)
{
	const struct tree_node *n = tree_at_least(&tree, 0);
	unsigned i, below = 0, up_to = 0;

	for (i = 0; i < n_sorted; i++, n = tree_next(&tree, n)) {
		cr_assert_eq(n, sorted[i]);
		below += n->key < key;
		up_to += n->key <= key;
	}
	cr_assert_null(n);
	cr_assert_eq(tree_at_least(&tree, key), below < n_sorted ? sorted[below] : NULL);
	cr_assert_eq(tree_at_most(&tree, key), up_to ? sorted[up_to - 1] : NULL);
	check_heights(tree.root);
}

Test(base_tree, as_a_sorted_array, .timeout = 60)
{
	unsigned short seed[3] = {1, 2, 3};
	bool in[MOST] = {0};

	for (unsigned round = 0; round < 20000; round++) {
		unsigned i = (unsigned)nrand48(seed) % MOST;

		/* Few keys: many equal ones. */
		if (in[i])
			drop(&nodes[i]);
		else
			add(&nodes[i], (uint64_t)nrand48(seed) % 100);
		in[i] = !in[i];
		if (round % 16 == 0)
			same_as_sorted((uint64_t)nrand48(seed) % 102);
	}
}

Test(base_tree, stays_low, .timeout = 60)
{
	const unsigned n = 1u << 17;
	struct tree_node *v = calloc(n, sizeof(*v));

	cr_assert_not_null(v);
	for (unsigned i = 0; i < n; i++) { /* in order: the worst for a plain tree */
		v[i].key = i;
		tree_insert(&tree, &v[i]);
	}
	cr_expect_leq(tree.root->height, 18);
	for (unsigned i = 0; i < n; i += 2)
		tree_remove(&tree, &v[i]);
	cr_expect_leq(tree.root->height, 1.44 * 16 + 1);
	check_heights(tree.root);
	free(v);
}
