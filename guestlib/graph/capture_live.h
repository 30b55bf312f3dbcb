/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The captures under way, for the files that make them up; all of it under the graphs'
 * lock.
 *
 *	capture.c       operations that are captured, and refusals meanwhile
 *	capture_begin.c beginning and end
 *	capture_set.c   sets of nodes
 */
#ifndef WEFT_GUEST_CAPTURE_LIVE_H
#define WEFT_GUEST_CAPTURE_LIVE_H

#include "graph/capture.h"

struct node_set {
	struct graph_node **v;
	size_t n, room;
};

struct cap_stream {
	struct list link; /* capture.streams */
	struct capture *capture;
	uint64_t wire;               /* 0: it has been destroyed */
	uint64_t ctx;                /* whose stream it is */
	struct guest_thread *thread; /* the stream's, if wire is PER_THREAD */
	struct node_set deps;
	CUgraphNode *shown; /* deps as cuStreamGetCaptureInfo gave them */
	CUgraphEdgeData *edges;
};

struct cap_event {
	struct list link; /* capture.events */
	struct capture *capture;
	struct guest_event *event; /* whose `captured` it is */
	struct node_set deps;
};

struct capture {
	struct list link;
	uint64_t id;
	CUstreamCaptureMode mode;
	struct guest_thread *thread; /* that began it */
	struct graph *graph;
	bool own_graph; /* made for it */
	bool invalid;
	struct cap_stream *origin;
	struct list streams, events;
};

extern struct list captures;

/* ---- capture_set.c ---- */

/* Add a node, and all nodes of another set. False: no memory; some may have been
 * added. */
bool node_set_add(struct node_set *s, struct graph_node *n);
bool node_set_join(struct node_set *s, const struct node_set *more);

/* Adds nodes that a caller names, all of graph g. */
CUresult node_set_collect(struct graph *g, const CUgraphNode *nodes, size_t n,
			  struct node_set *set);

/* ---- capture.c ---- */

/* Find a stream that is being captured, as it travels or as a caller gives it; NULL: it
 * is not. */
struct cap_stream *capture_find(uint64_t wire);
struct cap_stream *capture_find_stream(CUstream stream, bool ptsz);

/* Adds a stream to a capture; NULL: no memory. */
struct cap_stream *capture_join(struct capture *c, uint64_t wire);
void capture_event_forget(struct cap_event *e);

/* Makes a capture invalid for the reason r, and returns r. */
CUresult capture_invalidate(struct capture *c, CUresult r);

/* Refuses use of the legacy stream while a stream of the current context that waits for
 * it is being captured: STREAM_CAPTURE_IMPLICIT. invalidate: those captures become
 * invalid. */
CUresult capture_forbid_legacy(bool invalidate);

/* ---- capture_begin.c ---- */

/* Hooks: capture_hooks.stream_gone and ctx_gone. */
void capture_end_stream(uint64_t wire);
void capture_end_ctx(uint64_t ctx);

/* True if all n edges are plain, or data is NULL: streams wait for the whole of what they
 * depend on, and no other edges can be given. */
bool capture_edges_plain(const CUgraphEdgeData *data, size_t n);

#endif
