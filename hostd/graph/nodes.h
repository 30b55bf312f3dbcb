/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an exec, for the files of this directory. */
#ifndef WEFT_GRAPH_NODES_H
#define WEFT_GRAPH_NODES_H

#include "graph/exec.h"

struct exec_node {
	struct dev_node op;
	struct dev_edge *edges;
	uint32_t n_edges;

	/* streams.c */
	uint32_t lane;
	struct dev_event *done; /* if another lane waits for it */
	bool has_dependents;
};

struct exec {
	const struct device_ops *ops;
	struct dev_ctx *ctx;
	struct exec_owner owner;
	struct exec_shape shape;
	CUresult failed;
	bool ready;
	uint64_t charged;

	struct dev_graph *graph; /* the device's own, if it has such */
	bool stale;              /* it is not what the nodes say any more */

	/* streams.c */
	bool launched;
	unsigned n_lanes;
	struct dev_stream *lanes[EXEC_LANES_MAX]; /* lanes[0] is the launch's */
	struct dev_event *fork, *end;

	struct exec_node nodes[];
};

/* streams.c */
CUresult exec_streams_ready(struct exec *x);
CUresult exec_streams_launch(struct exec *x, struct dev_stream *st);
void exec_streams_fini(struct exec *x);

#endif
