/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive search tree, ordered by a number and, among equals, by the node's address.
 * All take logarithmic time (an AVL tree: of n nodes it is at most 1.44 log2 n high).
 * Nothing is allocated. Not thread-safe.
 */
#ifndef WEFT_BASE_TREE_H
#define WEFT_BASE_TREE_H

#include <stdint.h>

struct tree_node {
	struct tree_node *child[2];
	uint64_t key; /* set before insertion, constant while in the tree */
	unsigned height;
};

/* All zero: empty. */
struct tree {
	struct tree_node *root;
};

void tree_insert(struct tree *t, struct tree_node *n);

/* n must be in the tree. */
void tree_remove(struct tree *t, struct tree_node *n);

/* The first node whose key is at least `key`, or NULL. */
struct tree_node *tree_at_least(const struct tree *t, uint64_t key);

/* The last node whose key is at most `key`, or NULL. */
struct tree_node *tree_at_most(const struct tree *t, uint64_t key);

/* The one after n in the order, or NULL. */
struct tree_node *tree_next(const struct tree *t, const struct tree_node *n);

#endif
