/* SPDX-License-Identifier: Apache-2.0 */
/* All nodes of a graph in an order, child graphs and bodies included. */
#ifndef WEFT_GUEST_GRAPH_FLAT_H
#define WEFT_GUEST_GRAPH_FLAT_H

#include "graph/op.h"

struct graph_flat_node {
	struct graph_node *node;
	uint64_t id;
	bool marker; /* stands for the end of a child graph */
	enum graph_part part;
	bool second;         /* of two parts */
	uint32_t body;       /* of a conditional node; 0: none */
	uint32_t first_body; /* of the bodies of a conditional node */
	uint32_t n_deps;
	uint32_t first_dep; /* in graph_flat.deps */
};

struct graph_flat {
	struct graph_flat_node *nodes;
	uint64_t *deps; /* as in graph_deps: a number, and how above it */
	size_t n, room, n_deps, deps_room;
	uint32_t body, n_bodies;
};

/* Puts every node behind those it depends on. INVALID_VALUE: a cycle, or too many nodes.
 * After success graph_flat_fini() frees *ret_f. */
CUresult graph_flatten(struct graph *g, struct graph_flat *ret_f);
void graph_flat_fini(struct graph_flat *f);

#endif
