/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that run in this process, and the memory through which they copy. */
#ifndef WEFT_GUEST_GRAPH_HOST_H
#define WEFT_GUEST_GRAPH_HOST_H

#include "graph/op.h"

struct graph_host;
struct exec_stage;

/* stage.c: the last reference leaves the memory to graph_stage_flush(), which is
 * called without the lock. */
void exec_stage_put(struct exec_stage *s);
void graph_stage_flush(struct guest_thread *t);

/* Makes the record of a node that runs in this process, under a number that the worker
 * gets. op: a function, a copy (through stage, or without one) or, if empty, nothing. The
 * caller has the one reference. NULL: out of memory. */
struct graph_host *graph_host_new(const struct graph_op *op, CUcontext ctx,
				  struct exec_stage *in, void *stage);
uint64_t graph_host_id(const struct graph_host *h);
/* Takes a reference for one more run; before each launch. */
void graph_host_arm(struct graph_host *h);
void graph_host_put(struct graph_host *h);

/* Runs the node with that number, or nothing if status is an error; drops the reference
 * of this run. On the helper thread, without the lock. Returns the result of a copy, for
 * the call that waits for the graph. */
CUresult graph_host_run(uint64_t id, CUresult status);

#endif
