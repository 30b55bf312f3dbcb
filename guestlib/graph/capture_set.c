/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "graph/capture_live.h"

bool node_set_add(struct node_set *s, struct graph_node *n)
{
	size_t i, room = s->room ? 2 * s->room : 4;
	struct graph_node **p;

	for (i = 0; i < s->n; i++) {
		if (s->v[i] == n)
			return true;
	}
	if (s->n == s->room) {
		p = realloc(s->v, room * sizeof(struct graph_node *));
		if (!p)
			return false;
		s->v = p;
		s->room = room;
	}
	s->v[s->n++] = n;
	return true;
}

bool node_set_join(struct node_set *s, const struct node_set *more)
{
	size_t i;

	for (i = 0; i < more->n; i++) {
		if (!node_set_add(s, more->v[i]))
			return false;
	}
	return true;
}

CUresult node_set_collect(struct graph *g, const CUgraphNode *nodes, size_t n,
			  struct node_set *set)
{
	size_t i;

	if (n && !nodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		struct graph_node *node = graph_node_lookup(nodes[i]);

		if (!node || node->graph != g)
			return CUDA_ERROR_INVALID_VALUE;
		if (!node_set_add(set, node))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}
