/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs, as the guest has them; under the graphs' lock. */
#ifndef WEFT_GUEST_GRAPH_EXEC_H
#define WEFT_GUEST_GRAPH_EXEC_H

#include "graph/mem.h"
#include "graph/host.h"
#include "graph/op.h"
#include "object/managed.h"

/* One node at the worker, with its number there as index. */
struct exec_item {
	uint64_t id; /* of its node in the graph */
	CUgraphNodeType type;
	bool marker, enabled, second;
	enum graph_part part;
	struct graph_host *host; /* if it runs here */
	struct graph_op *copy;   /* a host node's, to switch it on again */
	struct exec_stage *in;   /* has the stage of both parts; NULL: there is none */
	void *stage;
	size_t stage_size;
	uint32_t first_dep, n_deps;
	uint32_t body, first_body; /* as graph_flat_node's */
};

struct exec_name {
	uint64_t id;
	uint32_t index;
};

struct guest_exec {
	uint64_t handle;
	CUcontext ctx;
	unsigned long long flags;
	size_t n, n_hosts, n_mems;
	uint32_t n_bodies;
	uint64_t shell;  /* the worker's, for conditional nodes; 0: none */
	uint64_t single; /* handle of the graph, if that is single */
	struct exec_mem *mems;
	struct exec_item *items;
	struct exec_name *names; /* by id */
	size_t n_names;
	struct list stages; /* struct exec_stage */
	struct managed_names managed; /* to be on the device when it is launched */
	uint64_t *deps;     /* as graph_flat.deps */
	struct list users;  /* user.c */
	_Atomic uint64_t
		stream; /* of the last launch, as it travels; 0: there was none */
};

/* Memory that guest and device share. */
struct exec_stage {
	struct list link;
	_Atomic unsigned refs; /* the exec's, and of each record of what runs here */
	void *p;
};

/* stage.c */
/* Makes memory for stages, of size bytes, which x refers to; NULL: the device cannot see
 * any of ours, or there is no more. */
struct exec_stage *exec_stage_new(struct guest_thread *t, struct guest_exec *x,
				  size_t size);
void exec_stages_drop(struct guest_exec *x);
void exec_stage_ref(struct exec_stage *s);

/* Instantiates a graph, which must not be single and have an executable graph already;
 * flags are checked. Waits for the worker. */
CUresult exec_new(struct guest_thread *t, struct graph *g, unsigned long long flags,
		  struct guest_exec **ret_x);

/* Ends x; things that launches under way still use stay until they have ended. Afterwards
 * the caller calls graph_mem_flush() and graph_stage_flush() without the lock. */
CUresult exec_destroy(struct guest_thread *t, struct guest_exec *x);

/* Finds an executable graph by its handle; NULL: there is none. */
struct guest_exec *exec_lookup(CUgraphExec exec);

/* Finds the item of a node; NULL if x has none of that type. */
struct exec_item *exec_item(struct guest_exec *x, CUgraphNode node, CUgraphNodeType type);

/* send.c */
/* Sends the operation of a node to the worker. host: its record, if it runs here. */
CUresult exec_send(struct guest_thread *t, struct guest_exec *x, uint32_t index,
		   const struct graph_op *op, const struct graph_host *host);

#endif
