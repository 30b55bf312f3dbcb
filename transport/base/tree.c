/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"
#include "base/tree.h"

static bool before(const struct tree_node *a, const struct tree_node *b)
{
	return a->key != b->key ? a->key < b->key : a < b;
}

static unsigned height(const struct tree_node *n)
{
	return n ? n->height : 0;
}

static void measure(struct tree_node *n)
{
	n->height = 1 + MAX(height(n->child[0]), height(n->child[1]));
}

/* Puts n's child on that side in n's place, and n below it. */
static struct tree_node *turn(struct tree_node *n, bool side)
{
	struct tree_node *c = n->child[side];

	n->child[side] = c->child[!side];
	c->child[!side] = n;
	measure(n);
	measure(c);
	return c;
}

/* Balances a subtree of which one side has grown or shrunk by one; returns its root. */
static struct tree_node *balance(struct tree_node *n)
{
	bool side = height(n->child[1]) > height(n->child[0]);
	struct tree_node *c = n->child[side];

	measure(n);
	if (height(c) <= height(n->child[!side]) + 1)
		return n;
	if (height(c->child[!side]) > height(c->child[side]))
		n->child[side] = turn(c, !side);
	return turn(n, side);
}

static struct tree_node *insert(struct tree_node *at, struct tree_node *n)
{
	bool side;

	if (!at)
		return n;
	side = before(at, n);
	at->child[side] = insert(at->child[side], n);
	return balance(at);
}

void tree_insert(struct tree *t, struct tree_node *n)
{
	n->child[0] = n->child[1] = NULL;
	n->height = 1;
	t->root = insert(t->root, n);
}

static struct tree_node *take_first(struct tree_node *at, struct tree_node **ret_first)
{
	if (!at->child[0]) {
		*ret_first = at;
		return at->child[1];
	}
	at->child[0] = take_first(at->child[0], ret_first);
	return balance(at);
}

static struct tree_node *take(struct tree_node *at, const struct tree_node *n)
{
	struct tree_node *next, *rest;
	bool side;

	if (at != n) {
		side = before(at, n);
		at->child[side] = take(at->child[side], n);
		return balance(at);
	}
	if (!at->child[1])
		return at->child[0];
	rest = take_first(at->child[1], &next);
	next->child[0] = at->child[0];
	next->child[1] = rest;
	return balance(next);
}

void tree_remove(struct tree *t, struct tree_node *n)
{
	t->root = take(t->root, n);
}

struct tree_node *tree_at_least(const struct tree *t, uint64_t key)
{
	struct tree_node *n = t->root, *found = NULL;

	while (n) {
		bool side = n->key < key;

		if (!side)
			found = n;
		n = n->child[side];
	}
	return found;
}

struct tree_node *tree_at_most(const struct tree *t, uint64_t key)
{
	struct tree_node *n = t->root, *found = NULL;

	while (n) {
		bool side = n->key <= key;

		if (side)
			found = n;
		n = n->child[side];
	}
	return found;
}

struct tree_node *tree_next(const struct tree *t, const struct tree_node *n)
{
	struct tree_node *at = t->root, *found = NULL;

	while (at) {
		bool side = !before(n, at);

		if (!side)
			found = at;
		at = at->child[side];
	}
	return found;
}
